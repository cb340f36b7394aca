#include "strip_frame.h"
#include "base/mem.h"
#include "line_table.h"
#include "telegrad/tools.h"
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

enum { AT_STRIPS = 4, STRIP_BYTES = 8, PLAIN_SHARE = 32 };

static size_t row_bytes(size_t cols)
{
    return (cols + 7) / 8;
}

static size_t values_of(tg__strip_kind kind, const tg__strip *s)
{
    if (s->rows == 0)
        return s->cols;
    if (kind == TG__STRIP_ROWS)
        return s->rows;
    const bool weighted = tg__strip_is_weighted(kind, s->rows, s->cols);
    return (s->rows == 1 ? 2 : 2 * (size_t)s->cols) + (weighted ? s->rows : 0);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* As in src/codec/sign/strips.c. */
static bool vectors_are_few(const tg_coder *c)
{
    size_t all = 0, vectors = 0;
    for (size_t i = 0; i < c->setup.nsegments; i++) {
        all += c->setup.segments[i].n;
        vectors += c->setup.segments[i].cols == 1 ? c->setup.segments[i].n : 0;
    }
    return vectors <= all / PLAIN_SHARE;
}

static void add_strip(tg__strip_frame *f, const tg_segment *s, size_t min_rows, bool plain)
{
    const bool matrix = s->cols > 1 && s->n / s->cols >= min_rows;
    const size_t rows = matrix ? s->n / s->cols : plain && s->cols == 1 ? 0 : 1;
    tg__strip *strip = &f->strip[f->count++];
    *strip = (tg__strip){.begin = (uint32_t)s->begin,
                         .rows = (uint32_t)rows,
                         .cols = (uint32_t)(s->n / TG__MAX(rows, (size_t)1)),
                         .value = (uint32_t)f->nvalues,
                         .bit = (uint32_t)f->bit_bytes};
    f->nvalues += values_of(f->kind, strip);
    f->bit_bytes += rows * row_bytes(strip->cols);
}

tg_status tg__strip_frame_make(tg_coder *c, tg__strip_frame *f, size_t min_rows, bool plain)
{
    const size_t most = c->setup.nsegments;
    plain = plain && vectors_are_few(c);
    TG_TRY(tg_alloc(most, sizeof *f->strip, &f->strip));
    for (size_t i = 0; i < most; i++)
        if (c->setup.segments[i].n > 0)
            add_strip(f, &c->setup.segments[i], min_rows, plain);
    f->at_values = AT_STRIPS + STRIP_BYTES * f->count;
    const size_t coded = f->nvalues * sizeof(float) + f->bit_bytes;
    f->len = f->at_values + coded;
    f->dense = f->len >= c->setup.n * sizeof(float);
    const size_t flag = (coded + 3) / 4 * 4;
    char *device;
    TG__GPU(cudaMalloc((void **)&device, flag + sizeof *f->spoilt));
    f->values = (float *)(void *)device;
    f->bits = (uint8_t *)device + f->nvalues * sizeof(float);
    f->spoilt = (uint32_t *)(void *)(device + flag);
    f->host.pinned = true;
    return tg__gpu_room(c->queue, &f->host, sizeof *f->spoilt + (f->dense ? coded : 0));
}

static size_t list_lines(const tg__strip_frame *f, size_t least, size_t most, tg__line *line)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        const tg__strip *s = &f->strip[i];
        if (s->rows < least || s->rows > most)
            continue;
        for (uint32_t row = 0; row < TG__MAX(s->rows, 1u); row++, count++)
            if (line != NULL)
                line[count] = (tg__line){.begin = s->begin + row * s->cols,
                                         .n = s->cols,
                                         .at = s->bit + row * (uint32_t)row_bytes(s->cols),
                                         .value = s->value + row};
    }
    return count;
}

tg_status tg__strip_frame_lines(tg_coder *c, const tg__strip_frame *f, size_t least, size_t most,
                                tg__lines *lines)
{
    const size_t count = list_lines(f, least, most, NULL);
    tg__line *line;
    TG_TRY(tg_alloc(count, sizeof *line, &line));
    list_lines(f, least, most, line);
    const tg_status status = tg__lines_make(c->queue, line, count, lines);
    free(line);
    return status;
}

void tg__strip_frame_free(tg__strip_frame *f)
{
    if (f->values != NULL)
        (void)cudaFree(f->values);
    tg__gpu_free(&f->host);
    free(f->strip);
}

tg_status tg__strip_frame_begin(tg_coder *c, tg__strip_frame *f)
{
    TG__GPU(cudaMemsetAsync(f->spoilt, 0, sizeof *f->spoilt, c->queue->stream));
    return TG_OK;
}

static void put_strips(const tg__strip_frame *f, uint8_t *at)
{
    tg__put32(at, (uint32_t)f->count);
    at += AT_STRIPS;
    for (size_t i = 0; i < f->count; i++, at += STRIP_BYTES) {
        tg__put32(at, f->strip[i].rows);
        tg__put32(at + 4, f->strip[i].cols);
    }
}

static float get_float(const uint8_t *values, size_t i)
{
    float value;
    memcpy(&value, values + i * sizeof value, sizeof value);
    return value;
}

static float value_at(const tg__strip_frame *f, const tg__strip *s, const uint8_t *values,
                      const uint8_t *bits, size_t i)
{
    const size_t row = i / s->cols, col = i % s->cols;
    const uint8_t *own = values + s->value * sizeof(float);
    if (s->rows == 0)
        return get_float(own, col);
    const bool minus = bits[s->bit + row * row_bytes(s->cols) + col / 8] >> col % 8 & 1;
    if (f->kind == TG__STRIP_ROWS)
        return minus ? 0 - get_float(own, row) : get_float(own, row);
    if (s->rows == 1)
        return get_float(own, minus);
    const size_t at = col + (minus ? s->cols : 0);
    if (!tg__strip_is_weighted(f->kind, s->rows, s->cols))
        return get_float(own, at);
    return get_float(own, s->rows + at) * get_float(own, row);
}

static void put_dense(const tg__strip_frame *f, uint8_t *to, const uint8_t *values)
{
    const uint8_t *bits = values + f->nvalues * sizeof(float);
    for (size_t k = 0; k < f->count; k++)
        for (size_t i = 0; i < TG__MAX((size_t)f->strip[k].rows, (size_t)1) * f->strip[k].cols;
             i++) {
            const float value = value_at(f, &f->strip[k], values, bits, i);
            memcpy(to, &value, sizeof value);
            to += sizeof value;
        }
}

static bool all_zero(const uint8_t *p, size_t len)
{
    size_t i = 0;
    while (i < len && p[i] == 0)
        i++;
    return i == len;
}

static void put_frame(tg_coder *c, tg__strip_frame *f, uint8_t *dst, tg_coded *coded)
{
    const size_t n = c->setup.n;
    uint8_t *payload = dst + TG__FRAME_HEAD;
    const uint8_t *values =
        f->dense ? (uint8_t *)f->host.data + sizeof *f->spoilt : payload + f->at_values;
    uint8_t form = TG__FORM_CODED;
    size_t len = f->len;
    if (all_zero(values, f->nvalues * sizeof(float))) {
        form = TG__FORM_ZERO;
        len = 0;
    } else if (f->dense) {
        form = TG__FORM_DENSE;
        len = n * sizeof(float);
        put_dense(f, payload, values);
    } else {
        put_strips(f, payload);
    }
    tg__gpu_frame_head(dst, f->id, form, form == TG__FORM_CODED ? f->aux : 0, n, len);
    coded->len = TG__FRAME_HEAD + len;
    coded->kept = form == TG__FORM_ZERO ? 0 : n;
}

tg_status tg__strip_frame_end(tg_coder *c, tg__strip_frame *f, uint8_t *dst, tg_coded *coded)
{
    const size_t bytes = f->len - f->at_values;
    uint8_t *host = f->host.data;
    TG__GPU(cudaMemcpyAsync(host, f->spoilt, sizeof *f->spoilt, cudaMemcpyDeviceToHost,
                            c->queue->stream));
    if (f->dense)
        TG__GPU(cudaMemcpyAsync(host + sizeof *f->spoilt, f->values, bytes, cudaMemcpyDeviceToHost,
                                c->queue->stream));
    else
        TG_TRY(tg__gpu_copy_out(c->queue, dst + TG__FRAME_HEAD + f->at_values, f->values, bytes));
    TG_TRY(tg__gpu_finish(c->queue));
    if (tg__get32(host) != 0)
        return tg_fail(TG_E_NONFINITE, "%s: the vector holds infinity", c->setup.codec);
    put_frame(c, f, dst, coded);
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static tg__strip strip_at(const uint8_t *entry)
{
    return (tg__strip){.rows = tg__get32(entry), .cols = tg__get32(entry + 4)};
}

static tg_status changed(void)
{
    return tg_fail(TG_E_CORRUPT, "a frame has changed since it was checked");
}

tg_status tg__strip_frame_sum(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                              tg__strip_kind kind, float *x, size_t n, bool first, bool last,
                              float share, uint64_t *spoilt)
{
    const uint8_t *entry = host + TG__FRAME_HEAD + AT_STRIPS;
    if (len < TG__FRAME_HEAD + AT_STRIPS)
        return changed();
    const size_t most = (len - TG__FRAME_HEAD - AT_STRIPS) / STRIP_BYTES;
    const size_t count = TG__MIN((size_t)tg__get32(host + TG__FRAME_HEAD), most);
    const size_t at_values = TG__FRAME_HEAD + AT_STRIPS + STRIP_BYTES * count;
    size_t begin = 0, value = 0, bit = 0;
    for (size_t i = 0; i < count; i++) {
        const tg__strip s = strip_at(entry + STRIP_BYTES * i);
        value += values_of(kind, &s);
    }
    if (at_values + value * sizeof(float) > len)
        return changed();
    const tg__strip_sum sum = {.values = (const float *)(const void *)(frame + at_values),
                               .bits = frame + at_values + value * sizeof(float),
                               .kind = kind,
                               .x = x,
                               .first = first,
                               .last = last,
                               .share = share,
                               .spoilt = spoilt};
    tg__strip_group group = {0};
    const size_t values = value;
    value = 0;
    for (size_t i = 0; i < count; i++) {
        tg__strip s = strip_at(entry + STRIP_BYTES * i);
        s.begin = (uint32_t)begin;
        s.value = (uint32_t)value;
        s.bit = (uint32_t)bit;
        const size_t elements = TG__MAX((size_t)s.rows, (size_t)1) * s.cols;
        if (begin + elements > n)
            return changed();
        group.strip[group.count++] = s;
        begin += elements;
        value += values_of(kind, &s);
        bit += s.rows * row_bytes(s.cols);
        if (value > values || at_values + values * sizeof(float) + bit > len)
            return changed();
        group.end = (uint32_t)begin;
        if (group.count == TG__STRIPS || i + 1 == count) {
            TG__GPU(tg__strips_sum(&group, &sum, q->stream));
            group.count = 0;
        }
    }
    return TG_OK;
}
