/* Shared by the tests of exchanges: deterministic vectors, a reference in plain loops, and one
 * rank's run of an exchange. It needs no test framework: failures are returned. */
#ifndef TG_EXCHANGE_FIXTURE_H
#define TG_EXCHANGE_FIXTURE_H

#include "base/mem.h"
#include "exchange/exchange.h"
#include "exchange/pump.h"
#include "exchange_reference.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture_case {
    const char *exchange, *codec;
    size_t n;
} fixture_case;

static const size_t fixture_sizes[] = {0, 1, 5, 16, 17, 1000, 4097};
static const char *const fixture_codecs[] = {
    "f32", "topk:density=0.1", "2bit:threshold=0.5", "fp16", "sign", "1bit"};
enum { FIXTURE_CASES_MAX = 512, FIXTURE_EXCHANGES_MAX = 16 };

/* All exchanges that can be named and need no servers, and broadcast and push to the next rank.
 * Returns how many. */
static inline size_t fixture_exchanges(const char **names)
{
    size_t all, count = 0;
    const tg__exchange_ops *const *list = tg__exchanges(&all);
    for (size_t i = 0; i < all; i++)
        if (!list[i]->served)
            names[count++] = list[i]->entry.name;
    names[count] = "broadcast";
    names[count + 1] = "push";
    return count + 2;
}

static inline bool fixture_allowed(const fixture_case *c);

/* All valid combinations. Returns how many. */
static inline size_t fixture_cases(fixture_case *cases)
{
    const char *names[FIXTURE_EXCHANGES_MAX];
    size_t count = 0, exchanges = fixture_exchanges(names);
    for (size_t x = 0; x < exchanges; x++)
        for (size_t c = 0; c < TG_COUNT(fixture_codecs); c++)
            for (size_t n = 0; n < TG_COUNT(fixture_sizes); n++) {
                cases[count] = (fixture_case){names[x], fixture_codecs[c], fixture_sizes[n]};
                count += fixture_allowed(&cases[count]);
            }
    return count;
}

/* Element i of a rank's vector in a step. Both signs and many magnitudes occur, so that the order
 * of a sum is visible in its bits. */
static inline float fixture_value(int rank, uint64_t step, size_t i)
{
    static const float scale[8] = {0x1p-6f, 0x1p-5f, 0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1, 2};
    uint64_t h = (uint64_t)rank << 48 ^ step << 40 ^ i; /* hashed by splitmix64 */
    h = (h + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    h ^= h >> 31;
    float mantissa = (float)(h & 0xffffff) / 16777216.0f + 0.5f;
    return (h >> 40 & 1 ? -mantissa : mantissa) * scale[h >> 41 & 7];
}

static inline float *fixture_vector(int rank, uint64_t step, size_t n)
{
    float *v = malloc(TG__MAX(n, (size_t)1) * sizeof *v);
    for (size_t i = 0; v && i < n; i++)
        v[i] = fixture_value(rank, step, i);
    return v;
}

static inline tg_status fixture_create(const fixture_case *c, int rank, int size,
                                       tg_codec **codec_p, tg__exchange **x_p)
{
    tg_codec *codec = NULL;
    TG_TRY(tg_codec_create(c->codec, &codec));
    tg_status status = tg__exchange_create(tg__exchange_find(c->exchange), rank, size, c->n, codec,
                                           &tg__combine_mean, x_p);
    if (status != TG_OK)
        tg_codec_destroy(codec);
    else
        *codec_p = codec;
    return status;
}

static inline bool fixture_allowed(const fixture_case *c)
{
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    tg_status status = fixture_create(c, 0, 2, &codec, &x);
    if (status == TG_OK) {
        tg__exchange_destroy(x);
        tg_codec_destroy(codec);
    }
    return status != TG_E_UNSUPPORTED;
}

/* Encode this rank's vector of the step into the exchange's parts. */
static inline tg_status fixture_encode(tg__exchange *x, uint64_t step)
{
    x->context = fixture_owner_context(step, x->rank);
    x->hop = x->size > 1 ? 1 : 0;
    if (x->nparts == 0)
        return TG_OK;
    float *v = fixture_vector(x->rank, step, x->n);
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .rng = {.seed = 1, .purpose = TG_PURPOSE_CODEC, .step = step}};
    tg_status status = tg__codec_encode(x->codec, &ctx, v, x->n, x->parts, x->nparts, NULL);
    free(v);
    return status;
}

/* What the other ranks decode of a rank's vector: dst (n). */
static inline tg_status fixture_decoded(const fixture_case *c, int rank, int size, uint64_t step,
                                        float *dst)
{
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    TG_TRY(fixture_create(c, rank, size, &codec, &x));
    tg_status status = fixture_encode(x, step);
    for (size_t q = 0; status == TG_OK && q < x->nparts; q++)
        tg__frame_decode(x->parts[q].dst, x->parts[q].len, dst + x->parts[q].lo, NULL);
    tg__exchange_destroy(x);
    tg_codec_destroy(codec);
    return status;
}

/* The aggregate that `rank` must have, computed in plain loops: dst (n). */
static inline tg_status fixture_reference(const fixture_case *c, int rank, int size, uint64_t step,
                                          float *dst)
{
    if (strcmp(c->exchange, "push") == 0)
        return fixture_decoded(c, (rank - 1 + size) % size, size, step, dst);
    if (strcmp(c->exchange, "none") == 0 || strcmp(c->exchange, "broadcast") == 0)
        return fixture_decoded(c, c->exchange[0] == 'n' ? rank : 0, size, step, dst);
    const size_t n = c->n, P = (size_t)size;
    float *all = malloc(TG__MAX(n * P, (size_t)1) * sizeof *all);
    tg_status status = all == NULL ? tg_fail(TG_E_NOMEM, "out of memory") : TG_OK;
    for (size_t p = 0; p < P && status == TG_OK; p++)
        status = fixture_decoded(c, (int)p, size, step, all + p * n);
    if (status == TG_OK) {
        const fixture_sent sent = {.n = n, .P = P, .all = all, .codec = c->codec, .step = step};
        status = fixture_aggregate(c->exchange, &sent, dst);
    }
    free(all);
    return status;
}

/* Launch f and run until it is finished. */
static inline tg_status fixture_wait(tg__pump *p, tg__flight *f)
{
    TG_TRY(tg__pump_launch(p, f));
    while (!f->finished)
        TG_TRY(tg__pump_run(p, INT64_MAX));
    return TG_OK;
}

/* Run the exchange of one step over the pump: dst (n). */
static inline tg_status fixture_run(tg__pump *p, tg__flight *f, uint64_t step, float *dst)
{
    TG_TRY(fixture_encode(f->x, step));
    f->step = step;
    f->x->into = step % 2 == 1 ? dst : NULL;
    TG_TRY(fixture_wait(p, f));
    f->x->ops->result(f->x, dst);
    return TG_OK;
}

/* Compare dst with what every rank must have; the message names the case. */
static inline tg_status fixture_compare(const fixture_case *c, int rank, int size, uint64_t step,
                                        const float *dst)
{
    float *want = malloc(TG__MAX(c->n, (size_t)1) * sizeof *want);
    tg_status status = fixture_reference(c, rank, size, step, want);
    for (size_t i = 0; i < c->n && status == TG_OK; i++)
        if (memcmp(&dst[i], &want[i], sizeof *dst) != 0)
            status = tg_fail(TG_E_STATE, "%s, %s, n=%zu, rank %d of %d: element %zu is %a, not %a",
                             c->exchange, c->codec, c->n, rank, size, i, (double)dst[i],
                             (double)want[i]);
    free(want);
    return status;
}

/* Run all cases, two steps each, on one rank of the transport, and compare with the reference. */
static inline tg_status fixture_conformance(tg_transport *t, int64_t timeout_ns)
{
    fixture_case cases[FIXTURE_CASES_MAX];
    size_t count = fixture_cases(cases);
    tg__pump p;
    tg__pump_init(&p, t, 77, timeout_ns);
    tg_status status = TG_OK;
    uint32_t sequence = 4090; /* close to where tags wrap */
    for (size_t i = 0; i < count && status == TG_OK; i++) {
        tg_codec *codec = NULL;
        tg__flight f = {.bucket = (uint16_t)i};
        status = fixture_create(&cases[i], t->rank, t->size, &codec, &f.x);
        if (status != TG_OK)
            break;
        float *dst = malloc(TG__MAX(cases[i].n, (size_t)1) * sizeof *dst);
        for (uint64_t step = 0; step < 2 && status == TG_OK; step++) {
            f.sequence = sequence++;
            status = fixture_run(&p, &f, step, dst);
            if (status == TG_OK)
                status = fixture_compare(&cases[i], t->rank, t->size, step, dst);
        }
        if (status != TG_OK)
            (void)t->ops->shut(t); /* before freeing memory that others may still copy from */
        free(dst);
        tg__flight_fini(&f);
        tg__exchange_destroy(f.x);
        tg_codec_destroy(codec);
    }
    tg__pump_fini(&p);
    return status;
}

#endif
