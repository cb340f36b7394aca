/* 1bit on a GPU: see src/codec/sign/codec_onebit.c. weights=yes is left to the host; frames with
 * weights are decoded here. A matrix with few columns and very many rows is slow, because each 32
 * columns are the work of one block. */
#include "base/mem.h"
#include "line_table.h"
#include "onebit.h"
#include "strip_frame.h"
#include "telegrad/tools.h"
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

enum { ID = 10, AUX_WEIGHTS = 1, MIN_ROWS = 3 };

typedef struct onebit {
    bool mean, residual;
    tg__strip_frame frame;
    tg__lines lines;    /* vectors */
    tg__matrices table; /* matrices */
    char *tables;       /* the memory of `table`, and then: */
    float *t;           /* thresholds (lines), then (columns) */
} onebit;

static tg_status make_lines(tg_coder *c, onebit *own)
{
    const tg__strip_frame *f = &own->frame;
    size_t count = 0;
    tg__line *line = NULL;
    TG_TRY(tg_alloc(f->count, sizeof *line, &line));
    for (size_t i = 0; i < f->count; i++) {
        const tg__strip *s = &f->strip[i];
        if (s->rows == 1)
            line[count++] =
                (tg__line){.begin = s->begin, .n = s->cols, .at = s->bit, .value = s->value};
    }
    const tg_status status = tg__lines_make(c->queue, line, count, &own->lines);
    free(line);
    return status;
}

/* Fill the tables of matrices, if there are any; they are counted in any case. */
static size_t list_matrices(const tg__strip_frame *f, tg__matrix *matrix, tg__panel *panel,
                            tg__panel *tile, tg__matrices *counts)
{
    size_t count = 0, columns = 0;
    counts->panels = counts->tiles = 0;
    for (size_t i = 0; i < f->count; i++) {
        const tg__strip *s = &f->strip[i];
        if (s->rows == 1)
            continue;
        if (matrix != NULL)
            matrix[count] = (tg__matrix){.begin = s->begin,
                                         .rows = s->rows,
                                         .cols = s->cols,
                                         .value = s->value,
                                         .bit = s->bit,
                                         .column = (uint32_t)columns};
        for (size_t col = 0; col < s->cols; col += TG__PANEL_COLS) {
            tg__panel p = {.matrix = (uint32_t)count, .col = (uint32_t)col};
            if (matrix != NULL)
                panel[counts->panels] = p;
            counts->panels++;
            for (size_t row = 0; row < s->rows; row += TG__PANEL_ROWS) {
                p.row = (uint32_t)row;
                if (matrix != NULL)
                    tile[counts->tiles] = p;
                counts->tiles++;
            }
        }
        columns += s->cols;
        count++;
    }
    return columns;
}

static tg_status make_matrices(tg_coder *c, onebit *own)
{
    const tg__strip_frame *f = &own->frame;
    tg__matrices *m = &own->table;
    const size_t columns = list_matrices(f, NULL, NULL, NULL, m);
    const size_t at_panel = f->count * sizeof *m->matrix;
    const size_t at_tile = at_panel + m->panels * sizeof *m->panel;
    const size_t bytes = at_tile + m->tiles * sizeof *m->tile;
    char *host = NULL;
    TG__GPU(
        cudaMalloc((void **)&own->tables, bytes + (own->lines.count + columns) * sizeof *own->t));
    TG_TRY(tg_alloc(bytes, 1, &host));
    list_matrices(f, (tg__matrix *)(void *)host, (tg__panel *)(void *)(host + at_panel),
                  (tg__panel *)(void *)(host + at_tile), m);
    m->matrix = (tg__matrix *)(void *)own->tables;
    m->panel = (tg__panel *)(void *)(own->tables + at_panel);
    m->tile = (tg__panel *)(void *)(own->tables + at_tile);
    own->t = (float *)(void *)(own->tables + bytes);
    tg_status status = tg__gpu_copy_in(c->queue, own->tables, host, bytes);
    if (status == TG_OK)
        status = tg__gpu_finish(c->queue);
    free(host);
    return status;
}

static tg_status init(tg_coder *c)
{
    onebit *own = c->impl;
    own->residual = strcmp(c->setup.feedback, "residual") == 0;
    if (!own->residual && strcmp(c->setup.feedback, "none") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec 1bit with feedback=%s: not on a GPU",
                       c->setup.feedback);
    own->mean = strcmp(tg_spec_word(c->setup.spec, "threshold"), "mean") == 0;
    if (!own->mean && tg_spec_flag(c->setup.spec, "weights"))
        return tg_fail(TG_E_UNSUPPORTED, "codec 1bit: weights=yes: not on a GPU");
    own->frame.id = ID;
    TG_TRY(tg__strip_frame_make(c, &own->frame, MIN_ROWS, false));
    TG_TRY(make_lines(c, own));
    return make_matrices(c, own);
}

static void fini(tg_coder *c)
{
    onebit *own = c->impl;
    tg__lines_free(&own->lines);
    tg__strip_frame_free(&own->frame);
    if (own->tables != NULL)
        (void)cudaFree(own->tables);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static tg_status write_vectors(tg_coder *c, const float *g)
{
    onebit *own = c->impl;
    const tg__strip_frame *f = &own->frame;
    cudaStream_t stream = c->queue->stream;
    float *x = own->residual ? c->setup.vector[0] : (float *)(uintptr_t)g; /* else only read */
    tg__line_pass sums = {.bad = c->bad,
                          .x = x,
                          .g = own->residual ? g : NULL,
                          .bits = own->mean ? NULL : f->bits,
                          .spoilt = f->spoilt};
    tg__line_finish finish = {.bad = c->bad, .result = TG__LINE_PAIR, .value = f->values};
    const tg__line_settling settling = {.bad = c->bad,
                                        .x = x,
                                        .t = own->mean ? own->t : NULL,
                                        .value = f->values,
                                        .bits = own->mean ? f->bits : NULL,
                                        .settle = own->residual};
    TG__GPU(tg__line_sums(TG__LINE_SPLIT, &own->lines, &sums, stream));
    if (own->mean) {
        finish.result = TG__LINE_MEAN;
        finish.value = own->t;
        TG__GPU(tg__line_results(&own->lines, &finish, stream));
        sums.g = NULL;
        sums.t = own->t;
        TG__GPU(tg__line_sums(TG__LINE_SPLIT, &own->lines, &sums, stream));
        finish.result = TG__LINE_SPREAD;
        finish.t = own->t;
        finish.value = f->values;
    }
    TG__GPU(tg__line_results(&own->lines, &finish, stream));
    if (own->mean || own->residual)
        TG__GPU(tg__line_settle(&own->lines, &settling, stream));
    return TG_OK;
}

static tg_status write_matrices(tg_coder *c, const float *g)
{
    onebit *own = c->impl;
    const tg__strip_frame *f = &own->frame;
    cudaStream_t stream = c->queue->stream;
    tg__column_pass p = {.bad = c->bad,
                         .x = own->residual ? c->setup.vector[0]
                                            : (float *)(uintptr_t)g, /* else only read */
                         .g = own->residual ? g : NULL,
                         .t = own->mean ? own->t + own->lines.count : NULL,
                         .values = f->values,
                         .bits = own->mean ? NULL : f->bits,
                         .subtract = own->residual,
                         .spoilt = f->spoilt};
    TG__GPU(
        tg__column_sums(&own->table, &p, own->mean ? TG__COLUMN_MEAN : TG__COLUMN_PAIR, stream));
    p.g = NULL;
    if (own->mean)
        TG__GPU(tg__column_sums(&own->table, &p, TG__COLUMN_SPREAD, stream));
    p.bits = own->mean ? f->bits : NULL;
    if (own->mean || own->residual)
        TG__GPU(tg__column_settle(&own->table, &p, stream));
    return TG_OK;
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    onebit *own = c->impl;
    (void)ctx;
    (void)dst_cap;
    TG_TRY(tg__strip_frame_begin(c, &own->frame));
    TG_TRY(write_vectors(c, g));
    TG_TRY(write_matrices(c, g));
    return tg__strip_frame_end(c, &own->frame, dst, coded);
}

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    const tg__strip_kind kind =
        tg__get16(host + 2) == AUX_WEIGHTS ? TG__STRIP_WEIGHTED : TG__STRIP_COLUMNS;
    return tg__strip_frame_sum(q, host, frame, len, kind, x, n, first, last, share, spoilt);
}

const tg__coder_ops tg__coder_1bit = {.codec = "1bit",
                                      .impl_bytes = sizeof(onebit),
                                      .init = init,
                                      .fini = fini,
                                      .encode = encode,
                                      .decode = decode};
