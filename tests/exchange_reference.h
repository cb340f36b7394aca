/* The result that an exchange must give, computed in plain loops over the decoded vectors of all
 * ranks. Included by exchange_fixture.h. */
#ifndef TG_EXCHANGE_REFERENCE_H
#define TG_EXCHANGE_REFERENCE_H

#include "base/mem.h"
#include "exchange/exchange.h"
#include "telegrad/random.h"

#include <stdlib.h>
#include <string.h>

/* What all ranks sent, decoded: element i of rank p is all[p * n + i]. */
typedef struct fixture_sent {
    size_t n, P;
    const float *all;
    const char *codec;
    uint64_t step;
} fixture_sent;

static inline float fixture_at(const fixture_sent *s, size_t p, size_t i)
{
    return s->all[p * s->n + i];
}

/* The block, of `P` blocks, that contains element i. */
static inline size_t fixture_block_of(size_t n, size_t P, size_t i)
{
    size_t blocks = (n + 15) / 16, owner = 0;
    while (i / 16 >= blocks * (owner + 1) / P)
        owner++;
    return owner;
}

static inline float fixture_sum_in_order(const fixture_sent *s, size_t i)
{
    float sum = 0.0f;
    for (size_t p = 0; p < s->P; p++)
        sum += fixture_at(s, p, i);
    return sum;
}

/* Recursive halving: ranks beyond the largest power of two are added to lower ones; then the upper
 * half is added to the lower half until one is left. */
static inline float fixture_sum_tree(const fixture_sent *s, size_t i)
{
    float y[64] = {0};
    size_t core = 1;
    while (2 * core <= s->P)
        core *= 2;
    for (size_t p = 0; p < s->P; p++)
        y[p % core] += fixture_at(s, p, i);
    for (size_t d = core / 2; d > 0; d /= 2)
        for (size_t k = 0; k < d; k++)
            y[k] += y[k + d];
    return y[0];
}

/* The context in which a rank encodes sums. */
static inline tg_encode_context fixture_owner_context(uint64_t step, int rank)
{
    return (tg_encode_context){
        .struct_size = sizeof(tg_encode_context),
        .rng = {.seed = 1, .purpose = TG_PURPOSE_OWNER, .rank = (uint32_t)rank, .step = step}};
}

/* v (n) = decode(encode(v)), as `rank` computes it. */
static inline tg_status fixture_recode(const fixture_sent *s, int rank, float *v, size_t n)
{
    tg_codec *codec = NULL;
    TG_TRY(tg_codec_create(s->codec, &codec));
    const tg_encode_context ctx = fixture_owner_context(s->step, rank);
    tg__part part = {.cap = tg__codec_bound(codec, n), .hi = n};
    part.dst = malloc(part.cap);
    tg_status status = part.dst == NULL ? tg_fail(TG_E_NOMEM, "out of memory")
                                        : tg__codec_encode(codec, &ctx, v, n, &part, 1, NULL);
    if (status == TG_OK)
        tg__frame_decode(part.dst, part.len, v, NULL);
    free(part.dst);
    tg_codec_destroy(codec);
    return status;
}

/* Owners re-encode the sums of their blocks. */
static inline tg_status fixture_reducescatter(const fixture_sent *s, float *dst)
{
    for (size_t i = 0; i < s->n; i++)
        dst[i] = fixture_sum_in_order(s, i);
    for (size_t q = 0, lo = 0, hi = 0; q < s->P; q++, lo = hi) {
        while (hi < s->n && fixture_block_of(s->n, s->P, hi) == q)
            hi++;
        TG_TRY(fixture_recode(s, (int)q, dst + lo, hi - lo));
    }
    for (size_t i = 0; i < s->n; i++)
        dst[i] *= 1.0f / (float)s->P;
    return TG_OK;
}

/* Block b starts at the rank after its owner; every partial sum is re-encoded. */
static inline tg_status fixture_ring(const fixture_sent *s, float *dst)
{
    for (size_t b = 0, lo = 0, hi = 0; b < s->P; b++, lo = hi) {
        while (hi < s->n && fixture_block_of(s->n, s->P, hi) == b)
            hi++;
        for (size_t k = 0; k < s->P; k++) {
            const size_t p = (b + 1 + k) % s->P;
            for (size_t i = lo; i < hi; i++)
                dst[i] = (k == 0 ? 0.0f : 0.0f + dst[i]) + fixture_at(s, p, i);
            if (k > 0 || s->P == 1)
                TG_TRY(fixture_recode(s, (int)p, dst + lo, hi - lo));
        }
    }
    for (size_t i = 0; i < s->n; i++)
        dst[i] *= 1.0f / (float)s->P;
    return TG_OK;
}

/* Pairs are merged and re-encoded along a tree. */
static inline tg_status fixture_gtopk(const fixture_sent *s, float *dst)
{
    const size_t n = s->n;
    float *v = malloc(TG__MAX(n * s->P, (size_t)1) * sizeof *v);
    tg_status status = v == NULL ? tg_fail(TG_E_NOMEM, "out of memory") : TG_OK;
    for (size_t i = 0; status == TG_OK && i < n * s->P; i++)
        v[i] = s->all[i];
    for (size_t d = 1; d < s->P; d *= 2)
        for (size_t p = 0; status == TG_OK && p + d < s->P; p += 2 * d) {
            for (size_t i = 0; i < n; i++)
                v[p * n + i] = (0.0f + v[p * n + i]) + v[(p + d) * n + i];
            status = fixture_recode(s, (int)p, v + p * n, n);
        }
    for (size_t i = 0; status == TG_OK && i < n; i++)
        dst[i] = v[i] * (1.0f / (float)s->P);
    free(v);
    return status;
}

/* dst (n) = the aggregate according to the named exchange. */
static inline tg_status fixture_aggregate(const char *exchange, const fixture_sent *s, float *dst)
{
    if (strcmp(exchange, "reducescatter") == 0)
        return fixture_reducescatter(s, dst);
    if (strcmp(exchange, "gtopk") == 0)
        return fixture_gtopk(s, dst);
    if (strcmp(exchange, "ring") == 0)
        return fixture_ring(s, dst);
    for (size_t i = 0; i < s->n; i++) {
        const float sum =
            strcmp(exchange, "halving") == 0 ? fixture_sum_tree(s, i) : fixture_sum_in_order(s, i);
        dst[i] = sum * (1.0f / (float)s->P);
    }
    return TG_OK;
}

#endif
