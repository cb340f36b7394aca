/* Checkpoints: every slot, the caller's parameters, counters, and what is in flight, finished but
 * unapplied. Parameters that are the global ones are not in the ranks' files: they are in
 * model.safetensors, once. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/mem.h"
#include "session/session_weights.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One exchange that was in flight, as stored before its aggregate. */
typedef struct inbox_head {
    uint64_t of_step, due, order;
    double lr, density, eta;
    uint32_t bucket, lane, flags, coded, tag, update, owes, unused;
    uint64_t coded_bytes;
} inbox_head;

typedef struct counters {
    uint64_t t, skipped, order, in_flight, steps_per_epoch, drained, anew, lost;
    double lr;
    int32_t world, rank;
} counters;

/* What a checkpoint and a job must have in common. World and rank are compared apart, with a
 * message of their own. */
static char *identity(const tg_session *s)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
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
            tg_spec_text(tg_optimizer_spec(s->optimizer)), (unsigned long long)s->config.seed);
    tg__nodes_print(s->nodes, f);
    tg__session_print_buckets(s, f);
    fprintf(f, "on_nonfinite=%d\n%s\n", s->config.on_nonfinite, s->config.job);
    tg__session_print_rules(s, f);
    return fclose(f) == 0 ? text : NULL;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Whether the step of o will be dropped at its delivery: what is under way is in. */
static bool will_drop(const tg_session *s, const lane_op *o)
{
    for (size_t c = 0; c < s->nbuckets; c++)
        for (size_t m = 0; m < s->lanes; m++) {
            const lane_op *other = &s->bucket[c].lane[m];
            if (other->waiting && other->op.step == o->op.step &&
                (other->op.flags | other->op.flags_in) & TG__FLAG_NONFINITE)
                return true;
        }
    return false;
}

/* What a dropped step will give back to the memory, or what was dropped from the sums of another,
 * goes there now: where one exchange is under way at a time nothing is encoded before its delivery.
 */
static tg_status settle_op(tg_session *s, lane_op *o)
{
    const bucket *b = &s->bucket[o->op.bucket];
    if (!will_drop(s, o))
        return tg__session_absorb(s, o);
    if (!o->undone)
        TG_TRY(b->method->def->program->undo(b->method, &o->op.task));
    o->undone = true;
    return TG_OK;
}

/* Finish what is in flight, early parameters first. */
static tg_status settle(tg_session *s)
{
    TG_TRY(tg__session_deliver_early(s));
    for (size_t b = 0; b < s->nbuckets; b++)
        for (size_t l = 0; l < s->lanes; l++)
            if (s->bucket[b].lane[l].waiting && !s->bucket[b].lane[l].loaded)
                TG_TRY(tg__engine_wait(s->engine, &s->bucket[b].lane[l].op));
    for (size_t b = 0; s->lanes == 1 && b < s->nbuckets; b++)
        if (s->bucket[b].lane[0].waiting)
            TG_TRY(settle_op(s, &s->bucket[b].lane[0]));
    return TG_OK;
}

/* With several under way, encoding goes on between: what each will owe the memory is stored. */
static tg_status find_owed(tg_session *s, lane_op *o)
{
    const bucket *b = &s->bucket[o->op.bucket];
    if (s->lanes == 1 || o->loaded)
        return TG_OK;
    if (o->owed == NULL)
        TG_TRY(tg__alloc(b->n, sizeof *o->owed, &o->owed));
    return tg__method_owed(b->method, &o->op.task, will_drop(s, o), o->owed);
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
            inbox_head head = {.of_step = o->op.step,
                               .due = o->due,
                               .order = o->order,
                               .lr = o->lr,
                               .density = o->op.task.density,
                               .bucket = b,
                               .lane = l,
                               /* not STOP: whoever resumes does not want to stop again */
                               .flags = (o->op.flags | o->op.flags_in) & TG__FLAG_NONFINITE,
                               .coded = o->op.task.coded,
                               .tag = o->tag,
                               .update = o->update,
                               .owes = owes,
                               .eta = o->op.task.eta,
                               .coded_bytes = o->op.task.coded_bytes};
            const float *aggregate = tg__session_aggregate(s, o);
            char name[64];
            snprintf(name, sizeof name, "inbox/%llu/head", (unsigned long long)count);
            TG_TRY(tg__ckpt_put(w, name, &head, sizeof head));
            snprintf(name, sizeof name, "inbox/%llu/aggregate", (unsigned long long)count);
            TG_TRY(tg__ckpt_put(w, name, aggregate, s->bucket[b].n * sizeof(float)));
            snprintf(name, sizeof name, "inbox/%llu/owed", (unsigned long long)count++);
            if (owes)
                TG_TRY(tg__ckpt_put(w, name, o->owed, s->bucket[b].n * sizeof(float)));
        }
    *count_p = count;
    return TG_OK;
}

static tg_status put_all(tg_session *s, tg__ckpt_writer *w, const void *extra, size_t len)
{
    counters c = {.steps_per_epoch = s->config.steps_per_epoch,
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
    TG_TRY(tg__session_put_round(s, w));
    TG_TRY(tg__session_put_exchanges(s, w));
    TG_TRY(tg__session_put_length(s, w));
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (tg__session_is_global(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_put(w, name, s->tensor[i].param, s->tensor[i].n * sizeof(float)));
    }
    return tg__ckpt_put_state(w, s->state);
}

static tg_status write_own(tg_session *s, const char *dir, const void *extra, size_t len)
{
    char path[PATH_MAX];
    TG_TRY(tg__ckpt_dir_prepare(dir, s->t, s->transport->rank, path, sizeof path));
    char *text = identity(s);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
    tg__ckpt_writer *w;
    tg_status status = tg__ckpt_create(path, text, &w);
    free(text);
    TG_TRY(status);
    status = put_all(s, w, extra, len);
    if (status != TG_OK) {
        tg__ckpt_abandon(w);
        return status;
    }
    return tg__ckpt_commit(w);
}

/* The weights as an evaluation sees them, by rank 0. own: how it went so far; whatever it is, this
 * rank takes part in averaging statistics. */
static tg_status write_weights(tg_session *s, const char *dir, tg_status own,
                               tg__weights_mark *mark_p)
{
    char why[sizeof s->error] = "";
    tg_status status = own;
    if (status != TG_OK)
        snprintf(why, sizeof why, "%s", tg_error());
    TG_TRY(tg_eval_begin(s));
    if (status == TG_OK && s->transport->rank == 0) {
        status = tg__session_write_weights(s, dir, mark_p);
        snprintf(why, sizeof why, "%s", status == TG_OK ? "" : tg_error());
    }
    TG_TRY(tg_eval_end(s));
    return status == TG_OK ? TG_OK : tg_fail(status, "%s", why);
}

tg_status tg_session_save(tg_session *s, const char *dir, const void *extra, size_t len)
{
    TG__ARG(s);
    TG__ARG(dir);
    if (len > 0)
        TG__ARG(extra);
    TG_TRY(tg__session_between_steps(s, "tg_session_save"));
    tg_status status = settle(s);
    if (status != TG_OK)
        return tg__session_failed(s, status);
    tg__weights_mark mark;
    TG_TRY(tg__agree(s->engine, write_weights(s, dir, write_own(s, dir, extra, len), &mark)));
    status = s->transport->rank == 0 ? tg__ckpt_dir_commit(dir, s->t, &mark) : TG_OK;
    status = tg__agree(s->engine, status);
    tg__session_round_goes_on(s);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

static tg_status get_inbox(tg_session *s, tg__ckpt_reader *r, const counters *c, uint64_t number)
{
    const inbox_head *head;
    const void *bytes;
    size_t len;
    char name[64];
    snprintf(name, sizeof name, "inbox/%llu/head", (unsigned long long)number);
    TG_TRY(tg__ckpt_get(r, name, sizeof *head, &bytes, &len));
    head = bytes;
    if (head->bucket >= s->nbuckets || head->lane >= s->lanes)
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint section %s: bucket %u, lane %u: there are %zu and %zu", name,
                       head->bucket, head->lane, s->nbuckets, s->lanes);
    bucket *b = &s->bucket[head->bucket];
    lane_op *o = &b->lane[head->lane];
    inbox_head copy = *head;
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
    snprintf(name, sizeof name, "inbox/%llu/aggregate", (unsigned long long)number);
    TG_TRY(tg__ckpt_get(r, name, b->n * sizeof(float), &bytes, &len));
    if (o->inbox == NULL)
        TG_TRY(tg__alloc(b->n, sizeof(float), &o->inbox));
    memcpy(o->inbox, bytes, len);
    snprintf(name, sizeof name, "inbox/%llu/owed", (unsigned long long)number);
    if (copy.owes) {
        TG_TRY(tg__ckpt_get(r, name, b->n * sizeof(float), &bytes, &len));
        if (o->owed == NULL)
            TG_TRY(tg__alloc(b->n, sizeof(float), &o->owed));
        memcpy(o->owed, bytes, len);
    }
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
    return TG_OK;
}

static tg_status get_all(tg_session *s, tg__ckpt_reader *r, const tg_weights *w)
{
    const void *bytes;
    size_t len;
    counters c;
    TG_TRY(tg__ckpt_get(r, "session", sizeof c, &bytes, &len));
    memcpy(&c, bytes, sizeof c);
    if (c.world != s->transport->size || c.rank != s->transport->rank)
        return tg_fail(
            TG_E_MISMATCH,
            "the checkpoint was saved by rank %d of %d, this is rank %d of %d: resume with "
            "%d ranks",
            (int)c.rank, (int)c.world, s->transport->rank, s->transport->size, (int)c.world);
    if (c.steps_per_epoch != s->config.steps_per_epoch)
        return tg_fail(
            TG_E_MISMATCH, "the checkpoint was saved with steps_per_epoch=%llu, this job has %llu",
            (unsigned long long)c.steps_per_epoch, (unsigned long long)s->config.steps_per_epoch);
    for (size_t i = 0; i < s->ntensors; i++) { /* all of them are checked before any is changed */
        char name[512];
        if (tg__session_is_global(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_get(r, name, s->tensor[i].n * sizeof(float), &bytes, &len));
    }
    for (uint64_t i = 0; i < c.in_flight; i++)
        TG_TRY(get_inbox(s, r, &c, i));
    TG_TRY(tg__ckpt_get(r, "extra", SIZE_MAX, &bytes, &len));
    TG_TRY(tg__alloc(len, 1, &s->ckpt_bytes));
    memcpy(s->ckpt_bytes, bytes, len);
    s->ckpt_len = len;
    TG_TRY(tg__session_get_round(s, r));
    TG_TRY(tg__ckpt_get_state(r, s->state));
    TG_TRY(tg__session_read_weights(s, w));
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (tg__session_is_global(s, &s->tensor[i]))
            continue;
        snprintf(name, sizeof name, "param/%.480s", s->tensor[i].name);
        TG_TRY(tg__ckpt_get(r, name, s->tensor[i].n * sizeof(float), &bytes, &len));
        memcpy(s->tensor[i].param, bytes, len);
    }
    s->t = c.t;
    s->skipped = c.skipped;
    s->order = c.order;
    s->strategy->drained = c.drained;
    s->strategy->anew = c.anew;
    s->lost = c.lost != 0;
    s->lr = c.lr;
    return TG_OK;
}

tg_status tg__session_open_checkpoint(const tg_session *s, const char *dir, uint64_t *step_p,
                                      tg__ckpt_reader **r_p)
{
    char path[PATH_MAX];
    TG_TRY(tg__ckpt_dir_latest(dir, step_p));
    TG_TRY(tg__ckpt_dir_path(dir, *step_p, s->transport->rank, path, sizeof path));
    char *text = identity(s);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
    const tg_status status = tg__ckpt_open(path, text, r_p);
    free(text);
    return status;
}

static tg_status read_own(tg_session *s, const char *dir)
{
    uint64_t step;
    tg_weights *w = NULL;
    tg__ckpt_reader *r;
    TG_TRY(tg__ckpt_dir_latest(dir, &step));
    TG_TRY(tg__weights_open_step(dir, step, &w)); /* says whether its format is ours */
    tg_status status = tg__session_open_checkpoint(s, dir, &step, &r);
    if (status == TG_OK) {
        status = get_all(s, r, w);
        tg__ckpt_close(r);
    }
    tg_weights_close(w);
    return status;
}

static tg_status same_step(tg_session *s)
{
    uint64_t all[4096];
    TG_TRY(tg__gather_all(s->engine, &s->t, sizeof s->t, all));
    for (int rank = 0; rank < s->transport->size; rank++)
        if (all[rank] != s->t)
            return tg_fail(
                TG_E_MISMATCH, "rank %d found a checkpoint of step %llu, rank %d one of step %llu",
                s->transport->rank, (unsigned long long)s->t, rank, (unsigned long long)all[rank]);
    return TG_OK;
}

static tg_status load(tg_session *s, const char *dir)
{
    TG_TRY(tg__session_handshake(s, "load", dir));
    TG_TRY(tg__agree(s->engine, read_own(s, dir)));
    TG_TRY(same_step(s));
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
    tg_status status = load(s, dir);
    if (status != TG_OK)
        return tg__session_failed(s, status);
    tg__session_round_goes_on(s);
    *extra_p = s->ckpt_bytes;
    *len_p = s->ckpt_len;
    return TG_OK;
}
