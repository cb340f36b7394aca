/* Frames of sparse vectors. */
#include "codec/topk_frame.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "wire/index.h"
#include <string.h>

enum { AT_VALUES = 4, BLOCK = 512 };

static size_t value_bytes(int values)
{
    return values == TG__VALUES_F32 ? 4 : 2;
}

/* The first of idx (k, ascending) that is not below limit. */
static size_t lower_bound(const uint32_t *idx, size_t k, size_t limit)
{
    size_t lo = 0, hi = k;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (idx[mid] < limit)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void write_dense(tg__part *part, uint8_t wire_id, const uint32_t *idx, const float *val,
                        size_t k)
{
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    memset(payload, 0, (part->hi - part->lo) * sizeof(float));
    for (size_t i = 0; i < k; i++)
        tg__floats_put(payload + idx[i] * sizeof(float), &val[i], 1);
    tg__frame_head(part->dst, wire_id, TG__FORM_DENSE, 0, part->hi - part->lo,
                   (part->hi - part->lo) * sizeof(float));
    part->len = TG__FRAME_HEAD + (part->hi - part->lo) * sizeof(float);
    part->kept = k;
}

static void write_values(uint8_t *dst, const tg__sparse *s, size_t first, size_t k)
{
    if (s->values == TG__VALUES_F32)
        tg__floats_put(dst, s->val + first, k);
    else
        memcpy(dst, s->half + first, 2 * k); /* words are little-endian already */
}

tg_status tg__sparse_write(tg__part *part, uint8_t wire_id, const tg__sparse *s, uint32_t *rebased)
{
    size_t first = lower_bound(s->idx, s->k, part->lo);
    size_t k = lower_bound(s->idx + first, s->k - first, part->hi);
    size_t n = part->hi - part->lo;
    const uint32_t *idx = s->idx + first;
    if (k == 0) {
        TG_TRY(tg__part_room(part, TG__FRAME_HEAD));
        tg__part_zero(part, wire_id);
        return TG_OK;
    }
    if (part->lo > 0) {
        for (size_t i = 0; i < k; i++)
            rebased[i] = idx[i] - (uint32_t)part->lo;
        idx = rebased;
    }
    tg__index_plan plan = tg__index_choose(s->index, idx, k, n);
    size_t at_index = AT_VALUES + k * value_bytes(s->values), len = at_index + plan.len;
    if (len >= n * sizeof(float)) {
        TG_TRY(tg__part_room(part, TG__FRAME_HEAD + n * sizeof(float)));
        write_dense(part, wire_id, idx, s->val + first, k);
        return TG_OK;
    }
    TG_TRY(tg__part_room(part, TG__FRAME_HEAD + len));
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    tg__put32(payload, (uint32_t)k);
    write_values(payload + AT_VALUES, s, first, k);
    tg__index_write(&plan, idx, k, payload + at_index);
    tg__part_coded(part, wire_id, (uint16_t)(s->values | plan.coding << 4 | plan.param << 8), len);
    part->kept = k;
    return TG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The pieces of a coded frame. */
typedef struct pieces {
    size_t k, index_len;
    int values, index, param;
    const uint8_t *val, *code;
} pieces;

/* k may be anything here; the other pieces only make sense if it was checked. */
static pieces take_apart(const tg__frame *f)
{
    pieces p = {.k = tg__get32(f->payload),
                .values = f->aux & 15,
                .index = f->aux >> 4 & 15,
                .param = f->aux >> 8 & 31,
                .val = f->payload + AT_VALUES};
    size_t at_index = AT_VALUES + p.k * value_bytes(p.values);
    if (at_index <= f->payload_len) {
        p.code = f->payload + at_index;
        p.index_len = f->payload_len - at_index;
    }
    return p;
}

tg_status tg__sparse_check(const tg__frame *f)
{
    if (f->payload_len < AT_VALUES)
        return tg_fail(TG_E_CORRUPT, "sparse frame: payload length=%zu: at least %d",
                       f->payload_len, AT_VALUES);
    pieces p = take_apart(f);
    if (f->aux >> 13 != 0 || p.values > TG__VALUES_FP16)
        return tg_fail(TG_E_CORRUPT, "sparse frame: aux=%#x: unknown coding of values", f->aux);
    if (p.k < 1 || p.k > f->n)
        return tg_fail(TG_E_CORRUPT, "sparse frame: k=%zu: allowed: 1..%u", p.k, f->n);
    if (!p.code)
        return tg_fail(TG_E_CORRUPT, "sparse frame: payload length=%zu: %zu values do not fit",
                       f->payload_len, p.k);
    return tg__index_check(p.index, p.param, f->n, p.k, p.code, p.index_len);
}

static void read_values(const pieces *p, size_t first, size_t count, float *val)
{
    const uint8_t *src = p->val + first * value_bytes(p->values);
    if (p->values == TG__VALUES_F32) {
        tg__floats_get(val, src, count);
        return;
    }
    uint16_t half[BLOCK];
    memcpy(half, src, 2 * count);
    tg__kernel()->f16_decode(val, half, count);
}

/* The frame was checked, so reading cannot fail; if the bytes changed meanwhile it stops within
 * bounds. */
void tg__sparse_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    (void)lo; /* TG__WHOLE */
    (void)hi;
    pieces p = take_apart(f);
    tg__index_reader r;
    uint32_t idx[BLOCK];
    float val[BLOCK];
    size_t count;
    if (!add)
        memset(dst, 0, f->n * sizeof(*dst));
    if (tg__index_read_begin(&r, p.index, p.param, f->n, p.k, p.code, p.index_len) != TG_OK)
        return;
    for (size_t done = 0; done < p.k; done += count) {
        if (tg__index_read(&r, idx, BLOCK, &count) != TG_OK)
            return;
        read_values(&p, done, count, val);
        if (add)
            tg__kernel()->scatter_add(dst, idx, val, count);
        else
            for (size_t i = 0; i < count; i++)
                dst[idx[i]] = val[i];
    }
}
