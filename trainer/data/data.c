/* Data sets by name: finding their files, opening them, holding samples out. */
#include "trainer/data/data.h"
#include "trainer/data/data_spec.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DATA_SET(name) extern const data_set data_##name;
#include "trainer/data/sets.def"
#undef DATA_SET

static const data_set *const sets[] = {
#define DATA_SET(name) &data_##name,
#include "trainer/data/sets.def"
#undef DATA_SET
};

const data_set *const *data_sets(size_t *count_p)
{
    *count_p = TG_COUNT(sets);
    return sets;
}

/* ---- finding --------------------------------------------------------------------------------- */

#define PLACE 4096

/* List the places where a set is looked for without a path; returns how many. */
static int places(const data_set *set, char place[2][PLACE])
{
    int n = 0;
    const char *env = getenv("TELEGRAD_DATA");
    if (!set->place)
        return 0;
    if (env && env[0])
        snprintf(place[n++], PLACE, "%s/%s", env, set->place);
    snprintf(place[n++], PLACE, "data/%s", set->place);
    return n;
}

static bool find(const data_set *set, const tg_spec *spec, const char **path_p)
{
    static _Thread_local char place[2][PLACE];
    if (!set->path_key) {
        *path_p = "generated";
        return true;
    }
    const int n = places(set, place);
    for (int i = 0; i < n; i++) {
        if (set->present(place[i], spec)) {
            *path_p = place[i];
            return true;
        }
    }
    return false;
}

bool train_data_find(const char *name, const char **path_p)
{
    data_spec spec;
    if (data_spec_parse(name, &spec) != TG_OK)
        return false;
    const bool found = find(spec.set, spec.keys, path_p);
    data_spec_free(&spec);
    return found;
}

bool train_data_unusable(const char *name, char *text, size_t room)
{
    data_spec spec;
    struct stat info;
    char place[2][PLACE];
    bool there = false;
    if (data_spec_parse(name, &spec) != TG_OK)
        return false;
    const int n = spec.path ? 0 : places(spec.set, place);
    for (int i = 0; i < n && !there; i++) {
        there = lstat(place[i], &info) == 0 && !spec.set->present(place[i], spec.keys);
        if (there)
            snprintf(text, room, "%.1000s is no %s", place[i], spec.set->wants);
    }
    data_spec_free(&spec);
    return there;
}

static tg_status not_found(const data_set *set)
{
    char place[2][PLACE];
    const char *name = set->entry->name, *key = set->path_key;
    const int n = places(set, place);
    if (n == 0)
        return tg_fail(TG_E_SPEC, "data set %s: %s: allowed: %s:%s=PATH", name, set->wants, name,
                       key);
    return tg_fail(TG_E_IO,
                   "%s: no %s; looked in %.1000s%s%.1000s; name one by %s:%s=PATH or "
                   "$TELEGRAD_DATA/%s",
                   name, set->wants, place[0], n > 1 ? " and " : " ($TELEGRAD_DATA is not set)",
                   n > 1 ? place[1] : "", name, key, set->place);
}

/* ---- opening --------------------------------------------------------------------------------- */

static tg_status load(train_data *d, const data_spec *spec)
{
    const char *path = spec->path;
    if (!path && !find(d->set, spec->keys, &path))
        return not_found(d->set);
    d->origin = strdup(path);
    if (!d->origin)
        return tg_fail(TG_E_NOMEM, "out of memory: a path");
    return d->set->load(d, spec->keys, d->origin);
}

static tg_status hold_out(train_data *d, size_t holdout)
{
    d->view[DATA_TRAIN] = d->part[DATA_TRAIN];
    d->view[DATA_TEST] = d->part[DATA_TEST];
    if (holdout == 0)
        return TG_OK;
    const data_part *train = &d->part[DATA_TRAIN];
    const bool images = d->set->unit == TRAIN_IMAGES;
    const size_t least = images ? 1 : 2; /* the first token of a text is no label */
    if (holdout < least || train->count < least || holdout > train->count - least)
        return tg_fail(TG_E_ARG, "--holdout %zu: allowed: 0%s to %zu (training %s - %zu)", holdout,
                       images ? "" : ", or 2", train->count > least ? train->count - least : 0,
                       images ? "samples" : "tokens", least);
    const size_t left = train->count - holdout;
    data_part held = {.count = holdout};
    if (images) {
        held.images = train->images + left * d->set->height * d->set->width * d->set->channels;
        held.labels = train->labels + left;
    } else {
        held.tokens = train->tokens + left;
    }
    d->view[DATA_TRAIN].count = left;
    d->view[DATA_TEST] = held;
    return TG_OK;
}

/* FNV-1a (64 bits) over bytes, by which records and checkpoints identify a data set. */
static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_part(const train_data *d, const data_part *p, uint64_t hash)
{
    if (d->set->unit != TRAIN_IMAGES)
        return fnv1a(hash, p->tokens, p->count * sizeof *p->tokens);
    hash = fnv1a(hash, p->images, p->count * d->set->height * d->set->width * d->set->channels);
    return fnv1a(hash, p->labels, p->count);
}

static void prepare(train_data *d)
{
    d->hash = TG_HASH_START;
    for (int i = 0; i < 2; i++)
        d->hash = hash_part(d, &d->view[i], d->hash);
    for (size_t c = 0; c < d->set->channels; c++) {
        for (int i = 0; i < 256; i++)
            d->value[c][i] = ((float)i / 255.0f - d->set->mean[c]) / d->set->deviation[c];
    }
}

static tg_status open_parsed(const data_spec *spec, size_t holdout, train_data **d_p)
{
    train_data *d;
    TG_TRY(tg_alloc(1, sizeof *d, &d));
    d->set = spec->set;
    tg_status status = load(d, spec);
    if (status == TG_OK)
        status = hold_out(d, holdout);
    if (status != TG_OK) {
        train_data_close(d);
        return status;
    }
    d->augment = d->set->unit == TRAIN_IMAGES &&
                 strcmp(tg_spec_word(spec->keys, "augment"), "crop-flip") == 0;
    prepare(d);
    *d_p = d;
    return TG_OK;
}

tg_status train_data_open(const char *spec, size_t holdout, train_data **d_p)
{
    data_spec parsed;
    TG_TRY(data_spec_parse(spec, &parsed));
    const tg_status status = open_parsed(&parsed, holdout, d_p);
    data_spec_free(&parsed);
    return status;
}

void train_data_close(train_data *d)
{
    if (!d)
        return;
    data_part_free(&d->part[DATA_TRAIN]);
    data_part_free(&d->part[DATA_TEST]);
    free(d->origin);
    free(d);
}

/* ---- what it is ------------------------------------------------------------------------------ */

const char *train_data_name(const train_data *d)
{
    return d->set->entry->name;
}

const char *train_data_origin(const train_data *d)
{
    return d->origin;
}

uint64_t train_data_hash(const train_data *d)
{
    return d->hash;
}

train_unit train_data_unit(const train_data *d)
{
    return d->set->unit;
}

size_t train_data_train(const train_data *d)
{
    return d->view[DATA_TRAIN].count;
}

size_t train_data_test(const train_data *d)
{
    return d->view[DATA_TEST].count;
}

size_t data_test_labels(const train_data *d)
{
    return d->view[DATA_TEST].count - (d->set->unit == TRAIN_IMAGES ? 0 : 1);
}

static model_input input_of(const data_set *set, size_t context, size_t vocabulary)
{
    if (set->unit != TRAIN_IMAGES)
        return (model_input){.context = context, .classes = vocabulary};
    return (model_input){.height = set->height,
                         .width = set->width,
                         .channels = set->channels,
                         .classes = set->classes};
}

model_input train_data_input(const train_data *d, size_t context)
{
    return input_of(d->set, context, d->vocabulary);
}

size_t train_data_classes(const train_data *d)
{
    return d->set->unit == TRAIN_IMAGES ? d->set->classes : d->vocabulary;
}

tg_status data_input(const char *spec, train_unit *unit_p, model_input *in_p)
{
    data_spec parsed;
    train_data *d = NULL;
    TG_TRY(data_spec_parse(spec, &parsed));
    tg_status status = TG_OK;
    if (parsed.set->unit != TRAIN_IMAGES) /* only the files tell the vocabulary */
        status = open_parsed(&parsed, 0, &d);
    if (status == TG_OK) {
        *unit_p = parsed.set->unit;
        *in_p = input_of(parsed.set, 0, d ? d->vocabulary : 0);
    }
    train_data_close(d);
    data_spec_free(&parsed);
    return status;
}

void data_sample(const train_data *d, data_split split, size_t index, float *x, int32_t *label_p)
{
    const size_t channels = d->set->channels, n = d->set->height * d->set->width;
    const uint8_t *pixels = d->view[split].images + index * n * channels;
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < channels; c++)
            x[i * channels + c] = d->value[c][pixels[i * channels + c]];
    }
    *label_p = d->view[split].labels[index];
}

tg_status train_data_samples(const char *spec, size_t holdout, size_t *count_p)
{
    data_spec parsed;
    train_data *d;
    size_t count;
    TG_TRY(data_spec_parse(spec, &parsed));
    const bool asked = tg_spec_has(parsed.keys, "train") && tg_spec_given(parsed.keys, "train");
    count = !parsed.set->path_key ? (size_t)tg_spec_int(parsed.keys, "train")
            : asked               ? 0
                                  : parsed.set->samples;
    data_spec_free(&parsed);
    if (count > holdout) {
        *count_p = count - holdout;
        return TG_OK;
    }
    TG_TRY(train_data_open(spec, holdout, &d));
    *count_p = train_data_train(d);
    train_data_close(d);
    return TG_OK;
}
