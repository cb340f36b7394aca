/* Loading checkpoints. The newest one is found before anything that depends on it is created, and
 * is read once all ranks have found the same. */
#include "session/session_ckpt.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "telegrad/spec.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- finding it ------------------------------------------------------------------------------ */

static tg_status open_rank(const tg_session *s, const char *dir, int rank, tg__ckpt_reader **r_p)
{
    char path[PATH_MAX];
    TG_TRY(tg__ckpt_dir_path(dir, s->from.step, rank, path, sizeof path));
    return tg__ckpt_open(path, NULL, r_p);
}

static bool has_file(const tg_session *s, const char *dir, int rank)
{
    char path[PATH_MAX];
    return tg__ckpt_dir_path(dir, s->from.step, rank, path, sizeof path) == TG_OK &&
           access(path, F_OK) == 0;
}

/* No position in epochs is negative or too large for the arithmetic. */
static tg_status check_epochs(const tg_session *s, uint64_t t)
{
    const int64_t shift = s->epoch_shift;
    if (t <= INT64_MAX && shift <= (int64_t)t && shift >= (int64_t)t - INT64_MAX)
        return TG_OK;
    return tg_fail(TG_E_CORRUPT,
                   "the checkpoint of step %llu has an epoch_shift of %lld: allowed: positions in "
                   "epochs, step - epoch_shift, from 0 to 2^63 - 1",
                   (unsigned long long)t, (long long)shift);
}

/* The length of an epoch has changed: continue at the same fraction of the current epoch, rounded
 * down to whole steps. */
static tg_status shift_epochs(tg_session *s, uint64_t t, uint64_t steps)
{
    const uint64_t now = s->config.steps_per_epoch;
    const uint64_t at = tg__epochs_position((tg__epochs){steps, s->epoch_shift}, t);
    if (steps == now || steps == 0 || now == 0) {
        s->epoch_shift = steps == now ? s->epoch_shift : 0;
        return TG_OK;
    }
    if (steps > UINT32_MAX || now > UINT32_MAX || at / steps > INT32_MAX)
        return tg_fail(TG_E_UNSUPPORTED,
                       "an epoch has %llu steps, and %llu where the checkpoint was saved: with "
                       "another number of ranks, both must be below 2^32",
                       (unsigned long long)now, (unsigned long long)steps);
    s->epoch_shift = (int64_t)t - (int64_t)(at / steps * now + at % steps * now / steps);
    return TG_OK;
}

tg_status tg__session_look_into(tg_session *s, tg__ckpt_reader *r)
{
    tg__counters c;
    TG_TRY(tg__ckpt_read(r, "session", &c, sizeof c));
    if (c.world < 1 || c.world > TG_RANKS_MAX || c.rank < 0 || c.rank >= c.world)
        return tg_fail(TG_E_CORRUPT, "the checkpoint was saved by rank %d of %d: allowed: 1 to %d",
                       (int)c.rank, (int)c.world, TG_RANKS_MAX);
    s->epoch_shift = 0; /* not that of another checkpoint */
    if (tg__ckpt_has(r, TG__SECTION_EPOCHS))
        TG_TRY(tg__ckpt_read(r, TG__SECTION_EPOCHS, &s->epoch_shift, sizeof s->epoch_shift));
    TG_TRY(check_epochs(s, c.t));
    TG_TRY(tg__session_get_length(s, r));
    s->from.ranks = c.world;
    s->from.steps_per_epoch = c.steps_per_epoch;
    return tg__session_taken_over(s) ? shift_epochs(s, c.t, c.steps_per_epoch) : TG_OK;
}

static tg_status no_own_file(const tg_session *s, const char *dir)
{
    const int rank = s->transport->rank;
    return tg_fail(TG_E_IO,
                   "%s: its checkpoint of step %llu has no file of rank %d: use the folder that "
                   "rank %d saved to, or one that all ranks share",
                   dir, (unsigned long long)s->from.step, rank, rank);
}

/* If the number of ranks is the same, this rank's own file is enough. If there are more ranks than
 * before, some have no file. */
static tg_status look_at_step(tg_session *s, const char *dir, uint64_t step)
{
    tg__weights_mark mark;
    tg__ckpt_reader *r;
    const int rank = s->transport->rank;
    s->from.step = step;
    TG_TRY(tg__ckpt_dir_mark(dir, step, TG__WEIGHTS_SAVED, &mark)); /* checks the version */
    const bool own = has_file(s, dir, rank);
    if (!own && !has_file(s, dir, 0))
        return no_own_file(s, dir);
    TG_TRY(open_rank(s, dir, own ? rank : 0, &r));
    tg_status status = tg__session_look_into(s, r);
    if (status == TG_OK && !tg__session_taken_over(s) && own)
        s->from.own = r;
    else
        tg__ckpt_close(r);
    return status == TG_OK && !tg__session_taken_over(s) && !own ? no_own_file(s, dir) : status;
}

tg_status tg__session_look(tg_session *s, const char *dir)
{
    struct stat folder;
    TG_TRY(tg__ckpt_dir_latest(dir, s->transport->rank == 0, &s->from.newest));
    if (stat(dir, &folder) != 0)
        return tg_fail(TG_E_IO, "cannot inspect %s: %s", dir, strerror(errno));
    s->from.device = folder.st_dev;
    s->from.inode = folder.st_ino;
    return tg__ckpt_dir_advise(dir, s->from.newest, look_at_step(s, dir, s->from.newest));
}

static tg_status is_ours(const tg_session *s)
{
    if (tg__session_taken_over(s))
        return TG_OK; /* each file is checked when it is read */
    TG__FREED char *text = tg__session_identity(s);
    return text != NULL ? tg__ckpt_check(s->from.own, text, NULL)
                        : tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
}

typedef struct finding {
    uint64_t step;
    int64_t ranks, epoch_shift;
    uint64_t specs;
} finding;

/* Of all specs with their warm-ups, which depend on the length that the checkpoint holds. */
static uint64_t hash_specs(const tg_session *s)
{
    const char *text = tg_spec_text(s->strategy_spec);
    uint64_t hash = tg_hash(TG_HASH_START, text, strlen(text));
    for (size_t i = 0; i < s->rules.count; i++) {
        text = tg_spec_text(s->rules.rule[i].spec);
        hash = tg_hash(hash, text, strlen(text) + 1);
    }
    return hash;
}

static tg_status same_finding(tg_session *s)
{
    const finding own = {s->from.step, s->from.ranks, s->epoch_shift, hash_specs(s)};
    TG__FREED finding *all = NULL;
    const int size = s->transport->size;
    TG_TRY(tg_alloc((size_t)size, sizeof *all, &all));
    TG_TRY(tg__gather_all(s->engine, "what was found to resume", &own, sizeof own, all));
    for (int rank = 0; rank < size; rank++)
        if (all[rank].step != own.step)
            return tg_fail(TG_E_MISMATCH,
                           "rank %d found a checkpoint of step %llu, rank %d one of step %llu",
                           s->transport->rank, (unsigned long long)own.step, rank,
                           (unsigned long long)all[rank].step);
        else if (all[rank].ranks != own.ranks || all[rank].epoch_shift != own.epoch_shift)
            return tg_fail(
                TG_E_MISMATCH,
                "rank %d found a checkpoint of step %llu saved by %lld ranks, rank %d one of %lld",
                s->transport->rank, (unsigned long long)own.step, (long long)own.ranks, rank,
                (long long)all[rank].ranks);
        else if (all[rank].specs != own.specs)
            return tg_fail(TG_E_MISMATCH,
                           "the checkpoints of step %llu of ranks %d and %d are of runs of "
                           "different lengths: their warm-ups differ",
                           (unsigned long long)own.step, s->transport->rank, rank);
    return TG_OK;
}

/* The checkpoints that a rank has, newest first. */
typedef struct held {
    uint64_t count, step[TG__CKPT_STEPS];
} held;

static bool has_step(const held *h, uint64_t step)
{
    for (uint64_t i = 0; i < h->count && i < TG__CKPT_STEPS; i++)
        if (h->step[i] == step)
            return true;
    return false;
}

/* The newest step that all ranks have, and a rank that lacks the newest of all. */
static tg_status common_step(const held *all, int size, uint64_t *step_p, int *lacks_p)
{
    int newest = 0;
    for (int rank = 1; rank < size; rank++)
        if (all[rank].step[0] > all[newest].step[0])
            newest = rank;
    *lacks_p = newest;
    for (int rank = 0; rank < size; rank++)
        if (!has_step(&all[rank], all[newest].step[0]))
            *lacks_p = rank;
    for (uint64_t i = 0; i < all[0].count && i < TG__CKPT_STEPS; i++) {
        int rank = 0;
        while (rank < size && has_step(&all[rank], all[0].step[i]))
            rank++;
        if (rank == size) {
            *step_p = all[0].step[i];
            return TG_OK;
        }
    }
    return tg_fail(TG_E_MISMATCH,
                   "no checkpoint exists on all ranks: the newest on rank %d is of step %llu, on "
                   "rank %d of step %llu",
                   newest, (unsigned long long)all[newest].step[0], *lacks_p,
                   (unsigned long long)all[*lacks_p].step[0]);
}

/* Look at another checkpoint than before. What depends on it has been created by now, and must be
 * the same. */
static tg_status look_back(tg_session *s, const char *dir, uint64_t step)
{
    const struct tg__length length = s->from.length;
    const int ranks = s->from.ranks;
    const int64_t shift = s->epoch_shift;
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    TG_TRY(look_at_step(s, dir, step));
    if (s->from.ranks == ranks && s->epoch_shift == shift &&
        s->from.length.total_steps == length.total_steps &&
        s->from.length.steps_per_epoch == length.steps_per_epoch)
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "%s: the newest checkpoint (step %llu) is missing on some ranks, and was saved "
                   "by a run of another length or number of ranks than that of step %llu: remove "
                   "it to resume from step %llu",
                   dir, (unsigned long long)s->from.newest, (unsigned long long)step,
                   (unsigned long long)step);
}

/* Where ranks have folders of their own, a run that was killed while it saved may have left a
 * checkpoint that some have and some have not. Go back to the newest one that all have. */
static tg_status go_back(tg_session *s, const char *dir)
{
    const int size = s->transport->size;
    held own = {0};
    TG__FREED held *all = NULL;
    size_t count = 0;
    uint64_t step = 0;
    int lacks = 0;
    tg_status status = tg_alloc((size_t)size, sizeof *all, &all);
    if (status == TG_OK)
        status = tg__ckpt_dir_steps(dir, false, own.step, &count);
    own.count = count;
    TG_TRY(tg__agree(s->engine, status));
    TG_TRY(tg__gather_all(s->engine, NULL, &own, sizeof own, all));
    TG_TRY(common_step(all, size, &step, &lacks));
    if (step == s->from.step)
        return TG_OK;
    for (lacks = 0; lacks < size && has_step(&all[lacks], s->from.newest);)
        lacks++;
    if (lacks < size) /* else a newer one was saved after this rank had looked */
        tg_log(TG_LOG_WARN,
               "%s: its checkpoint of step %llu is skipped, because rank %d lacks it; the newest "
               "one that all ranks have is of step %llu",
               dir, (unsigned long long)s->from.newest, lacks, (unsigned long long)step);
    return look_back(s, dir, step);
}

tg_status tg__session_found_alike(tg_session *s, const char *dir, const tg__latch *own)
{
    const tg_status looked = tg__agree(s->engine, tg__latch_get(own));
    if (looked != TG_OK && own->status != TG_OK)
        return tg__latch_get(own); /* its own words: tg__agree put a rank before them */
    TG_TRY(looked);
    const tg_status found = dir != NULL ? go_back(s, dir) : TG_OK;
    TG_TRY(tg__agree(s->engine, found == TG_OK ? is_ours(s) : found));
    return same_finding(s);
}

/* ---- reading it ------------------------------------------------------------------------------ */

void tg__inbox_name(char name[64], uint64_t number, const char *what)
{
    snprintf(name, 64, "inbox/%llu/%s", (unsigned long long)number, what);
}

static tg_status get_vector(tg_session *s, tg__ckpt_reader *r, const char *name, size_t n,
                            float **vector_p)
{
    if (*vector_p == NULL)
        TG_TRY(tg__owned_alloc(&s->owned, n, sizeof(float), vector_p));
    return tg__ckpt_read(r, name, *vector_p, n * sizeof(float));
}

tg_status tg__session_get_inbox(tg_session *s, tg__ckpt_reader *r, const tg__counters *c,
                                uint64_t number, lane_op **o_p)
{
    tg__inbox_head head;
    char name[64];
    tg__inbox_name(name, number, "head");
    TG_TRY(tg__ckpt_read(r, name, &head, sizeof head));
    if (head.bucket >= s->nbuckets || head.lane >= s->lanes)
        return tg_fail(
            TG_E_CORRUPT,
            "checkpoint section %s: bucket %u, lane %u: out of range (%zu buckets of %zu lanes)",
            name, head.bucket, head.lane, s->nbuckets, s->lanes);
    bucket *b = &s->bucket[head.bucket];
    lane_op *o = &b->lane[head.lane];
    if (o->waiting || head.tag >= s->strategy->tags || head.of_step > c->t ||
        head.order >= c->order || !(head.lr >= 0) || !(head.eta >= 0) || isinf(head.lr) ||
        isinf(head.eta))
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint section %s: tag %u of step %llu, number %llu, lr %g, eta %g: "
                       "allowed: once a lane, tags below %u, steps to %llu, numbers below %llu, "
                       "finite rates >= 0",
                       name, head.tag, (unsigned long long)head.of_step,
                       (unsigned long long)head.order, head.lr, head.eta, s->strategy->tags,
                       (unsigned long long)c->t, (unsigned long long)c->order);
    tg__inbox_name(name, number, "aggregate");
    TG_TRY(get_vector(s, r, name, b->n, &o->inbox));
    tg__inbox_name(name, number, "owed");
    if (head.owes)
        TG_TRY(get_vector(s, r, name, b->n, &o->owed));
    o->owes = head.owes != 0;
    o->loaded = o->undone = true;
    o->counted = false;
    o->due = head.due;
    o->order = head.order;
    o->lr = head.lr;
    o->tag = head.tag;
    o->update = head.update != 0;
    o->op.method = b->method;
    o->op.flags = (uint16_t)(head.flags & TG__FLAG_NONFINITE);
    o->op.flags_in = 0;
    o->op.left_out = false;
    o->op.task = (tg__task){.step = head.of_step,
                            .coded = head.coded != 0,
                            .lane = head.lane,
                            .eta = head.eta,
                            .density = head.density,
                            .coded_bytes = head.coded_bytes};
    tg__session_expect(s, o);
    *o_p = o;
    return TG_OK;
}

tg_status tg__session_get_extra(tg_session *s, tg__ckpt_reader *r)
{
    const void *bytes;
    size_t len;
    TG_TRY(tg__ckpt_get(r, "extra", SIZE_MAX, &bytes, &len));
    TG_TRY(tg__owned_alloc(&s->owned, len, 1, &s->ckpt_bytes));
    memcpy(s->ckpt_bytes, bytes, len);
    s->ckpt_len = len;
    return TG_OK;
}

void tg__session_take_counters(tg_session *s, const tg__counters *c)
{
    s->t = c->t;
    s->skipped = c->skipped;
    s->order = c->order;
    s->strategy->drained = c->drained;
    s->strategy->anew = c->anew;
    s->lost = c->lost != 0;
    s->lr = c->lr;
}

tg_status tg__session_get_all(tg_session *s, tg__ckpt_reader *r, const tg_weights *w)
{
    const void *bytes;
    tg__counters c;
    lane_op *o;
    TG_TRY(tg__ckpt_read(r, "session", &c, sizeof c));
    if (c.rank != s->transport->rank || c.t != s->from.step)
        return tg_fail(TG_E_CORRUPT, "the file for rank %d, step %llu holds rank %d, step %llu",
                       s->transport->rank, (unsigned long long)s->from.step, (int)c.rank,
                       (unsigned long long)c.t);
    if (c.steps_per_epoch != s->config.steps_per_epoch)
        return tg_fail(
            TG_E_MISMATCH, "the checkpoint was saved with steps_per_epoch=%llu, this job has %llu",
            (unsigned long long)c.steps_per_epoch, (unsigned long long)s->config.steps_per_epoch);
    for (size_t i = 0; i < s->ntensors; i++) { /* check all of them before changing any */
        char name[512];
        if (w != NULL && !tg__session_is_own(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_get(r, name, s->tensor[i].n * sizeof(float), &bytes, NULL));
    }
    for (uint64_t i = 0; i < c.in_flight; i++)
        TG_TRY(tg__session_get_inbox(s, r, &c, i, &o));
    TG_TRY(tg__session_get_extra(s, r));
    TG_TRY(tg__session_get_round(s, r));
    TG_TRY(tg__session_get_states(s, r, c.rank == 0));
    TG_TRY(tg__ckpt_get_state(r, s->state));
    TG_TRY(w != NULL ? tg__session_read_weights(s, w) : TG_OK);
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (w != NULL && !tg__session_is_own(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_read(r, name, s->tensor[i].param, s->tensor[i].n * sizeof(float)));
    }
    tg__session_take_counters(s, &c);
    return TG_OK;
}

static tg_status read_checkpoint(tg_session *s, const char *dir, uint64_t *hash_p)
{
    tg_weights *w = NULL;
    TG_TRY(tg__weights_open_step(dir, s->from.step, &w));
    tg_status status = tg__session_taken_over(s) ? tg__session_take_over(s, dir, w)
                                                 : tg__session_get_all(s, s->from.own, w);
    if (status == TG_OK && s->transport->size > 1)
        status = tg__session_hash_weights(s, w, hash_p);
    tg_weights_close(w);
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    return status;
}

/* Folders of different ranks may hold checkpoints of different runs. With exchange=none each rank
 * has weights of its own. */
tg_status tg__session_same_weights(tg_session *s, uint64_t hash)
{
    const int size = s->transport->size;
    TG__FREED uint64_t *all = NULL;
    if (size == 1 || tg__method_is_apart(tg__rules_default(&s->rules)->spec))
        return TG_OK;
    TG_TRY(tg__agree(s->engine, tg_alloc((size_t)size, sizeof *all, &all)));
    TG_TRY(tg__gather_all(s->engine, NULL, &hash, sizeof hash, all));
    for (int rank = 1; rank < size; rank++)
        if (all[rank] != all[0])
            return tg_fail(TG_E_MISMATCH,
                           "the checkpoints of step %llu of ranks 0 and %d hold different weights: "
                           "they are of different runs",
                           (unsigned long long)s->from.step, rank);
    return TG_OK;
}

/* Pushes belong to single ranks: deliver them now. Then the state of single ranks may change
 * hands. */
tg_status tg__session_settle_takeover(tg_session *s)
{
    const char *anew = NULL;
    if (s->strategy->pushes)
        TG_TRY(tg__session_deliver(s, UINT64_MAX));
    if (s->strategy->ops->regroup != NULL)
        anew = s->strategy->ops->regroup(s->strategy, s->t);
    if (anew != NULL)
        snprintf(s->from.anew, sizeof s->from.anew, "%s of strategy %s", anew,
                 tg_spec_name(s->strategy->spec));
    if (s->transport->rank == 0)
        tg_log(TG_LOG_WARN,
               "resumed from %d workers with %d: residuals and other state of single workers were "
               "redistributed%s%s",
               s->from.ranks, s->transport->size,
               anew == NULL ? "" : "; started again: ", s->from.anew);
    return TG_OK;
}

tg_status tg_session_resumed(const tg_session *s, tg_resumed *resumed_p)
{
    TG__ARGS(s, resumed_p);
    TG_TRY(tg__sized_room("tg_session_resumed: resumed_p", resumed_p,
                          TG__FIRST_SIZE(tg_resumed, anew)));
    const tg_resumed resumed = {.ranks = s->from.ranks,
                                .steps_per_epoch = s->from.steps_per_epoch,
                                .epoch_shift = s->epoch_shift,
                                .anew = s->from.anew};
    tg__sized_out(resumed_p, &resumed, sizeof resumed);
    return TG_OK;
}

static tg_status load(tg_session *s, const char *dir)
{
    TG_TRY(tg__session_handshake(s, "load", dir));
    uint64_t hash = 0;
    const tg_status status = read_checkpoint(s, dir, &hash);
    TG_TRY(tg__agree(s->engine, tg__ckpt_dir_advise(dir, s->from.step, status)));
    TG_TRY(tg__session_same_weights(s, hash));
    TG_TRY(tg__session_taken_over(s) ? tg__session_settle_takeover(s) : TG_OK);
    return tg__session_give_states(s);
}

tg_status tg_session_load(tg_session *s, const char *dir, const void **extra_p, size_t *len_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, dir, extra_p, len_p);
    TG_TRY(tg__session_start(s, "tg_session_load", dir, load));
    *extra_p = s->ckpt_bytes;
    *len_p = s->ckpt_len;
    return TG_OK;
}
