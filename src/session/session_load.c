/* Loading checkpoints. The newest one is found before anything that depends on it is created, and
 * is read once all ranks have found the same. */
#include "session/session_ckpt.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "session/session_weights.h"
#include "telegrad/spec.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
                       "epochs of %llu steps, and of %llu where the checkpoint was saved: allowed "
                       "with another number of ranks: less than 2^32",
                       (unsigned long long)now, (unsigned long long)steps);
    s->epoch_shift = (int64_t)t - (int64_t)(at / steps * now + at % steps * now / steps);
    return TG_OK;
}

static tg_status look_into(tg_session *s, tg__ckpt_reader *r)
{
    const void *bytes;
    tg__counters c;
    TG_TRY(tg__ckpt_get(r, "session", sizeof c, &bytes, NULL));
    memcpy(&c, bytes, sizeof c);
    if (c.world < 1 || c.world > TG_RANKS_MAX || c.rank < 0 || c.rank >= c.world)
        return tg_fail(TG_E_CORRUPT, "the checkpoint was saved by rank %d of %d: allowed: 1 to %d",
                       (int)c.rank, (int)c.world, TG_RANKS_MAX);
    if (tg__ckpt_has(r, TG__SECTION_EPOCHS)) {
        TG_TRY(tg__ckpt_get(r, TG__SECTION_EPOCHS, sizeof s->epoch_shift, &bytes, NULL));
        memcpy(&s->epoch_shift, bytes, sizeof s->epoch_shift);
    }
    TG_TRY(tg__session_get_length(s, r));
    s->from.ranks = c.world;
    s->from.steps_per_epoch = c.steps_per_epoch;
    return tg__session_taken_over(s) ? shift_epochs(s, c.t, c.steps_per_epoch) : TG_OK;
}

bool tg__session_taken_over(const tg_session *s)
{
    return s->from.ranks != 0 && s->from.ranks != s->transport->size;
}

/* If the number of ranks is the same, this rank's own file is enough. If there are more ranks than
 * before, some have no file. */
tg_status tg__session_look(tg_session *s, const char *dir)
{
    tg__weights_mark mark;
    tg__ckpt_reader *r;
    const int rank = s->transport->rank;
    TG_TRY(tg__ckpt_dir_latest(dir, &s->from.step));
    TG_TRY(tg__ckpt_dir_mark(dir, s->from.step, &mark)); /* checks the format's version */
    const bool own = rank == 0 || has_file(s, dir, rank);
    TG_TRY(open_rank(s, dir, own ? rank : 0, &r));
    tg_status status = look_into(s, r);
    if (status == TG_OK && !tg__session_taken_over(s) && own)
        s->from.own = r;
    else
        tg__ckpt_close(r);
    if (status == TG_OK && !tg__session_taken_over(s) && !own)
        status = open_rank(s, dir, rank, &s->from.own); /* names the missing one */
    return status;
}

static tg_status is_ours(const tg_session *s)
{
    if (tg__session_taken_over(s))
        return TG_OK; /* each file is checked when it is read */
    char *text = tg__session_identity(s);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
    const tg_status status = tg__ckpt_check(s->from.own, text, NULL);
    free(text);
    return status;
}

typedef struct finding {
    uint64_t step;
    int64_t ranks, epoch_shift;
} finding;

static tg_status same_finding(tg_session *s)
{
    const finding own = {s->from.step, s->from.ranks, s->epoch_shift};
    finding *all;
    const int size = s->transport->size;
    TG_TRY(tg_alloc((size_t)size, sizeof *all, &all));
    tg_status status =
        tg__gather_alike(s->engine, "what was found to resume", &own, sizeof own, all);
    for (int rank = 0; rank < size && status == TG_OK; rank++)
        if (all[rank].step != own.step)
            status = tg_fail(TG_E_MISMATCH,
                             "rank %d found a checkpoint of step %llu, rank %d one of step %llu",
                             s->transport->rank, (unsigned long long)own.step, rank,
                             (unsigned long long)all[rank].step);
        else if (all[rank].ranks != own.ranks || all[rank].epoch_shift != own.epoch_shift)
            status = tg_fail(
                TG_E_MISMATCH,
                "rank %d found a checkpoint of step %llu saved by %lld ranks, rank %d one of %lld",
                s->transport->rank, (unsigned long long)own.step, (long long)own.ranks, rank,
                (long long)all[rank].ranks);
    free(all);
    return status;
}

tg_status tg__session_found_alike(tg_session *s, tg_status own, const char *why)
{
    const tg_status status = own == TG_OK ? is_ours(s) : tg_fail(own, "%s", why);
    TG_TRY(tg__agree(s->engine, status));
    return same_finding(s);
}

/* ---- reading it ------------------------------------------------------------------------------ */

void tg__inbox_name(char name[64], uint64_t number, const char *what)
{
    snprintf(name, 64, "inbox/%llu/%s", (unsigned long long)number, what);
}

static tg_status get_vector(tg__ckpt_reader *r, const char *name, size_t n, float **vector_p)
{
    const void *bytes;
    size_t len;
    TG_TRY(tg__ckpt_get(r, name, n * sizeof(float), &bytes, &len));
    if (*vector_p == NULL)
        TG_TRY(tg_alloc(n, sizeof(float), vector_p));
    memcpy(*vector_p, bytes, len);
    return TG_OK;
}

tg_status tg__session_get_inbox(tg_session *s, tg__ckpt_reader *r, const tg__counters *c,
                                uint64_t number, lane_op **o_p)
{
    const tg__inbox_head *head;
    const void *bytes;
    char name[64];
    tg__inbox_name(name, number, "head");
    TG_TRY(tg__ckpt_get(r, name, sizeof *head, &bytes, NULL));
    head = bytes;
    if (head->bucket >= s->nbuckets || head->lane >= s->lanes)
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint section %s: bucket %u, lane %u: there are %zu and %zu", name,
                       head->bucket, head->lane, s->nbuckets, s->lanes);
    bucket *b = &s->bucket[head->bucket];
    lane_op *o = &b->lane[head->lane];
    tg__inbox_head copy = *head;
    if (o->waiting || copy.tag >= s->strategy->tags || copy.of_step > c->t ||
        copy.order >= c->order || !(copy.lr >= 0) || !(copy.eta >= 0) || isinf(copy.lr) ||
        isinf(copy.eta))
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint section %s: tag %u of step %llu, number %llu, lr %g, eta %g: "
                       "allowed: once a lane, tags below %u, steps to %llu, numbers below %llu, "
                       "finite rates >= 0",
                       name, copy.tag, (unsigned long long)copy.of_step,
                       (unsigned long long)copy.order, copy.lr, copy.eta, s->strategy->tags,
                       (unsigned long long)c->t, (unsigned long long)c->order);
    tg__inbox_name(name, number, "aggregate");
    TG_TRY(get_vector(r, name, b->n, &o->inbox));
    tg__inbox_name(name, number, "owed");
    if (copy.owes)
        TG_TRY(get_vector(r, name, b->n, &o->owed));
    o->owes = copy.owes != 0;
    o->waiting = o->loaded = o->undone = true;
    o->counted = false;
    o->due = copy.due;
    o->order = copy.order;
    o->lr = copy.lr;
    o->tag = copy.tag;
    o->update = copy.update != 0;
    o->op.method = b->method;
    o->op.step = copy.of_step;
    o->op.bucket = (uint16_t)copy.bucket;
    o->op.flags = (uint16_t)(copy.flags & TG__FLAG_NONFINITE);
    o->op.flags_in = 0;
    o->op.task = (tg__task){.step = copy.of_step,
                            .coded = copy.coded != 0,
                            .lane = copy.lane,
                            .eta = copy.eta,
                            .density = copy.density,
                            .coded_bytes = copy.coded_bytes};
    *o_p = o;
    return TG_OK;
}

tg_status tg__session_get_extra(tg_session *s, tg__ckpt_reader *r)
{
    const void *bytes;
    size_t len;
    TG_TRY(tg__ckpt_get(r, "extra", SIZE_MAX, &bytes, &len));
    TG_TRY(tg_alloc(len, 1, &s->ckpt_bytes));
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

static tg_status get_all(tg_session *s, tg__ckpt_reader *r, const tg_weights *w)
{
    const void *bytes;
    size_t len;
    tg__counters c;
    lane_op *o;
    TG_TRY(tg__ckpt_get(r, "session", sizeof c, &bytes, &len));
    memcpy(&c, bytes, sizeof c);
    if (c.rank != s->transport->rank || c.t != s->from.step)
        return tg_fail(TG_E_CORRUPT,
                       "the checkpoint of rank %d in step %llu is of rank %d in step %llu",
                       s->transport->rank, (unsigned long long)s->from.step, (int)c.rank,
                       (unsigned long long)c.t);
    if (c.steps_per_epoch != s->config.steps_per_epoch)
        return tg_fail(
            TG_E_MISMATCH, "the checkpoint was saved with steps_per_epoch=%llu, this job has %llu",
            (unsigned long long)c.steps_per_epoch, (unsigned long long)s->config.steps_per_epoch);
    for (size_t i = 0; i < s->ntensors; i++) { /* check all of them before changing any */
        char name[512];
        if (!tg__session_is_own(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_get(r, name, s->tensor[i].n * sizeof(float), &bytes, &len));
    }
    for (uint64_t i = 0; i < c.in_flight; i++)
        TG_TRY(tg__session_get_inbox(s, r, &c, i, &o));
    TG_TRY(tg__session_get_extra(s, r));
    TG_TRY(tg__session_get_round(s, r));
    TG_TRY(tg__ckpt_get_state(r, s->state));
    TG_TRY(tg__session_read_weights(s, w));
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (!tg__session_is_own(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_get(r, name, s->tensor[i].n * sizeof(float), &bytes, &len));
        memcpy(s->tensor[i].param, bytes, len);
    }
    tg__session_take_counters(s, &c);
    return TG_OK;
}

static tg_status read_checkpoint(tg_session *s, const char *dir)
{
    tg_weights *w = NULL;
    TG_TRY(tg__weights_open_step(dir, s->from.step, &w));
    const tg_status status =
        tg__session_taken_over(s) ? tg__session_take_over(s, dir, w) : get_all(s, s->from.own, w);
    tg_weights_close(w);
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    return status;
}

/* Pushes belong to single ranks: deliver them now. Then the state of single ranks may change
 * hands. */
static tg_status settle_takeover(tg_session *s)
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
               "resumed from %d workers with %d: residuals and other state of single workers "
               "redistributed%s%s",
               s->from.ranks, s->transport->size,
               anew == NULL ? "" : "; started anew: ", s->from.anew);
    return TG_OK;
}

tg_status tg_session_resumed(const tg_session *s, tg_resumed *resumed_p)
{
    TG__ARG(s);
    TG__ARG(resumed_p);
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
    TG_TRY(tg__agree(s->engine, read_checkpoint(s, dir)));
    if (tg__session_taken_over(s))
        TG_TRY(settle_takeover(s));
    s->near_reported = tg__engine_bytes_near(s->engine, &s->bytes_reported);
    return TG_OK;
}

tg_status tg_session_load(tg_session *s, const char *dir, const void **extra_p, size_t *len_p)
{
    TG__ARG(s);
    TG__ARG(dir);
    TG__ARG(extra_p);
    TG__ARG(len_p);
    TG_TRY(tg__session_check(s));
    TG_TRY(tg__session_can_begin(s, "tg_session_load"));
    tg__engine_stop_if(s->engine, tg__session_wants_stop, s);
    tg_status status = load(s, dir);
    tg__engine_stop_if(s->engine, NULL, NULL);
    if (status != TG_OK)
        return tg__session_failed(s, status);
    tg__session_round_goes_on(s);
    *extra_p = s->ckpt_bytes;
    *len_p = s->ckpt_len;
    return TG_OK;
}
