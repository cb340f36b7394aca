#include "session/session_ckpt.h"
#include "base/mem.h"
#include "state/state.h"
#include "telegrad/spec.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Names that the session itself writes into a weights file. */
static const char *const own_names[] = {"format", "producer", "step",
                                        "method", "strategy", "optimizer"};
enum { OWN = TG_COUNT(own_names) };

bool tg__session_is_global(const tg_session *s, const tensor *t)
{
    return t->kind == TG_TENSOR_TRAINED && tg__strategy_global(s->strategy, t->trained) == t->param;
}

bool tg__session_is_own(const tg_session *s, const tensor *t)
{
    /* the same in all rules, as rules.c ensures */
    const tg_spec *spec = tg__rules_default(&s->rules)->spec;
    return !tg__session_is_global(s, t) || (s->transport->size > 1 && tg__method_is_apart(spec));
}

static tg_status list(const tg_session *s, bool all, tg_weights_tensor **tensors_p, size_t *count_p)
{
    size_t count = 0;
    tg_weights_tensor *tensors;
    TG_TRY(tg_alloc(s->ntensors, sizeof *tensors, &tensors));
    for (size_t i = 0; i < s->ntensors; i++)
        if (all || tg__session_is_global(s, &s->tensor[i]))
            tensors[count++] = (tg_weights_tensor){s->tensor[i].name, s->tensor[i].shape,
                                                   s->tensor[i].ndim, s->tensor[i].param};
    *tensors_p = tensors;
    *count_p = count;
    return TG_OK;
}

/* Write all tensors; of the metadata, the session's own pairs, then the caller's. */
static tg_status write_all(const tg_session *s, const char *path, tg__weights_mark *mark_p)
{
    TG__FREED tg_weights_tensor *tensors = NULL;
    size_t count;
    char producer[64], step[32];
    snprintf(producer, sizeof producer, "telegrad %s", tg_version());
    snprintf(step, sizeof step, "%" PRIu64, s->t);
    const char *const own[OWN] = {"pt",
                                  producer,
                                  step,
                                  tg_spec_text(tg__rules_default(&s->rules)->spec),
                                  tg_spec_text(s->strategy->spec),
                                  tg__session_optimizer(s)};
    TG__FREED tg__weights_pair *pairs = NULL;
    TG_TRY(list(s, true, &tensors, &count));
    TG_TRY(tg_alloc(OWN + s->nmetadata, sizeof *pairs, &pairs));
    for (size_t i = 0; i < OWN; i++)
        pairs[i] = (tg__weights_pair){own_names[i], own[i]};
    for (size_t i = 0; i < s->nmetadata; i++)
        pairs[OWN + i] = (tg__weights_pair){s->metadata[i], strchr(s->metadata[i], '\0') + 1};
    return tg__weights_write(path, tensors, count, pairs, OWN + s->nmetadata, mark_p);
}

tg_status tg__session_write_file(const tg_session *s, const char *path)
{
    tg__weights_mark mark;
    return write_all(s, path, &mark);
}

tg_status tg__session_write_weights(const tg_session *s, const char *dir, tg__weights_mark *mark_p)
{
    char path[PATH_MAX];
    TG_TRY(tg__ckpt_dir_weights_aside(dir, s->t, path, sizeof path));
    return write_all(s, path, mark_p);
}

/* Whether w holds all tensors with the same bits; x has room for the longest. */
static tg_status compare(const tg_session *s, const tg_weights *w, float *x, bool *same_p)
{
    bool same = true;
    for (size_t i = 0; i < s->ntensors && same; i++) {
        const tensor *t = &s->tensor[i];
        const tg_weights_tensor saved = {t->name, t->shape, t->ndim, x};
        TG_TRY(tg_weights_read(w, &saved, 1, false));
        same = memcmp(x, t->param, t->n * sizeof *x) == 0;
    }
    *same_p = same;
    return TG_OK;
}

/* Room for the longest tensor. */
static tg_status alloc_longest(const tg_session *s, float **x_p)
{
    size_t most = 1;
    for (size_t i = 0; i < s->ntensors; i++)
        most = TG__MAX(most, s->tensor[i].n);
    return tg_alloc(most, sizeof **x_p, x_p);
}

tg_status tg__session_hash_weights(const tg_session *s, const tg_weights *w, uint64_t *hash_p)
{
    TG__FREED float *x = NULL;
    uint64_t hash = TG_HASH_START;
    TG_TRY(alloc_longest(s, &x));
    for (size_t i = 0; i < s->ntensors; i++) {
        const tensor *t = &s->tensor[i];
        const tg_weights_tensor saved = {t->name, t->shape, t->ndim, x};
        TG_TRY(tg_weights_read(w, &saved, 1, false));
        hash = tg_hash(hash, x, t->n * sizeof *x);
    }
    *hash_p = hash;
    return TG_OK;
}

static tg_status compare_saved(const tg_session *s, const char *dir, bool *same_p)
{
    tg_weights *w;
    TG__FREED float *x = NULL;
    TG_TRY(alloc_longest(s, &x));
    TG_TRY(tg__weights_open_step(dir, s->t, &w));
    const tg_status status = compare(s, w, x, same_p);
    tg_weights_close(w);
    return status;
}

tg_status tg__session_write_final(const tg_session *s, const char *dir)
{
    char path[PATH_MAX];
    tg__weights_mark mark;
    bool same = false;
    TG_TRY(tg__ckpt_dir_final_begin(dir, s->t, path, sizeof path));
    TG_TRY(compare_saved(s, dir, &same));
    if (same)
        return TG_OK;
    TG_TRY(write_all(s, path, &mark));
    return tg__ckpt_dir_final_commit(dir, s->t, &mark);
}

tg_status tg__session_read_weights(tg_session *s, const tg_weights *w)
{
    TG__FREED tg_weights_tensor *tensors = NULL;
    size_t count;
    TG_TRY(list(s, false, &tensors, &count));
    return tg_weights_read(w, tensors, count, false);
}

/* ---- the caller's metadata ------------------------------------------------------------------- */

static bool taken(const tg_session *s, const char *name)
{
    for (size_t i = 0; i < OWN; i++)
        if (strcmp(own_names[i], name) == 0)
            return true;
    for (size_t i = 0; i < s->nmetadata; i++)
        if (strcmp(s->metadata[i], name) == 0)
            return true;
    return false;
}

/* Store each pair as two consecutive strings: NAME, TEXT. None is NULL. */
tg_status tg__session_copy_metadata(tg_session *s, const tg_session_config *config)
{
    TG_TRY(tg__owned_alloc(&s->owned, config->nmetadata, sizeof *s->metadata, &s->metadata));
    for (size_t i = 0; i < config->nmetadata; i++) {
        const char *text = config->metadata[i];
        const char *equals = strchr(text, '=');
        char *copy;
        TG_TRY(tg__owned_text(&s->owned, text, &copy));
        if (equals != NULL)
            copy[equals - text] = '\0';
        if (equals == NULL || *copy == '\0' || taken(s, copy))
            return tg_fail(TG_E_ARG,
                           "tg_session_create: config->metadata[%zu]=\"%.64s\": allowed: "
                           "NAME=TEXT, each name once, not format, "
                           "producer, step, method, strategy or optimizer",
                           i, text);
        s->metadata[s->nmetadata++] = copy;
    }
    return TG_OK;
}
