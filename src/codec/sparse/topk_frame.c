/* Frames of sparse vectors. */
#include "codec/sparse/topk_frame.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "wire/index.h"
#include <string.h>

enum { AT_VALUES = 4 };

/* The first index in idx (k, ascending) that is not below limit. */
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
    tg__part_dense_placed(part, wire_id);
    part->kept = k;
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
    float *val = s->val + first;
    size_t at_index = AT_VALUES + tg__values_len(s->values, val, k), len = at_index + plan.len;
    if (len >= n * sizeof(float)) {
        TG_TRY(tg__part_room(part, TG__FRAME_HEAD + n * sizeof(float)));
        tg__values_write(s->values, val, k, NULL);
        write_dense(part, wire_id, idx, val, k);
        return TG_OK;
    }
    TG_TRY(tg__part_room(part, TG__FRAME_HEAD + len));
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    tg__put32(payload, (uint32_t)k);
    tg__values_write(s->values, val, k, payload + AT_VALUES);
    tg__index_write(&plan, idx, k, n, payload + at_index);
    tg__part_coded(part, wire_id, (uint16_t)(s->values | plan.coding << 4 | plan.param << 8), len);
    part->kept = k;
    return TG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The head of a coded frame, with k not yet checked. */
typedef struct pieces {
    size_t k, rest; /* rest: bytes of values and index code */
    int values, index, param;
    const uint8_t *val;
} pieces;

static pieces take_apart(const tg__frame *f)
{
    return (pieces){.k = tg__get32(f->payload),
                    .rest = f->payload_len - AT_VALUES,
                    .values = f->aux & 15,
                    .index = f->aux >> 4 & 15,
                    .param = f->aux >> 8 & 31,
                    .val = f->payload + AT_VALUES};
}

tg_status tg__sparse_check(const tg__frame *f)
{
    if (f->payload_len < AT_VALUES)
        return tg_fail(TG_E_CORRUPT, "sparse frame: payload length=%zu: must be at least %d",
                       f->payload_len, AT_VALUES);
    pieces p = take_apart(f);
    size_t used;
    if (f->aux >> 13 != 0)
        return tg_fail(TG_E_CORRUPT, "sparse frame: aux=%#x: upper bits must be 0", f->aux);
    if (p.k < 1 || p.k > f->n)
        return tg_fail(TG_E_CORRUPT, "sparse frame: k=%zu: allowed: 1..%u", p.k, f->n);
    TG_TRY(tg__values_check(p.values, p.k, p.val, p.rest, &used));
    return tg__index_check(p.index, p.param, f->n, p.k, p.val + used, p.rest - used);
}

/* The frame was checked, so reading cannot fail. If the bytes have changed since, it stays within
 * bounds. */
void tg__sparse_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    (void)lo; /* because of TG__WHOLE */
    (void)hi;
    pieces p = take_apart(f);
    tg__values_reader values;
    tg__index_reader r;
    uint32_t idx[TG__VALUES_BLOCK];
    float val[TG__VALUES_BLOCK];
    size_t used, count;
    if (!add)
        memset(dst, 0, f->n * sizeof(*dst));
    tg__values_begin(&values, p.values, p.k, p.val, p.rest, &used);
    if (used == SIZE_MAX ||
        tg__index_read_begin(&r, p.index, p.param, f->n, p.k, p.val + used, p.rest - used) != TG_OK)
        return;
    for (size_t done = 0; done < p.k; done += count) {
        if (tg__index_read(&r, idx, TG__VALUES_BLOCK, &count) != TG_OK)
            return;
        tg__values_read(&values, val, count);
        if (add)
            tg__kernel()->scatter_add(dst, idx, val, count);
        else
            for (size_t i = 0; i < count; i++)
                dst[idx[i]] = val[i];
    }
}
