/* Checkpoints: every slot, the caller's parameters, counters, and the exchanges in flight, finished
 * but not applied. Parameters that are the same on all ranks are stored once, in model.safetensors,
 * not in the ranks' files. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "session/session_ckpt.h"
#include "telegrad/spec.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *tg__session_identity(const tg_session *s)
{
    char *text = NULL;
    size_t len;
    FILE *f = tg__memstream_open(&text, &len);
    if (f == NULL)
        return NULL;
    for (size_t i = 0; i < s->ntensors; i++) {
        const tensor *t = &s->tensor[i];
        fprintf(f, "tensor %s=kind %d, shape", t->name, t->kind);
        for (size_t d = 0; d < t->ndim; d++)
            fprintf(f, " %zu", t->shape[d]);
        fputc('\n', f);
    }
    fprintf(f, "method=%s\nstrategy=%s\noptimizer=%s\nseed=%llu\n",
            tg_spec_text(tg__rules_default(&s->rules)->spec), tg_spec_text(s->strategy->spec),
            tg__session_optimizer(s), (unsigned long long)s->config.seed);
    tg__nodes_print(s->nodes, false, f);
    tg__session_print_buckets(s, f);
    fprintf(f, "on_nonfinite=%d\n%s\n", s->config.on_nonfinite, s->config.job);
    tg__session_print_rules(s, f);
    return tg__memstream_close(f, &text) == TG_OK ? text : NULL;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* With one exchange in flight at a time, nothing is encoded before its delivery. So the memory
 * already gets back what a dropped step returns to it, or what was dropped from the sums of any
 * other step. */
static tg_status settle_op(tg_session *s, lane_op *o)
{
    if (!tg__session_drops(s, o))
        return tg__session_absorb(s, o);
    if (!o->undone)
        TG_TRY(o->op.method->def->program->undo(o->op.method, &o->op.task));
    o->undone = true;
    return TG_OK;
}

/* Complete what is in flight, early parameters first. */
tg_status tg__session_settle_flight(tg_session *s)
{
    TG_TRY(tg__session_deliver_early(s));
    TG_TRY(tg__session_await_all(s));
    for (lane_op *o = s->first_waiting; s->lanes == 1 && o != NULL; o = o->later)
        TG_TRY(settle_op(s, o));
    return TG_OK;
}

/* With several exchanges in flight, encoding continues in between, so store what each will owe the
 * memory. */
static tg_status find_owed(tg_session *s, lane_op *o)
{
    const size_t n = s->bucket[o->bucket].n;
    if (s->lanes == 1 || o->loaded)
        return TG_OK;
    if (o->owed == NULL)
        TG_TRY(tg__owned_alloc(&s->owned, n, sizeof *o->owed, &o->owed));
    return tg__method_owed(o->op.method, &o->op.task, tg__session_drops(s, o), o->owed);
}

static tg_status put_inbox(tg_session *s, tg__ckpt_writer *w, uint64_t *count_p)
{
    uint64_t count = 0;
    for (uint32_t b = 0; b < s->nbuckets; b++)
        for (uint32_t l = 0; l < s->lanes; l++) {
            lane_op *o = &s->bucket[b].lane[l];
            if (!o->waiting)
                continue;
            TG_TRY(find_owed(s, o));
            const bool owes = s->lanes > 1 && (o->owes || !o->loaded);
            tg__inbox_head head = {.of_step = o->op.task.step,
                                   .due = o->due,
                                   .order = o->order,
                                   .lr = o->lr,
                                   .density = o->op.task.density,
                                   .bucket = b,
                                   .lane = l,
                                   /* not STOP: a resumed run must not stop again */
                                   .flags = tg__op_flagged(&o->op) ? TG__FLAG_NONFINITE : 0,
                                   .coded = o->op.task.coded,
                                   .tag = o->tag,
                                   .update = o->update,
                                   .owes = owes,
                                   .eta = o->op.task.eta,
                                   .coded_bytes = o->op.task.coded_bytes};
            const float *aggregate = tg__session_aggregate(s, o);
            char name[64];
            tg__inbox_name(name, count, "head");
            TG_TRY(tg__ckpt_put(w, name, &head, sizeof head));
            tg__inbox_name(name, count, "aggregate");
            TG_TRY(tg__ckpt_put(w, name, aggregate, s->bucket[b].n * sizeof(float)));
            tg__inbox_name(name, count++, "owed");
            if (owes)
                TG_TRY(tg__ckpt_put(w, name, o->owed, s->bucket[b].n * sizeof(float)));
        }
    *count_p = count;
    return TG_OK;
}

tg_status tg__session_put_all(tg_session *s, tg__ckpt_writer *w, bool whole, const void *extra,
                              size_t len)
{
    tg__counters c = {.steps_per_epoch = s->config.steps_per_epoch,
                      .t = s->t,
                      .skipped = s->skipped,
                      .order = s->order,
                      .drained = s->strategy->drained,
                      .anew = s->strategy->anew,
                      .lost = s->lost,
                      .lr = s->lr,
                      .world = s->transport->size,
                      .rank = s->transport->rank};
    TG_TRY(put_inbox(s, w, &c.in_flight));
    TG_TRY(tg__ckpt_put(w, "session", &c, sizeof c));
    TG_TRY(tg__ckpt_put(w, "extra", extra, len));
    if (s->epoch_shift != 0)
        TG_TRY(tg__ckpt_put(w, TG__SECTION_EPOCHS, &s->epoch_shift, sizeof s->epoch_shift));
    TG_TRY(tg__session_put_round(s, w));
    TG_TRY(tg__session_put_exchanges(s, w));
    TG_TRY(tg__session_put_states(s, w));
    TG_TRY(tg__session_put_length(s, w));
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (!whole && !tg__session_is_own(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_put(w, name, s->tensor[i].param, s->tensor[i].n * sizeof(float)));
    }
    return tg__ckpt_put_state(w, s->state);
}

/* The newest step in dir that is known to be this run's own; 0: none. */
static uint64_t left_behind(const tg_session *s, const char *dir)
{
    struct stat folder;
    return s->from.newest > s->from.step && stat(dir, &folder) == 0 &&
                   folder.st_dev == s->from.device && folder.st_ino == s->from.inode
               ? s->from.newest
               : 0;
}

static tg_status write_own(tg_session *s, const char *dir, const void *extra, size_t len)
{
    char path[PATH_MAX];
    const uint64_t behind = left_behind(s, dir);
    TG_TRY(tg__ckpt_dir_prepare(dir, s->t, behind, s->transport->rank, path, sizeof path));
    if (s->t > s->from.step && s->t <= behind)
        TG_TRY(tg__ckpt_dir_revoke(dir, s->t));
    TG__FREED char *text = tg__session_identity(s);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
    tg__ckpt_writer *w;
    TG_TRY(tg__ckpt_create(path, text, &w));
    const tg_status status = tg__session_put_all(s, w, false, extra, len);
    if (status != TG_OK) {
        tg__ckpt_abandon(w);
        return status;
    }
    return tg__ckpt_commit(w);
}

/* A number that no other save has had, whatever files of those are left. */
static uint64_t new_number(const tg_session *s)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const struct {
        int64_t now, process;
        const void *session;
    } unique = {now.tv_sec * INT64_C(1000000000) + now.tv_nsec, getpid(), s};
    return tg_hash(TG_HASH_START, &unique, sizeof unique);
}

/* True if this rank writes what its folder has once. In a run that resumed and has not saved yet,
 * the ranks' files in the checkpoint tell who shares it. */
static bool writes(const tg_session *s, const char *dir)
{
    char path[PATH_MAX];
    const int rank = s->transport->rank;
    if (s->writers != NULL)
        return s->writers[rank] == rank;
    int first = 0;
    while (first < rank && (tg__ckpt_dir_path(dir, s->t, first, path, sizeof path) != TG_OK ||
                            access(path, F_OK) != 0))
        first++;
    return first == rank;
}

/* What a rank finds in its folder. */
typedef struct sharing {
    uint16_t writer; /* the lowest rank there */
    uint16_t count;  /* how many ranks are there, if it is the writer */
} sharing;

static sharing look_around(const tg_session *s, const char *dir, const uint64_t *numbers)
{
    const int size = s->transport->size, rank = s->transport->rank;
    sharing here = {0};
    while (here.writer < rank && !tg__ckpt_dir_sees(dir, s->t, here.writer, numbers[here.writer]))
        here.writer++;
    for (int other = 0; here.writer == rank && other < size; other++)
        here.count = (uint16_t)(here.count + tg__ckpt_dir_sees(dir, s->t, other, numbers[other]));
    return here;
}

/* Check that ranks agree on who shares a folder with whom: where files show late, two could commit
 * one folder. Every rank finds the same. */
static tg_status check_sharing(const sharing *all, int size, const char *dir)
{
    for (int rank = 0; rank < size; rank++) {
        const int writer = all[rank].writer;
        if (writer > rank || all[writer].writer != writer)
            return tg_fail(TG_E_IO,
                           "%s: rank %d takes this for the folder of rank %d, but that rank does "
                           "not: the file system shows new files late: save again, or use a folder "
                           "on another file system",
                           dir, rank, writer);
        if (writer != rank)
            continue;
        int count = 0;
        for (int other = rank; other < size; other++)
            count += all[other].writer == rank;
        if (count != all[rank].count)
            return tg_fail(TG_E_IO,
                           "%s: rank %d sees files of %d ranks in its folder, but %d ranks save to "
                           "it: the file system shows new files late: save again, or use a folder "
                           "on another file system",
                           dir, rank, (int)all[rank].count, count);
    }
    return TG_OK;
}

/* Find out which ranks save to one folder, and which to folders of their own. own: this rank's
 * status so far. */
static tg_status find_writers(tg_session *s, const char *dir, tg_status own)
{
    const int size = s->transport->size, rank = s->transport->rank;
    const uint64_t number = new_number(s);
    TG__FREED uint64_t *numbers = NULL;
    TG__FREED sharing *all = NULL;
    if (own == TG_OK && size > 1)
        own = tg__ckpt_dir_sign(dir, s->t, rank, number);
    if (own == TG_OK && s->writers == NULL)
        own = tg__owned_alloc(&s->owned, (size_t)size, sizeof *s->writers, &s->writers);
    if (own == TG_OK)
        own = tg_alloc((size_t)size, sizeof *numbers, &numbers);
    if (own == TG_OK)
        own = tg_alloc((size_t)size, sizeof *all, &all);
    TG_TRY(tg__agree(s->engine, own));
    if (size == 1)
        return TG_OK; /* writers[0] is 0 */
    TG_TRY(tg__gather_all(s->engine, NULL, &number, sizeof number, numbers));
    const sharing here = look_around(s, dir, numbers);
    TG_TRY(tg__gather_all(s->engine, NULL, &here, sizeof here, all));
    TG_TRY(check_sharing(all, size, dir));
    for (int other = 0; other < size; other++)
        s->writers[other] = all[other].writer;
    return TG_OK;
}

/* Write the weights as an evaluation sees them, in each folder once. Even after a failure this rank
 * takes part in averaging statistics. mark_p NULL: the final weights. */
static tg_status write_weights(tg_session *s, const char *dir, tg__weights_mark *mark_p)
{
    tg__latch failure = {0};
    TG_TRY(tg_session_eval_begin(s));
    if (writes(s, dir))
        tg__latch_set(&failure, mark_p ? tg__session_write_weights(s, dir, mark_p)
                                       : tg__session_write_final(s, dir));
    TG_TRY(tg_session_eval_end(s));
    return tg__latch_get(&failure);
}

tg_status tg_session_save(tg_session *s, const char *dir, const void *extra, size_t len)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, dir);
    if (len > 0)
        TG__ARG(extra);
    TG_TRY(tg__session_between_steps(s, "tg_session_save"));
    TG_TRY(tg__session_can_save(s, "tg_session_save"));
    TG_TRY(tg__session_failed(s, tg__session_settle_flight(s)));
    tg__weights_mark mark;
    TG_TRY(tg__session_fetch_states(s));
    const tg_status written = write_own(s, dir, extra, len);
    tg__session_drop_states(s);
    TG_TRY(find_writers(s, dir, written));
    TG_TRY(tg__agree(s->engine, write_weights(s, dir, &mark)));
    tg_status status = TG_OK;
    if (writes(s, dir))
        status = tg__ckpt_dir_commit(dir, s->t, s->transport->size, s->writers, s->transport->rank,
                                     &mark);
    status = tg__agree(s->engine, status);
    if (status == TG_OK && writes(s, dir)) /* not before all folders have this step */
        tg__ckpt_dir_prune(dir, s->t, left_behind(s, dir));
    tg__session_round_goes_on(s);
    return status;
}

tg_status tg_session_save_final(tg_session *s, const char *dir)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, dir);
    TG_TRY(tg__session_between_steps(s, "tg_session_save_final"));
    const tg_status status = tg__agree(s->engine, write_weights(s, dir, NULL));
    tg__session_round_goes_on(s);
    return status;
}

static tg_status write_file(tg_session *s, const char *path)
{
    return path ? tg__session_write_file(s, path)
                : tg_fail(TG_E_ARG, "tg_session_save_weights: path is NULL");
}

tg_status tg_session_save_weights(tg_session *s, const char *path)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    const bool first = s->transport->rank == 0;
    tg__latch failure = {0};
    if (tg__session_lost(s))
        return write_file(s, path);
    TG_TRY(tg__session_between_steps(s, "tg_session_save_weights"));
    TG_TRY(tg_session_eval_begin(s));
    if (first) /* also a missing path is agreed on, as the other ranks cannot know of it */
        tg__latch_set(&failure, write_file(s, path));
    TG_TRY(tg_session_eval_end(s));
    const tg_status own = tg__latch_get(&failure), status = tg__agree(s->engine, own);
    tg__session_round_goes_on(s);
    return own != TG_OK && status == own ? tg__latch_get(&failure) : status;
}
