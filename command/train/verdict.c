#include "command/train/verdict.h"
#include "command/output/console.h"
#include "command/train/late_averages.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SKIPPED_TOLD 0.1
#define SKIPPED_FAILED 0.5
#define DIVERGED 10      /* times the loss of random guessing */
#define ABOUT 1.001      /* times that loss: a model that treats all labels alike has about it */
#define EVERYTHING 0.999 /* of the elements are "everything" if ... */
#define SPARSE 0.9       /* ... the density asked for is at most this */
#define NOTHING 1e-4

static void add(verdict *v, const char *what, const char *format, ...) TG_PRINTF(3, 4);
static void add(verdict *v, const char *what, const char *format, ...)
{
    va_list args;
    if (v->count == VERDICT_MOST)
        return;
    va_start(args, format);
    v->remark[v->count].what = what;
    vsnprintf(v->remark[v->count].text, sizeof v->remark[0].text, format, args);
    va_end(args);
    v->count++;
}

/* The remark that was added last is why the run failed. */
static void fail(verdict *v)
{
    v->remark[v->count - 1].fails = v->failed = true;
}

static void look_at_skips(verdict *v, const train_end_info *end)
{
    const double share = (double)end->skipped_nonfinite / (double)end->steps;
    if (!(share >= SKIPPED_TOLD))
        return;
    add(v, "skipped",
        "%" PRIu64 " of %" PRIu64 " steps %s skipped, because gradients were not finite: a lower "
        "learning rate would help",
        end->skipped_nonfinite, end->steps, end->skipped_nonfinite == 1 ? "was" : "were");
    if (share > SKIPPED_FAILED)
        fail(v);
}

/* A test loss alone may hide that a run diverged: dead units give the same output for every sample,
 * at about the loss of guessing. */
static bool was_high(const verdict_run *run, double guess)
{
    return run->end->train_loss > ABOUT * guess && run->highest_loss > DIVERGED * guess;
}

static void look_at_loss(verdict *v, const verdict_run *run)
{
    const train_end_info *end = run->end;
    const double loss = run->evaluated ? end->test_loss : end->train_loss;
    const char *of = run->evaluated ? "test" : "training";
    char after[64] = "";
    if (run->classes == 0 || end->steps == run->first_step)
        return;
    const double guess = log((double)run->classes);
    if (!isfinite(loss)) {
        add(v, "loss", "the %s loss at the end is not finite", of);
        fail(v);
        return;
    }
    const bool high = loss > DIVERGED * guess, diverged = high || was_high(run, guess);
    if (loss <= guess || (end->steps < VERDICT_STEPS && !diverged))
        return;
    if (diverged && !high)
        snprintf(after, sizeof after, ", after a training loss of %.5g", run->highest_loss);
    add(v, "loss", "the %s loss at the end, %.5g, is above that of guessing, %.4f (log of %zu)%s%s",
        of, loss, guess, run->classes, after, diverged ? ": a lower learning rate would help" : "");
    if (diverged)
        fail(v);
}

/* Warm-ups are the durations whose default depends on the length of the run, and those of rates. */
static void look_at_starts(verdict *v, const verdict_run *run, const char *kind,
                           const tg_spec *spec)
{
    if (run->end->interrupted) /* it may have been on its way */
        return;
    if (run->end->steps == run->first_step) /* nothing was left to train */
        return;
    for (const tg_key *key = tg_spec_entry(spec)->keys; key && key->name; key++) {
        const uint64_t half = run->first_step + (run->end->steps - run->first_step) / 2;
        uint64_t steps;
        if (key->type != TG_KEY_DURATION || !(key->share > 0 || strcmp(key->name, "warmup") == 0))
            continue;
        if (tg_duration_steps(tg_spec_duration(spec, key->name), run->steps_per_epoch, key->name,
                              &steps) != TG_OK ||
            steps <= half)
            continue;
        if (steps >= run->end->steps)
            add(v, "not_started",
                "%s %s: its warm-up of %" PRIu64 " steps does not end in %" PRIu64
                " steps: use a shorter %s=",
                kind, tg_spec_name(spec), steps, run->end->steps, key->name);
        else if (strcmp(kind, "lr-schedule") != 0)
            add(v, "warm_up",
                "%s %s: its warm-up takes %" PRIu64 " of %" PRIu64
                " steps, so bytes and ratio, which are of the second half, count a part of it",
                kind, tg_spec_name(spec), steps, run->end->steps);
    }
}

static void look_at_change(verdict *v, const train_end_info *end)
{
    if (end->unchanged && v->count == 0) /* else what was said may be why */
        add(v, "unchanged",
            "training changed no parameter by more than 6e-8: a higher learning rate would help, "
            "or, if gradients "
            "are clipped, a higher bound");
}

static void look_at_averages(verdict *v, const verdict_run *run)
{
    const late_run ended = {.strategy = run->strategy,
                            .world = run->end->world,
                            .first = run->first_step,
                            .steps = run->end->steps,
                            .steps_per_epoch = run->steps_per_epoch};
    char text[sizeof v->remark[0].text];
    if (!run->end->interrupted && late_averages(&ended, true, text, sizeof text))
        add(v, "not_averaged", "%s", text);
}

static bool has_key(const tg_spec *spec, const char *name)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (key && key->name && strcmp(key->name, name) != 0)
        key++;
    return key && key->name;
}

static void look_at_share(verdict *v, const verdict_run *run, const tg_spec *spec)
{
    const double kept = run->end->kept;
    const char *name = tg_spec_name(spec);
    const bool sparse = has_key(spec, "density"), threshold = has_key(spec, "threshold");
    if (!isfinite(kept)) /* nothing was encoded */
        return;
    if (run->end->bytes_near > 0 &&
        run->end->bytes_per_step == 0) /* a node's leader sends for it */
        return;
    if (sparse && tg_spec_real(spec, "density") <= SPARSE && kept >= EVERYTHING)
        add(v, "sent_everything", "method %s sent all elements, at density=%g", name,
            tg_spec_real(spec, "density"));
    if (has_key(spec, "rank") && kept >= EVERYTHING)
        add(v, "sent_everything",
            "method %s sent all tensors dense: at rank=%d no factors are smaller than their "
            "tensor: use a lower rank=",
            name, (int)tg_spec_int(spec, "rank"));
    if ((sparse || threshold) && kept <= 0)
        add(v, "sent_nothing", "method %s sent no element at all", name);
    else if (threshold && kept < NOTHING)
        add(v, "sent_nothing",
            "method %s sent %.2g %% of the elements, next to nothing: a lower threshold= or "
            "threshold=auto would send more",
            name, 100 * kept);
}

/* Parse a spec, which the caller frees, and look at its warm-ups. Returns NULL if it is none. */
static tg_spec *look_at_spec(verdict *v, const verdict_run *run, tg_kind kind, const char *text)
{
    tg_spec *spec = NULL;
    if (tg_registry_parse(kind, text, &spec) != TG_OK)
        return NULL;
    look_at_starts(v, run, kind == TG_KIND_LR_SCHEDULE ? "lr-schedule" : tg_kind_name(kind), spec);
    return spec;
}

verdict verdict_of_warm_ups(const verdict_run *run)
{
    verdict v = {.count = 0};
    if (!run->covered)
        tg_spec_free(look_at_spec(&v, run, TG_KIND_METHOD, run->method));
    tg_spec_free(look_at_spec(&v, run, TG_KIND_STRATEGY, run->strategy));
    tg_spec_free(look_at_spec(&v, run, TG_KIND_LR_SCHEDULE, run->lr_schedule));
    return v;
}

verdict verdict_of(const verdict_run *run)
{
    verdict v = {.count = 0};
    tg_spec *method = NULL;
    look_at_skips(&v, run->end);
    look_at_loss(&v, run);
    if (!run->covered)
        method = look_at_spec(&v, run, TG_KIND_METHOD, run->method);
    else if (tg_registry_parse(TG_KIND_METHOD, run->method, &method) == TG_OK &&
             strcmp(tg_spec_name(method), "dense") != 0)
        add(&v, "not_used", "rules cover all tensors: method %s is not used", tg_spec_name(method));
    if (method && !run->covered)
        look_at_share(&v, run, method);
    tg_spec_free(method);
    tg_spec_free(look_at_spec(&v, run, TG_KIND_STRATEGY, run->strategy));
    tg_spec_free(look_at_spec(&v, run, TG_KIND_LR_SCHEDULE, run->lr_schedule));
    look_at_averages(&v, run);
    look_at_change(&v, run->end);
    if (run->end->unsaved[0])
        add(&v, "not_saved", "not saved: %s", run->end->unsaved);
    return v;
}

void verdict_say(const verdict *v, const char *title)
{
    const char *colon = title[0] ? ": " : "";
    for (size_t i = 0; i < v->count; i++)
        if (v->remark[i].fails)
            console_error("%s%sthe run failed: %s", title, colon, v->remark[i].text);
        else
            console_warning("%s%s%s", title, colon, v->remark[i].text);
}

json_t *verdict_json(const verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->count; i++) {
        json_t *one = json_pack("{s:s, s:s}", "what", v->remark[i].what, "text", v->remark[i].text);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}
