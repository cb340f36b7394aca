/* 16-bit floats: the payload is n little-endian words. Payloads can have any alignment, but the
 * kernels need even addresses; odd ones go through a block on the stack. */
#include "codec/quant/half.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 2048, STEP = 8192 }; /* elements */

typedef struct half {
    float *decoded; /* the view */
    size_t cap;
} half;

tg_status tg__half_init(tg_codec *c)
{
    return tg_alloc(1, sizeof(half), &c->impl);
}

void tg__half_fini(tg_codec *c)
{
    half *h = c->impl;
    if (h)
        free(h->decoded);
    free(h);
}

size_t tg__half_bound(const tg_codec *c, size_t n)
{
    (void)c;
    return TG__FRAME_HEAD + n * sizeof(uint16_t);
}

static bool even(const uint8_t *p)
{
    return (uintptr_t)p % sizeof(uint16_t) == 0;
}

static void put(const tg__half_format *h, uint8_t *dst, const float *x, size_t n)
{
    if (even(dst)) {
        h->encode((uint16_t *)(void *)dst, x, n);
        return;
    }
    uint16_t block[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)BLOCK);
        h->encode(block, x + begin, m);
        memcpy(dst + 2 * begin, block, 2 * m);
    }
}

/* dst = (add: += ) the payload's values. */
static void get(const tg__half_format *h, const uint8_t *src, size_t n, float *dst, bool add)
{
    void (*read)(float *, const uint16_t *, size_t) = add ? h->decode_add : h->decode;
    if (even(src)) {
        read(dst, (const uint16_t *)(const void *)src, n);
        return;
    }
    uint16_t block[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)BLOCK);
        memcpy(block, src + 2 * begin, 2 * m);
        read(dst + begin, block, m);
    }
}

/* The encoding of one part, shared by the cores of a pool. */
typedef struct job {
    const tg__half_format *h;
    const float *x;    /* (n) of the part */
    uint8_t *payload;  /* (2 n) */
    float *decoded;    /* (n) NULL: not wanted */
    atomic_bool coded; /* some word is not 0 */
} job;

/* In steps that stay in the cache for the passes that follow. */
static void encode_range(void *arg, size_t lo, size_t hi)
{
    job *j = arg;
    for (size_t at = lo; at < hi; at += STEP) {
        size_t m = TG__MIN(hi - at, (size_t)STEP);
        put(j->h, j->payload + 2 * at, j->x + at, m);
        if (!atomic_load_explicit(&j->coded, memory_order_relaxed) &&
            !tg__all_zero(j->payload + 2 * at, 2 * m))
            atomic_store_explicit(&j->coded, true, memory_order_relaxed);
        if (j->decoded)
            get(j->h, j->payload + 2 * at, m, j->decoded + at, false);
    }
}

tg_status tg__half_encode(tg_codec *c, const tg__half_format *h, const float *x, size_t n,
                          tg__part *parts, size_t nparts, tg__view *view_p)
{
    half *own = c->impl;
    if (view_p)
        TG_TRY(tg__scratch(&own->decoded, &own->cap, n, sizeof(float)));
    for (size_t i = 0; i < nparts; i++) {
        tg__part *part = &parts[i];
        size_t m = part->hi - part->lo;
        TG_TRY(tg__part_room(part, tg__half_bound(c, m)));
        job j = {.h = h,
                 .x = x + part->lo,
                 .payload = part->dst + TG__FRAME_HEAD,
                 .decoded = view_p ? own->decoded + part->lo : NULL};
        tg__pool_chunks(c->pool, m, TG__CHUNK, encode_range, &j);
        if (j.coded)
            tg__part_coded(part, h->wire_id, 0, 2 * m);
        else
            tg__part_zero(part, h->wire_id);
    }
    if (view_p)
        *view_p = (tg__view){.sparse = false, .dense = own->decoded, .k = n};
    return TG_OK;
}

tg_status tg__half_check(const tg__frame *f)
{
    if (f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "16-bit frame: aux=%#x: must be 0", f->aux);
    if (f->payload_len != 2 * (size_t)f->n)
        return tg_fail(TG_E_CORRUPT, "16-bit frame: payload length=%zu: %zu for n=%u",
                       f->payload_len, 2 * (size_t)f->n, f->n);
    return TG_OK;
}

void tg__half_decode(const tg__half_format *h, const tg__frame *f, size_t lo, size_t hi, float *dst,
                     bool add)
{
    get(h, f->payload + 2 * lo, hi - lo, dst + lo, add);
}
