#include "trainer/data/shard.h"
#include "trainer/data/data.h"
#include "trainer/data/gamma.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tg_key dirichlet_keys[] = {
    {.name = "alpha",
     .type = TG_KEY_REAL,
     .def = "0.5",
     .min = 0.001,
     .max = 1e6,
     .help = "concentration: if small, a rank has few classes; if large, all ranks are alike"},
    {.name = NULL},
};

static const tg_key label_keys[] = {
    {.name = "classes",
     .type = TG_KEY_INT,
     .def = "2",
     .min = 1,
     .max = 256,
     .help = "pieces per rank of the images sorted by class"},
    {.name = NULL},
};

static const tg_entry iid = {
    .name = "iid", .summary = "every rank draws from all samples", .source = ""};
static const tg_entry dirichlet = {.name = "dirichlet",
                                   .summary = "each class in Dirichlet shares to the ranks",
                                   .source = "Yurochkin et al. 2019, arXiv:1905.12022, sec. 4",
                                   .keys = dirichlet_keys};
static const tg_entry label = {.name = "label",
                               .summary = "each rank has images of few classes",
                               .source = "McMahan et al. 2017, arXiv:1602.05629, sec. 3",
                               .keys = label_keys};

static const tg_entry contiguous = {.name = "contiguous",
                                    .summary = "each rank has a piece, in the order of the data",
                                    .source = ""};

static const tg_entry *const entries[] = {&iid, &dirichlet, &label, &contiguous};

const tg_entry *const *shard_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

tg_status shard_parse(const char *text, tg_spec **spec_p)
{
    return tg_spec_parse("shard", entries, TG_COUNT(entries), text, spec_p);
}

bool shard_is_iid(const tg_spec *spec)
{
    return tg_spec_entry(spec) == &iid;
}

tg_status shard_text(const tg_spec *spec, const char *name, bool *contiguous_p)
{
    *contiguous_p = tg_spec_entry(spec) == &contiguous;
    if (!*contiguous_p && !shard_is_iid(spec))
        return tg_fail(
            TG_E_ARG,
            "--shard %s: data set %s is a text, which has no classes: allowed: iid, contiguous",
            tg_spec_text(spec), name);
    return TG_OK;
}

size_t shard_begin(size_t samples, int world, int rank)
{
    return samples * (size_t)rank / (size_t)world;
}

/* The streams of random numbers (tg_rng_key.tensor); 0 and 1 belong to order.c. */
enum { STREAM_ORDER = 2, STREAM_PIECES, STREAM_GAMMA };

typedef struct plan {
    const uint8_t *labels;
    size_t samples, classes, world;
    uint64_t seed;
    uint32_t *sorted; /* (samples) sorted by class, shuffled within each class */
    size_t *begin;    /* (classes + 1) where each class begins in it */
    uint32_t *owner;
} plan;

static tg_status sort_by_class(plan *p)
{
    uint32_t *perm;
    const tg_rng_key key = {.seed = p->seed, .purpose = TG_PURPOSE_SHUFFLE, .tensor = STREAM_ORDER};
    size_t at[256] = {0};
    TG_TRY(tg_alloc(p->samples, sizeof *perm, &perm));
    tg_rng_permutation(&key, perm, p->samples);
    for (size_t i = 0; i < p->samples; i++)
        p->begin[p->labels[i] + 1u]++;
    for (size_t c = 0; c < p->classes; c++) {
        p->begin[c + 1] += p->begin[c];
        at[c] = p->begin[c];
    }
    for (size_t i = 0; i < p->samples; i++)
        p->sorted[at[p->labels[perm[i]]]++] = perm[i];
    free(perm);
    return TG_OK;
}

/* ---- label ----------------------------------------------------------------------------------- */

tg_status shard_classes(const tg_spec *spec, size_t classes)
{
    const size_t own = tg_spec_entry(spec) == &label ? (size_t)tg_spec_int(spec, "classes") : 1;
    return own <= classes
               ? TG_OK
               : tg_fail(TG_E_ARG,
                         "--shard label:classes=%zu: the data have %zu classes: allowed: 1 to %zu",
                         own, classes, classes);
}

static tg_status assign_label(plan *p, size_t classes)
{
    const size_t pieces = p->world * classes;
    uint32_t *perm;
    if (pieces > p->samples)
        return tg_fail(TG_E_ARG,
                       "--shard label:classes=%zu: %zu ranks need %zu pieces, but there are %zu "
                       "samples: each piece needs at least one",
                       classes, p->world, pieces, p->samples);
    const tg_rng_key key = {
        .seed = p->seed, .purpose = TG_PURPOSE_SHUFFLE, .tensor = STREAM_PIECES};
    TG_TRY(tg_alloc(pieces, sizeof *perm, &perm));
    tg_rng_permutation(&key, perm, pieces);
    for (size_t i = 0; i < pieces; i++) {
        const size_t piece = perm[i], end = p->samples * (piece + 1) / pieces;
        for (size_t at = p->samples * piece / pieces; at < end; at++)
            p->owner[p->sorted[at]] = (uint32_t)(i / classes);
    }
    free(perm);
    return TG_OK;
}

/* ---- dirichlet ------------------------------------------------------------------------------- */

#define TRIES 1000

/* Draw share (world), the shares of one class, from Dirichlet(alpha, ..., alpha). */
static void draw_shares(const plan *p, double alpha, size_t class, uint64_t try, double *share)
{
    double most = -INFINITY, sum = 0;
    for (size_t r = 0; r < p->world; r++) {
        const tg_rng_key key = {.seed = p->seed,
                                .purpose = TG_PURPOSE_SHUFFLE,
                                .rank = (uint32_t)r,
                                .step = try * 256 + class,
                                .tensor = STREAM_GAMMA};
        share[r] = gamma_log(&key, alpha); /* with a small alpha the number itself rounds to 0 */
        most = share[r] > most ? share[r] : most;
    }
    for (size_t r = 0; r < p->world; r++) {
        share[r] = exact_exp(share[r] - most);
        sum += share[r];
    }
    for (size_t r = 0; r < p->world; r++)
        share[r] /= sum;
}

/* count (world): number of samples that each rank got */
static void divide(plan *p, double alpha, uint64_t try, double *share, size_t *count)
{
    memset(count, 0, p->world * sizeof *count);
    for (size_t c = 0; c < p->classes; c++) {
        const size_t n = p->begin[c + 1] - p->begin[c];
        size_t at = 0;
        double sum = 0;
        draw_shares(p, alpha, c, try, share);
        for (size_t r = 0; r < p->world; r++) {
            sum += share[r];
            size_t end = r + 1 == p->world ? n : (size_t)(sum * (double)n);
            end = end < n ? end : n;
            count[r] += end - at;
            for (; at < end; at++)
                p->owner[p->sorted[p->begin[c] + at]] = (uint32_t)r;
        }
    }
}

static tg_status assign_dirichlet(plan *p, double alpha)
{
    double *share;
    size_t *count;
    const size_t even = p->samples / p->world, least = even < SHARD_LEAST ? even : SHARD_LEAST;
    TG_TRY(tg_alloc(p->world, sizeof *share, &share));
    const tg_status status = tg_alloc(p->world, sizeof *count, &count);
    bool enough = false;
    for (uint64_t try = 0; try < TRIES && !enough && status == TG_OK; try++) {
        divide(p, alpha, try, share, count);
        enough = true;
        for (size_t r = 0; r < p->world; r++)
            enough = enough && count[r] >= least;
    }
    free(share);
    free(count);
    TG_TRY(status);
    if (!enough)
        return tg_fail(TG_E_ARG,
                       "--shard dirichlet:alpha=%g: none of %d draws gives each of %zu ranks %zu "
                       "samples: use a larger alpha, or fewer ranks",
                       alpha, TRIES, p->world, least);
    return TG_OK;
}

/* ---- any ------------------------------------------------------------------------------------- */

static tg_status assign_pieces(plan *p)
{
    for (size_t r = 0; r < p->world; r++) {
        const size_t end = shard_begin(p->samples, (int)p->world, (int)r + 1);
        for (size_t i = shard_begin(p->samples, (int)p->world, (int)r); i < end; i++)
            p->owner[i] = (uint32_t)r;
    }
    return TG_OK;
}

static tg_status assign(plan *p, const tg_spec *spec)
{
    if (tg_spec_entry(spec) == &contiguous)
        return assign_pieces(p);
    TG_TRY(shard_classes(spec, p->classes));
    TG_TRY(tg_alloc(p->samples, sizeof *p->sorted, &p->sorted));
    TG_TRY(tg_alloc(p->classes + 1, sizeof *p->begin, &p->begin));
    TG_TRY(sort_by_class(p));
    if (tg_spec_entry(spec) == &label)
        return assign_label(p, (size_t)tg_spec_int(spec, "classes"));
    return assign_dirichlet(p, tg_spec_real(spec, "alpha"));
}

tg_status shard_assign(const tg_spec *spec, const uint8_t *labels, size_t samples, size_t classes,
                       uint64_t seed, int world, uint32_t *owner)
{
    if ((size_t)world > samples || samples > UINT32_MAX)
        return tg_fail(TG_E_ARG, "%d ranks: allowed: 1 to %zu (training samples)", world, samples);
    plan p = {.labels = labels,
              .samples = samples,
              .classes = classes,
              .world = (size_t)world,
              .seed = seed,
              .owner = owner};
    const tg_status status = assign(&p, spec);
    free(p.sorted);
    free(p.begin);
    return status;
}

/* ---- of a data set --------------------------------------------------------------------------- */

tg_status train_data_shards(const train_data *d, const char *shard, uint64_t seed, int world,
                            uint64_t *counts)
{
    const data_part *p = &d->view[DATA_TRAIN];
    const size_t classes = d->set->classes;
    tg_spec *spec;
    uint32_t *owner = NULL;
    TG_TRY(shard_parse(shard ? shard : "iid", &spec));
    tg_status status;
    if (d->set->unit != TRAIN_IMAGES) {
        bool pieces;
        status = shard_text(spec, d->set->entry->name, &pieces);
        tg_spec_free(spec);
        return status;
    }
    memset(counts, 0, (size_t)world * classes * sizeof *counts);
    status = tg_alloc(p->count, sizeof *owner, &owner);
    if (status == TG_OK && !shard_is_iid(spec))
        status = shard_assign(spec, p->labels, p->count, classes, seed, world, owner);
    for (size_t i = 0; i < p->count && status == TG_OK; i++) {
        for (int r = 0; r < world; r++)
            counts[(size_t)r * classes + p->labels[i]] +=
                shard_is_iid(spec) || owner[i] == (uint32_t)r;
    }
    free(owner);
    tg_spec_free(spec);
    return status;
}
