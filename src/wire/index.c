/* Index lists: the choice of the coding, raw words and bitmaps. Rice is in rice.c, Elias-Fano in
 * elias_fano.c. */
#include "wire/index.h"
#include "base/mem.h"
#include "wire/bits.h"
#include "wire/elias_fano.h"
#include "wire/rice.h"
#include <string.h>

static size_t bitmap_bytes(size_t n)
{
    return (n + 7) / 8;
}

int tg__index_named(const char *word)
{
    static const char *const words[TG__INDEX_CODINGS] = {"raw", "bitmap", "rice", "ef"};
    for (int i = 0; i < TG__INDEX_CODINGS; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return TG__INDEX_AUTO;
}

/* ---- writing --------------------------------------------------------------------------------- */

tg__index_plan tg__index_choose(int coding, const uint32_t *idx, size_t k, size_t n)
{
    tg__index_plan raw = {TG__INDEX_RAW, 0, k * 4};
    tg__index_plan bitmap = {TG__INDEX_BITMAP, 0, bitmap_bytes(n)};
    tg__index_plan rice = {TG__INDEX_RICE, 0, 0};
    if (coding == TG__INDEX_RAW)
        return raw;
    if (coding == TG__INDEX_BITMAP)
        return bitmap;
    if (coding == TG__INDEX_EF) /* never for AUTO: Rice is no longer */
        return (tg__index_plan){TG__INDEX_EF, 0, tg__ef_len(n, k)};
    if (k > 0) {
        uint64_t bits;
        rice.param = tg__rice_choose(idx, k, &bits);
        rice.len = (size_t)((bits + 7) / 8);
    }
    if (coding == TG__INDEX_RICE)
        return rice;
    tg__index_plan best = bitmap.len < raw.len ? bitmap : raw;
    return rice.len < best.len ? rice : best;
}

void tg__index_write(const tg__index_plan *plan, const uint32_t *idx, size_t k, size_t n,
                     uint8_t *dst)
{
    switch (plan->coding) {
    case TG__INDEX_RAW:
        for (size_t i = 0; i < k; i++)
            tg__put32(dst + 4 * i, idx[i]);
        break;
    case TG__INDEX_BITMAP:
        memset(dst, 0, plan->len);
        for (size_t i = 0; i < k; i++)
            dst[idx[i] / 8] |= (uint8_t)(1u << idx[i] % 8);
        break;
    case TG__INDEX_EF:
        tg__ef_write(idx, k, n, dst);
        break;
    default:
        tg__rice_write(idx, k, plan->param, dst, plan->len);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

tg_status tg__index_read_begin(tg__index_reader *r, int coding, int param, size_t n, size_t k,
                               const uint8_t *src, size_t len)
{
    if (k > n)
        return tg_fail(TG_E_CORRUPT, "indices: %zu of %zu", k, n);
    tg__index_reader reader = {
        .src = src, .len = len, .n = n, .k = k, .coding = coding, .param = param};
    if (coding == TG__INDEX_RICE) {
        TG_TRY(tg__rice_begin(&reader));
    } else if (coding == TG__INDEX_EF) {
        TG_TRY(tg__ef_begin(&reader));
    } else if (coding == TG__INDEX_RAW || coding == TG__INDEX_BITMAP) {
        size_t want = coding == TG__INDEX_RAW ? k * 4 : bitmap_bytes(n);
        if (len != want)
            return tg_fail(TG_E_CORRUPT,
                           "indices: coding %d of %zu of %zu: length=%zu: must be %zu", coding, k,
                           n, len, want);
        if (param != 0)
            return tg_fail(TG_E_CORRUPT, "indices: coding %d: parameter=%d: must be 0", coding,
                           param);
    } else {
        return tg_fail(TG_E_CORRUPT,
                       "indices: coding=%d: allowed: 0 (raw), 1 (bitmap), 2 (Rice), 3 (Elias-Fano)",
                       coding);
    }
    *r = reader;
    return TG_OK;
}

static tg_status read_raw(tg__index_reader *r, uint32_t *idx, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t value = tg__get32(r->src + r->pos + 4 * i);
        if (value < r->last || value >= r->n)
            return tg_fail(TG_E_CORRUPT,
                           "indices: %u after %lld: must ascend and be below n, which is %zu",
                           value, (long long)r->last - 1, r->n);
        idx[i] = value;
        r->last = (uint64_t)value + 1;
    }
    r->pos += 4 * count;
    return TG_OK;
}

/* pos: the next bit to read. */
static tg_status read_bitmap(tg__index_reader *r, uint32_t *idx, size_t count)
{
    size_t i = 0, at = (size_t)(r->pos / 64) * 8;
    uint64_t word = tg__bits_from(r->src, r->len, at) & UINT64_MAX << r->pos % 64;
    while (i < count) {
        if (word == 0) {
            at += 8;
            if (at >= r->len)
                return tg_fail(TG_E_CORRUPT, "indices: bitmap: only %zu of %zu bits are set",
                               r->done + i, r->k);
            word = tg__bits_from(r->src, r->len, at);
            continue;
        }
        uint64_t value = (uint64_t)at * 8 + (unsigned)__builtin_ctzll(word);
        if (value >= r->n)
            return tg_fail(TG_E_CORRUPT, "indices: bitmap: padding bits are not zero");
        idx[i++] = (uint32_t)value;
        word &= word - 1;
    }
    if (count > 0)
        r->pos = (uint64_t)idx[count - 1] + 1;
    return TG_OK;
}

static tg_status end_bitmap(const tg__index_reader *r)
{
    size_t at = (size_t)(r->pos / 64) * 8;
    uint64_t word = at < r->len ? tg__bits_from(r->src, r->len, at) & UINT64_MAX << r->pos % 64 : 0;
    while (word == 0 && (at += 8) < r->len)
        word = tg__bits_from(r->src, r->len, at);
    if (word != 0)
        return tg_fail(TG_E_CORRUPT, "indices: bitmap: more than %zu bits are set", r->k);
    return TG_OK;
}

tg_status tg__index_read(tg__index_reader *r, uint32_t *idx, size_t cap, size_t *count_p)
{
    size_t count = TG__MIN(cap, r->k - r->done);
    if (r->done == r->k) {
        if (r->coding == TG__INDEX_BITMAP)
            TG_TRY(end_bitmap(r));
        if (r->coding == TG__INDEX_RICE)
            TG_TRY(tg__rice_end(r));
        if (r->coding == TG__INDEX_EF)
            TG_TRY(tg__ef_end(r));
    } else if (r->coding == TG__INDEX_RAW) {
        TG_TRY(read_raw(r, idx, count));
    } else if (r->coding == TG__INDEX_BITMAP) {
        TG_TRY(read_bitmap(r, idx, count));
    } else if (r->coding == TG__INDEX_EF) {
        TG_TRY(tg__ef_read(r, idx, count));
    } else {
        TG_TRY(tg__rice_read(r, idx, count));
    }
    r->done += count;
    *count_p = count;
    return TG_OK;
}

tg_status tg__index_check(int coding, int param, size_t n, size_t k, const uint8_t *src, size_t len)
{
    tg__index_reader r;
    TG_TRY(tg__index_read_begin(&r, coding, param, n, k, src, len));
    uint32_t idx[512];
    size_t count;
    do
        TG_TRY(tg__index_read(&r, idx, TG_COUNT(idx), &count));
    while (count > 0);
    return TG_OK;
}
