/* Checkpoints: every slot, the caller's parameters, counters, and the exchanges in flight, finished
 * but not applied. Parameters that are the same on all ranks are stored once, in model.safetensors,
 * not in the ranks' files. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/mem.h"
#include "session/session_ckpt.h"
#include "session/session_weights.h"
#include "telegrad/spec.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tg__session_identity(const tg_session *s)
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

/* True if the step of o will be dropped at its delivery. All exchanges in flight are complete. */
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

/* With one exchange in flight at a time, nothing is encoded before its delivery. So the memory
 * already gets back what a dropped step returns to it, or what was dropped from the sums of any
 * other step. */
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

/* Complete what is in flight, early parameters first. */
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

/* With several exchanges in flight, encoding continues in between, so store what each will owe the
 * memory. */
static tg_status find_owed(tg_session *s, lane_op *o)
{
    const bucket *b = &s->bucket[o->op.bucket];
    if (s->lanes == 1 || o->loaded)
        return TG_OK;
    if (o->owed == NULL)
        TG_TRY(tg_alloc(b->n, sizeof *o->owed, &o->owed));
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
            tg__inbox_head head = {.of_step = o->op.step,
                                   .due = o->due,
                                   .order = o->order,
                                   .lr = o->lr,
                                   .density = o->op.task.density,
                                   .bucket = b,
                                   .lane = l,
                                   /* not STOP: a resumed run must not stop again */
                                   .flags = (o->op.flags | o->op.flags_in) & TG__FLAG_NONFINITE,
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

static tg_status put_all(tg_session *s, tg__ckpt_writer *w, const void *extra, size_t len)
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
    TG_TRY(tg__session_put_length(s, w));
    for (size_t i = 0; i < s->ntensors; i++) {
        char name[512];
        if (!tg__session_is_own(s, &s->tensor[i]))
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
    char *text = tg__session_identity(s);
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

/* Write the weights as an evaluation sees them, on rank 0. own: this rank's status so far; even
 * after a failure it takes part in averaging statistics. */
static tg_status write_weights(tg_session *s, const char *dir, tg_status own,
                               tg__weights_mark *mark_p)
{
    char why[sizeof s->error] = "";
    tg_status status = own;
    if (status != TG_OK)
        snprintf(why, sizeof why, "%s", tg_error());
    TG_TRY(tg_session_eval_begin(s));
    if (status == TG_OK && s->transport->rank == 0) {
        status = tg__session_write_weights(s, dir, mark_p);
        snprintf(why, sizeof why, "%s", status == TG_OK ? "" : tg_error());
    }
    TG_TRY(tg_session_eval_end(s));
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
    status =
        s->transport->rank == 0 ? tg__ckpt_dir_commit(dir, s->t, s->transport->size, &mark) : TG_OK;
    status = tg__agree(s->engine, status);
    tg__session_round_goes_on(s);
    return status;
}
