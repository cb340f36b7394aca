#include "codec/block/block_frame.h"
#include "base/mem.h"
#include "wire/bits.h"
#include "telegrad/spec.h"
#include <string.h>

enum { HEAD_BYTES = 8, TENSOR_BYTES = 8 };
enum { TOGETHER = 8 }; /* the fewest blocks for one core */

tg_status tg__block_init(tg_codec *c)
{
    tg__block_coder *b = c->impl;
    const char *values = tg_spec_word(c->spec, "values");
    b->keep = (size_t)tg_spec_int(c->spec, "keep");
    b->values = strcmp(values, "f32") == 0    ? TG__BLOCK_F32
                : strcmp(values, "fp16") == 0 ? TG__BLOCK_FP16
                                              : TG__BLOCK_2BIT;
    return TG_OK;
}

/* A tensor's part of the payload. */
typedef struct piece {
    tg__grid grid;
    size_t kept, values_len, index_len;
} piece;

static piece piece_of(size_t rows, size_t cols, size_t keep, int values)
{
    piece p = {.grid = tg__grid_make(rows, cols, keep)};
    size_t bits;
    p.kept = tg__grid_kept(&p.grid, &bits);
    p.values_len = tg__block_values_len(values, p.kept);
    p.index_len = (bits + 7) / 8;
    return p;
}

/* ---- writing --------------------------------------------------------------------------------- */

static piece piece_of_run(const tg__block_coder *b, const tg__run *r)
{
    const size_t n = r->hi - r->lo;
    return n == r->of.n ? piece_of(r->of.rows, r->of.cols, b->keep, b->values)
                        : piece_of(n, 1, b->keep, b->values);
}

/* Payload bytes of a part; *tensors_p, *most_p: the number of tensors, and the most elements that
 * one keeps. */
static size_t payload_len(const tg__block_coder *b, const tg_encode_context *ctx,
                          const tg__part *part, size_t *tensors_p, size_t *most_p)
{
    size_t tensors = 0, most = 0, len = HEAD_BYTES;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        const piece p = piece_of_run(b, &r);
        tensors++;
        len += TENSOR_BYTES + p.values_len + p.index_len;
        most = TG__MAX(most, p.kept);
    }
    *tensors_p = tensors;
    *most_p = most;
    return len;
}

/* Prefetch the same row of the next block: rows are too far apart for the hardware prefetcher. The
 * address may be beyond the vector's end. */
static void ask_for_next(const float *row, size_t width)
{
    enum { LINE = 64 };
    for (size_t at = 0; at < width * sizeof *row; at += LINE)
        __builtin_prefetch((const void *)((uintptr_t)(row + width) + at));
}

/* The block's elements, in place or at y: its rows, or their transform. */
static const float *load(const tg__block_coder *b, const float *x, size_t cols, const tg__block *k,
                         float *y)
{
    if (b->forward != NULL)
        b->forward(x, cols, k->height, k->width, y);
    else if (k->width == cols)
        return x;
    else
        for (size_t i = 0; i < k->height; i++) {
            memcpy(y + i * k->width, x + i * cols, k->width * sizeof *x);
            ask_for_next(x + i * cols, k->width);
        }
    return y;
}

/* Places and values of all blocks of tensor x, written to b->place and b->kept by several cores. */
typedef struct picking {
    const tg__block_coder *b;
    const tg__grid *grid;
    const float *x;
    float hint; /* [out] */
} picking;

static void pick_blocks(void *arg, size_t lo, size_t hi)
{
    picking *p = arg;
    const tg__grid *g = p->grid;
    float block[TG__BLOCK_MAX];
    tg__block_select select;
    size_t bits, at = tg__grid_kept_before(g, lo, &bits);
    select.hint = p->b->hint;
    for (size_t i = lo; i < hi; i++) {
        const tg__block k = tg__grid_block(g, i);
        const float *y = load(p->b, p->x + k.row * g->cols + k.col, g->cols, &k, block);
        tg__block_pick(&select, y, k.height * k.width, k.keep, p->b->place + at, p->b->kept + at);
        at += k.keep;
    }
    if (hi == tg__grid_blocks(g))
        p->hint = select.hint;
}

static void pick(const tg_codec *c, const tg__grid *g, const float *x)
{
    tg__block_coder *b = c->impl;
    picking p = {.b = b, .grid = g, .x = x};
    tg__pool_chunks(c->pool, tg__grid_blocks(g), TOGETHER, pick_blocks, &p);
    b->hint = p.hint;
}

static void put_places(const tg__block_coder *b, const tg__grid *g, uint8_t *dst)
{
    const size_t blocks = tg__grid_blocks(g);
    const uint16_t *place = b->place;
    uint64_t word = 0;
    unsigned have = 0;
    for (size_t i = 0; i < blocks; i++) {
        const tg__block k = tg__grid_block(g, i);
        for (size_t j = 0; k.bits > 0 && j < k.keep; j++) {
            word |= (uint64_t)place[j] << have;
            for (have += k.bits; have >= 8; have -= 8, word >>= 8)
                *dst++ = (uint8_t)word;
        }
        place += k.keep;
    }
    if (have > 0)
        *dst = (uint8_t)word;
}

/* List the picked elements in the order of the vector. Adjacent blocks share rows, so the elements
 * of such a band are counted by row and then put in place, block by block. */
static void list(tg__block_coder *b, const tg__grid *g, size_t base)
{
    const size_t blocks = tg__grid_blocks(g), across = tg__grid_across(g);
    const uint16_t *place = b->place;
    const float *kept = b->kept;
    for (size_t band = 0; band < blocks; band += across) {
        size_t at[TG__BLOCK_SIDE + 1] = {0}, first = 0;
        for (size_t i = band; i < band + across; i++) {
            const tg__block k = tg__grid_block(g, i);
            for (size_t j = 0; j < k.keep; j++)
                at[place[first + j] / (uint32_t)k.width + 1]++;
            first += k.keep;
        }
        for (size_t r = 0; r < TG__BLOCK_SIDE; r++)
            at[r + 1] += at[r];
        for (size_t i = band; i < band + across; i++) {
            const tg__block k = tg__grid_block(g, i);
            for (size_t j = 0; j < k.keep; j++, place++, kept++) {
                const uint32_t row = *place / (uint32_t)k.width;
                const size_t col = k.col + *place % (uint32_t)k.width, to = b->count + at[row]++;
                b->idx[to] = (uint32_t)(base + (k.row + row) * g->cols + col);
                b->val[to] = *kept;
            }
        }
        b->count += first;
    }
}

static bool all_zero(const float *val, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (val[i] != 0)
            return false;
    return true;
}

/* Write the payload to dst, and list the picked elements. Returns true if any value is not 0. */
static bool put_tensors(const tg_codec *c, const tg_encode_context *ctx, const float *x,
                        const tg__part *part, size_t tensors, uint8_t *dst)
{
    tg__block_coder *b = c->impl;
    uint8_t *head = dst + HEAD_BYTES, *body = head + TENSOR_BYTES * tensors;
    bool some = false;
    tg__put32(dst, (uint32_t)tensors);
    tg__put32(dst + 4, (uint32_t)b->keep);
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        const piece p = piece_of_run(b, &r);
        tg__put32(head, (uint32_t)p.grid.rows);
        tg__put32(head + 4, (uint32_t)p.grid.cols);
        head += TENSOR_BYTES;
        pick(c, &p.grid, x + r.lo);
        tg__block_values_put(b->values, b->kept, p.kept, body);
        put_places(b, &p.grid, body + p.values_len);
        body += p.values_len + p.index_len;
        some = some || !all_zero(b->kept, p.kept);
        if (b->forward == NULL)
            list(b, &p.grid, r.lo);
    }
    return some;
}

/* True if sums of a transform's products, over TG_RANKS_MAX ranks, cannot overflow f32. */
static bool in_range(const tg__block_coder *b, const float *x, size_t n)
{
    return b->forward == NULL || tg__kernel()->abs_max(x, n) < 0x1p102f;
}

static void put_dense(const tg_codec *c, const float *x, tg__part *part)
{
    tg__block_coder *b = c->impl;
    const size_t n = part->hi - part->lo;
    if (all_zero(x + part->lo, n)) {
        tg__part_zero(part, c->ops->wire_id);
        return;
    }
    tg__part_dense(part, c->ops->wire_id, x + part->lo);
    for (size_t i = part->lo; b->forward == NULL && i < part->hi; i++) {
        b->idx[b->count] = (uint32_t)i;
        b->val[b->count++] = x[i];
    }
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part)
{
    tg__block_coder *b = c->impl;
    const size_t n = part->hi - part->lo, listed = b->count;
    size_t tensors, most;
    const size_t len = payload_len(b, ctx, part, &tensors, &most);
    TG_TRY(tg__scratch(c, &b->place, most, sizeof *b->place));
    TG_TRY(tg__scratch(c, &b->kept, most, sizeof *b->kept));
    if (len >= n * sizeof(float) || !in_range(b, x + part->lo, n)) {
        TG_TRY(tg__part_room(part, tg__codec_bound(c, n)));
        put_dense(c, x, part);
        return TG_OK;
    }
    TG_TRY(tg__part_room(part, TG__FRAME_HEAD + len));
    if (!put_tensors(c, ctx, x, part, tensors, part->dst + TG__FRAME_HEAD)) {
        b->count = listed;
        tg__part_zero(part, c->ops->wire_id);
        return TG_OK;
    }
    tg__part_coded(part, c->ops->wire_id, (uint16_t)b->values, len);
    part->kept = 0;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r))
        part->kept += piece_of_run(b, &r).kept;
    return TG_OK;
}

/* Entries of the lists that the parts can need. */
static size_t most_listed(const tg__block_coder *b, const tg_encode_context *ctx,
                          const tg__part *parts, size_t nparts)
{
    size_t total = 0;
    for (size_t i = 0; b->forward == NULL && i < nparts; i++) {
        const size_t n = parts[i].hi - parts[i].lo;
        size_t tensors, most, kept = 0;
        if (payload_len(b, ctx, &parts[i], &tensors, &most) >= n * sizeof(float))
            kept = n;
        else
            for (tg__run r = tg__run_first(ctx, &parts[i]); r.lo < parts[i].hi;
                 r = tg__run_next(&r))
                kept += piece_of_run(b, &r).kept;
        total += kept;
    }
    return total;
}

tg_status tg__block_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                           tg__part *parts, size_t nparts)
{
    tg__block_coder *b = c->impl;
    const size_t most = most_listed(b, ctx, parts, nparts);
    b->count = 0;
    TG_TRY(tg__scratch(c, &b->idx, most, sizeof *b->idx));
    TG_TRY(tg__scratch(c, &b->val, most, sizeof *b->val));
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(encode_part(c, ctx, x, &parts[i]));
    return TG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads places in sequence. */
typedef struct places {
    const uint8_t *src;
    size_t len, bit;
} places;

static size_t next_place(places *p, unsigned bits)
{
    const uint64_t word = tg__bits_from(p->src, p->len, p->bit / 8) >> p->bit % 8;
    p->bit += bits;
    return (size_t)(word & ((UINT64_C(1) << bits) - 1));
}

static tg_status check_places(const piece *p, const uint8_t *src, size_t tensor)
{
    places at = {.src = src, .len = p->index_len};
    const size_t blocks = tg__grid_blocks(&p->grid);
    for (size_t i = 0; i < blocks; i++) {
        const tg__block b = tg__grid_block(&p->grid, i);
        for (size_t j = 0, least = 0; b.bits > 0 && j < b.keep; j++) {
            const size_t place = next_place(&at, b.bits);
            if (place < least || place >= b.height * b.width)
                return tg_fail(TG_E_CORRUPT,
                               "frame of blocks: tensor %zu, block %zu: place %zu after %zu of %zu "
                               "elements: they must ascend",
                               tensor, i, place, least, b.height * b.width);
            least = place + 1;
        }
    }
    if (at.bit % 8 != 0 && src[at.bit / 8] >> at.bit % 8 != 0)
        return tg_fail(TG_E_CORRUPT, "frame of blocks: padding bits of places are not zero");
    return TG_OK;
}

static tg_status check_tensors(const tg__frame *f, size_t tensors, size_t keep)
{
    size_t n = 0, at = HEAD_BYTES + tensors * TENSOR_BYTES;
    for (size_t i = 0; i < tensors; i++) {
        const uint8_t *head = f->payload + HEAD_BYTES + i * TENSOR_BYTES;
        const size_t rows = tg__get32(head), cols = tg__get32(head + 4), left = f->n - n;
        if (rows == 0 || cols == 0 || rows > left || cols > left / rows)
            return tg_fail(TG_E_CORRUPT,
                           "frame of blocks: tensor %zu: its blocks of %zu x %zu exceed the %zu "
                           "elements that are left",
                           i, rows, cols, left);
        const piece p = piece_of(rows, cols, keep, f->aux);
        if (p.values_len + p.index_len > f->payload_len - at)
            return tg_fail(TG_E_CORRUPT,
                           "frame of blocks: tensor %zu needs %zu bytes, and %zu are left", i,
                           p.values_len + p.index_len, f->payload_len - at);
        TG_TRY(tg__block_values_check(f->aux, f->payload + at, p.kept));
        TG_TRY(check_places(&p, f->payload + at + p.values_len, i));
        n += rows * cols;
        at += p.values_len + p.index_len;
    }
    if (n != f->n || at != f->payload_len)
        return tg_fail(TG_E_CORRUPT,
                       "frame of blocks: tensors of %zu elements in %zu bytes, but n=%u and %zu "
                       "bytes",
                       n, at, f->n, f->payload_len);
    return TG_OK;
}

tg_status tg__block_check(const tg__frame *f)
{
    const bool heads = f->payload_len >= HEAD_BYTES;
    const size_t tensors = heads ? tg__get32(f->payload) : 0;
    const size_t keep = heads ? tg__get32(f->payload + 4) : 0;
    if (f->aux >= TG__BLOCK_CODINGS || tensors == 0 || keep == 0 || keep > TG__BLOCK_MAX ||
        f->payload_len >= f->n * sizeof(float) ||
        tensors > (f->payload_len - HEAD_BYTES) / TENSOR_BYTES)
        return tg_fail(TG_E_CORRUPT,
                       "frame of blocks: aux=%#x, %zu tensors, keep=%zu, payload of %zu bytes for "
                       "n=%u",
                       f->aux, tensors, keep, f->payload_len, f->n);
    return check_tensors(f, tensors, keep);
}

/* A tensor of a frame. */
typedef struct tensor {
    piece p;
    int coding;
    size_t number, base;
    const uint8_t *body;
    tg__block_fn *fn;
    void *arg;
} tensor;

static void read_blocks(void *arg, size_t lo, size_t hi)
{
    const tensor *t = arg;
    const tg__grid *g = &t->p.grid;
    uint16_t place[TG__BLOCK_MAX];
    float val[TG__BLOCK_MAX];
    places at = {.src = t->body + t->p.values_len, .len = t->p.index_len};
    size_t first = tg__grid_kept_before(g, lo, &at.bit);
    for (size_t i = lo; i < hi; i++) {
        const tg__block b = tg__grid_block(g, i);
        for (size_t j = 0; j < b.keep; j++)
            place[j] = (uint16_t)(b.bits == 0 ? j : next_place(&at, b.bits));
        tg__block_values_get(t->coding, t->body, first, b.keep, val);
        t->fn(t->arg, &(tg__block_place){t->number, g->cols, t->base, &b, place, val});
        first += b.keep;
    }
}

void tg__block_each(const tg__frame *f, tg__pool *pool, tg__block_fn *fn, void *arg)
{
    const size_t tensors = tg__get32(f->payload), keep = tg__get32(f->payload + 4);
    const uint8_t *head = f->payload + HEAD_BYTES;
    tensor t = {.coding = f->aux, .body = head + TENSOR_BYTES * tensors, .fn = fn, .arg = arg};
    for (; t.number < tensors; t.number++, head += TENSOR_BYTES) {
        t.p = piece_of(tg__get32(head), tg__get32(head + 4), keep, f->aux);
        tg__pool_chunks(pool, tg__grid_blocks(&t.p.grid), TOGETHER, read_blocks, &t);
        t.base += t.p.grid.rows * t.p.grid.cols;
        t.body += t.p.values_len + t.p.index_len;
    }
}

bool tg__block_tensors_are(const tg__frame *f, const tg_segment *segments, size_t count)
{
    const uint8_t *head = f->payload + HEAD_BYTES;
    if (tg__get32(f->payload) != count)
        return false;
    for (size_t t = 0, base = 0; t < count; t++, head += TENSOR_BYTES) {
        const size_t n = (size_t)tg__get32(head) * tg__get32(head + 4);
        if (segments[t].begin != base || segments[t].n != n)
            return false;
        base += n;
    }
    return true;
}
