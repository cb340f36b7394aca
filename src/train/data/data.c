#include "train/data/data.h"
#include "train/train_util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* mean and std: of all training pixels / 255. */
typedef struct set {
    const char *name;
    float mean, std;
    bool generated;
} set;

static const set sets[] = {
    {"mnist", 0.1307f, 0.3081f, false},
    {"fashion-mnist", 0.2860f, 0.3530f, false},
    {"glyphs", 0.1013f, 0.2124f, true},
};

static const tg_key glyphs_keys[] = {
    {.name = "train",
     .type = TG_KEY_INT,
     .def = "60000",
     .min = 1,
     .max = 10000000,
     .help = "training samples"},
    {.name = "test",
     .type = TG_KEY_INT,
     .def = "10000",
     .min = 1,
     .max = 10000000,
     .help = "test samples"},
    {.name = "seed",
     .type = TG_KEY_INT,
     .def = "1",
     .min = 0,
     .max = 9e15,
     .help = "of the drawing; other seeds give other samples"},
    {.name = NULL},
};

static const tg_entry glyphs_entry = {
    .name = "glyphs", .summary = "generated digits of strokes", .source = "", .keys = glyphs_keys};

struct train_data {
    const set *set;
    char *origin;
    data_part part[2]; /* by data_split, as read */
    data_part view[2]; /* what samples are taken from; borrows from part */
    uint64_t hash;
    float value[256]; /* of a pixel */
};

void data_part_free(data_part *p)
{
    free(p->images);
    free(p->labels);
    *p = (data_part){NULL, NULL, 0};
}

/* ---- finding ------------------------------------------------------------------------------------
 */

static const set *set_find(const char *name, size_t len)
{
    for (size_t i = 0; i < TRAIN_COUNT(sets); i++) {
        if (strlen(sets[i].name) == len && memcmp(sets[i].name, name, len) == 0)
            return &sets[i];
    }
    return NULL;
}

/* The folders looked in without DIR; returns how many. */
static int places(const char *name, char place[2][4096])
{
    int n = 0;
    const char *env = getenv("TELEGRAD_DATA");
    if (env && env[0])
        snprintf(place[n++], 4096, "%s/%s", env, name);
    snprintf(place[n++], 4096, "data/%s", name);
    return n;
}

bool train_data_find(const char *name, const char **dir_p)
{
    static _Thread_local char place[2][4096];
    const set *s = set_find(name, strlen(name));
    if (!s)
        return false;
    if (s->generated) {
        *dir_p = "generated";
        return true;
    }
    const int n = places(name, place);
    for (int i = 0; i < n; i++) {
        if (idx_present(place[i])) {
            *dir_p = place[i];
            return true;
        }
    }
    return false;
}

static tg_status not_found(const char *name)
{
    char place[2][4096];
    const int n = places(name, place);
    return tg_fail(TG_E_IO,
                   "%s: no folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte or the same "
                   "with .gz; looked in %.1000s%s%.1000s; name one by %s:DIR or $TELEGRAD_DATA/%s",
                   name, place[0], n > 1 ? " and " : " ($TELEGRAD_DATA is not set)",
                   n > 1 ? place[1] : "", name, name);
}

/* ---- opening ------------------------------------------------------------------------------------
 */

static tg_status load_files(train_data *d, const char *dir)
{
    const char *where = dir;
    if (!where && !train_data_find(d->set->name, &where))
        return not_found(d->set->name);
    d->origin = strdup(where);
    if (!d->origin)
        return tg_fail(TG_E_NOMEM, "out of memory");
    TG_TRY(idx_read(d->origin, "train", &d->part[DATA_TRAIN]));
    return idx_read(d->origin, "t10k", &d->part[DATA_TEST]);
}

static tg_status load_glyphs(train_data *d, const char *spec)
{
    static const tg_entry *const entries[] = {&glyphs_entry};
    tg_spec *parsed;
    TG_TRY(tg_spec_parse("data set", entries, 1, spec, &parsed));
    const uint64_t seed = (uint64_t)tg_spec_int(parsed, "seed");
    const size_t train = (size_t)tg_spec_int(parsed, "train");
    const size_t test = (size_t)tg_spec_int(parsed, "test");
    tg_spec_free(parsed);
    d->origin = strdup("generated");
    if (!d->origin)
        return tg_fail(TG_E_NOMEM, "out of memory");
    TG_TRY(glyphs_draw(seed, DATA_TRAIN, train, &d->part[DATA_TRAIN]));
    return glyphs_draw(seed, DATA_TEST, test, &d->part[DATA_TEST]);
}

static tg_status hold_out(train_data *d, size_t holdout)
{
    d->view[DATA_TRAIN] = d->part[DATA_TRAIN];
    d->view[DATA_TEST] = d->part[DATA_TEST];
    if (holdout == 0)
        return TG_OK;
    const data_part *train = &d->part[DATA_TRAIN];
    if (holdout >= train->count)
        return tg_fail(TG_E_ARG, "holdout=%zu: allowed: 0 to %zu (training samples - 1)", holdout,
                       train->count - 1);
    const size_t left = train->count - holdout;
    d->view[DATA_TRAIN].count = left;
    d->view[DATA_TEST] = (data_part){.images = train->images + left * DATA_PIXELS,
                                     .labels = train->labels + left,
                                     .count = holdout};
    return TG_OK;
}

tg_status train_data_open(const char *spec, size_t holdout, train_data **d_p)
{
    const size_t len = strcspn(spec, ":");
    const set *s = set_find(spec, len);
    if (!s)
        return tg_fail(TG_E_SPEC,
                       "data set %.*s: allowed: mnist, fashion-mnist, glyphs (mnist:DIR says where "
                       "the files are)",
                       (int)(len < 200 ? len : 200), spec);
    const char *dir = spec[len] == ':' ? spec + len + 1 : NULL;
    if (dir && !dir[0])
        return tg_fail(TG_E_SPEC, "data set %s: nothing after the colon", spec);
    train_data *d;
    TG_TRY(train_alloc(1, sizeof *d, &d));
    d->set = s;
    tg_status status = s->generated ? load_glyphs(d, spec) : load_files(d, dir);
    if (status == TG_OK)
        status = hold_out(d, holdout);
    if (status != TG_OK) {
        train_data_close(d);
        return status;
    }
    d->hash = TRAIN_HASH_START;
    for (int i = 0; i < 2; i++) {
        d->hash = train_hash(d->hash, d->view[i].images, d->view[i].count * DATA_PIXELS);
        d->hash = train_hash(d->hash, d->view[i].labels, d->view[i].count);
    }
    for (int i = 0; i < 256; i++)
        d->value[i] = ((float)i / 255.0f - s->mean) / s->std;
    *d_p = d;
    return TG_OK;
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

const char *train_data_name(const train_data *d)
{
    return d->set->name;
}

const char *train_data_origin(const train_data *d)
{
    return d->origin;
}

uint64_t train_data_hash(const train_data *d)
{
    return d->hash;
}

size_t train_data_train(const train_data *d)
{
    return d->view[DATA_TRAIN].count;
}

size_t train_data_test(const train_data *d)
{
    return d->view[DATA_TEST].count;
}

void data_sample(const train_data *d, data_split split, size_t index, float *x, int32_t *label_p)
{
    const uint8_t *pixels = d->view[split].images + index * DATA_PIXELS;
    for (size_t i = 0; i < DATA_PIXELS; i++)
        x[i] = d->value[pixels[i]];
    *label_p = d->view[split].labels[index];
}
