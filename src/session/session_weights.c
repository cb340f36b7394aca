#include "session/session_weights.h"
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
    return t->kind == TG_TENSOR_TRAINED &&
           s->strategy->ops->global(s->strategy, t->trained) == t->param;
}

bool tg__session_is_own(const tg_session *s, const tensor *t)
{
    /* the same in all rules, as rules.c ensures */
    const tg_spec *spec = tg__rules_default(&s->rules)->spec;
    return !tg__session_is_global(s, t) ||
           (s->transport->size > 1 && strcmp(tg_spec_word(spec, "exchange"), "none") == 0);
}

static tg_weights_tensor described(const tensor *t)
{
    return (tg_weights_tensor){t->name, t->shape, t->ndim, t->param};
}

static tg_status list(const tg_session *s, bool all, tg_weights_tensor **tensors_p, size_t *count_p)
{
    size_t count = 0;
    tg_weights_tensor *tensors;
    TG_TRY(tg_alloc(s->ntensors, sizeof *tensors, &tensors));
    for (size_t i = 0; i < s->ntensors; i++)
        if (all || tg__session_is_global(s, &s->tensor[i]))
            tensors[count++] = described(&s->tensor[i]);
    *tensors_p = tensors;
    *count_p = count;
    return TG_OK;
}

/* Write the session's own pairs, then the caller's. */
static tg_status write_all(const tg_session *s, const char *path, const tg_weights_tensor *tensors,
                           size_t count, tg__weights_mark *mark_p)
{
    char producer[64], step[32];
    snprintf(producer, sizeof producer, "telegrad %s", tg_version());
    snprintf(step, sizeof step, "%" PRIu64, s->t);
    const char *const own[OWN] = {"pt",
                                  producer,
                                  step,
                                  tg_spec_text(tg__rules_default(&s->rules)->spec),
                                  tg_spec_text(s->strategy->spec),
                                  tg_spec_text(tg_optimizer_spec(s->optimizer))};
    tg__weights_pair *pairs;
    TG_TRY(tg_alloc(OWN + s->nmetadata, sizeof *pairs, &pairs));
    for (size_t i = 0; i < OWN; i++)
        pairs[i] = (tg__weights_pair){own_names[i], own[i]};
    for (size_t i = 0; i < s->nmetadata; i++)
        pairs[OWN + i] = (tg__weights_pair){s->metadata[i], strchr(s->metadata[i], '\0') + 1};
    tg_status status = tg__weights_write(path, tensors, count, pairs, OWN + s->nmetadata, mark_p);
    free(pairs);
    return status;
}

tg_status tg__session_write_weights(const tg_session *s, const char *dir, tg__weights_mark *mark_p)
{
    char path[PATH_MAX];
    tg_weights_tensor *tensors;
    size_t count;
    TG_TRY(tg__ckpt_dir_weights_aside(dir, s->t, path, sizeof path));
    TG_TRY(list(s, true, &tensors, &count));
    tg_status status = write_all(s, path, tensors, count, mark_p);
    free(tensors);
    return status;
}

tg_status tg__session_read_weights(tg_session *s, const tg_weights *w)
{
    tg_weights_tensor *tensors;
    size_t count;
    TG_TRY(list(s, false, &tensors, &count));
    tg_status status = tg_weights_read(w, tensors, count, false);
    free(tensors);
    return status;
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

/* Store each pair as two consecutive strings: NAME, TEXT. */
tg_status tg__session_copy_metadata(tg_session *s, const tg_session_config *config)
{
    TG_TRY(tg_alloc(config->nmetadata, sizeof *s->metadata, &s->metadata));
    for (size_t i = 0; i < config->nmetadata; i++) {
        const char *text = config->metadata == NULL ? NULL : config->metadata[i];
        if (text == NULL)
            return tg_fail(TG_E_ARG, "metadata %zu of %zu is NULL", i, config->nmetadata);
        const char *equals = strchr(text, '=');
        char *copy = strdup(text);
        if (copy == NULL)
            return tg_fail(TG_E_NOMEM, "out of memory for a session");
        if (equals != NULL)
            copy[equals - text] = '\0';
        if (equals == NULL || *copy == '\0' || taken(s, copy)) {
            free(copy);
            return tg_fail(TG_E_ARG,
                           "metadata \"%.64s\": allowed: NAME=TEXT, each name once, not format, "
                           "producer, step, method, strategy or optimizer",
                           text);
        }
        s->metadata[s->nmetadata++] = copy;
    }
    return TG_OK;
}

void tg__session_free_metadata(tg_session *s)
{
    for (size_t i = 0; i < s->nmetadata; i++)
        free(s->metadata[i]);
    free(s->metadata);
}
