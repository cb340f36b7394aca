/* 1bit on a GPU: see src/codec/sign/codec_onebit.c. A matrix with few columns and very many rows is
 * slow, because each 32 columns are the work of one block. */
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
    tg__lines lines, plain;         /* vectors; those that are sent as they are */
    tg__matrices table, weighted;   /* matrices without and with weights */
    char *tables, *weighted_tables; /* their memory */
    float *t;                       /* mean: thresholds (lines), then (columns of table) */
} onebit;

/* Where the lists of matrices are in one block of memory. */
typedef struct layout {
    size_t panel, tile, band, bytes;
} layout;

static layout layout_of(const tg__matrices *m, size_t matrices)
{
    layout at = {.panel = matrices * sizeof *m->matrix};
    at.tile = at.panel + m->panels * sizeof *m->panel;
    at.band = at.tile + m->tiles * sizeof *m->tile;
    at.bytes = at.band + m->bands * sizeof *m->band;
    return at;
}

static void put_panel(char *to, size_t i, size_t matrix, size_t col, size_t row)
{
    if (to != NULL)
        ((tg__panel *)(void *)to)[i] =
            (tg__panel){.matrix = (uint32_t)matrix, .col = (uint32_t)col, .row = (uint32_t)row};
}

/* Count the panels, tiles and bands of a matrix; with `to`, list them. */
static void list_parts(tg__matrices *m, char *to, const layout *at, size_t matrix,
                       const tg__strip *s)
{
    for (size_t col = 0; col < s->cols; col += TG__PANEL_COLS) {
        put_panel(to ? to + at->panel : NULL, m->panels++, matrix, col, 0);
        for (size_t row = 0; row < s->rows; row += TG__PANEL_ROWS)
            put_panel(to ? to + at->tile : NULL, m->tiles++, matrix, col, row);
    }
    for (size_t row = 0; m->weighted && row < s->rows; row += TG__BAND_ROWS)
        put_panel(to ? to + at->band : NULL, m->bands++, matrix, 0, row);
}

/* The number of columns, and (count_p) of matrices. */
static size_t list_matrices(const tg__strip_frame *f, tg__matrices *m, char *to, const layout *at,
                            size_t *count_p)
{
    size_t count = 0, columns = 0;
    m->panels = m->tiles = m->bands = 0;
    for (size_t i = 0; i < f->count; i++) {
        const tg__strip *s = &f->strip[i];
        if (s->rows < 2 || tg__strip_is_weighted(f->kind, s->rows, s->cols) != m->weighted)
            continue;
        if (to != NULL)
            ((tg__matrix *)(void *)to)[count] = (tg__matrix){.begin = s->begin,
                                                             .rows = s->rows,
                                                             .cols = s->cols,
                                                             .value = s->value,
                                                             .bit = s->bit,
                                                             .column = (uint32_t)columns};
        list_parts(m, to, at, count, s);
        columns += s->cols;
        count++;
    }
    *count_p = count;
    return columns;
}

/* Make the tables of the matrices with weights, or of those without.
 * floats_p  NULL, or [out] memory behind the tables: a float for each column, and `others` more */
static tg_status make_matrices(tg_coder *c, const tg__strip_frame *f, tg__matrices *m,
                               char **memory_p, size_t others, float **floats_p)
{
    size_t count;
    const size_t columns = list_matrices(f, m, NULL, NULL, &count);
    const layout at = layout_of(m, count);
    const size_t more = floats_p != NULL ? (columns + others) * sizeof(float) : 0;
    if (at.bytes + more == 0)
        return TG_OK;
    char *host = NULL, *memory;
    TG__GPU(cudaMalloc((void **)memory_p, at.bytes + more));
    memory = *memory_p;
    if (floats_p != NULL)
        *floats_p = (float *)(void *)(memory + at.bytes);
    TG_TRY(tg_alloc(at.bytes, 1, &host));
    list_matrices(f, m, host, &at, &count);
    m->matrix = (tg__matrix *)(void *)memory;
    m->panel = (tg__panel *)(void *)(memory + at.panel);
    m->tile = (tg__panel *)(void *)(memory + at.tile);
    m->band = (tg__panel *)(void *)(memory + at.band);
    tg_status status = tg__gpu_copy_in(c->queue, memory, host, at.bytes);
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
    const bool weights = !own->mean && tg_spec_flag(c->setup.spec, "weights");
    tg__strip_frame *f = &own->frame;
    f->id = ID;
    f->kind = weights ? TG__STRIP_WEIGHTED : TG__STRIP_COLUMNS;
    f->aux = weights ? AUX_WEIGHTS : 0;
    TG_TRY(tg__strip_frame_make(c, f, MIN_ROWS, weights));
    TG_TRY(tg__strip_frame_lines(c, f, 0, 0, &own->plain));
    TG_TRY(tg__strip_frame_lines(c, f, 1, 1, &own->lines));
    own->weighted.weighted = true;
    TG_TRY(make_matrices(c, f, &own->weighted, &own->weighted_tables, 0, NULL));
    return make_matrices(c, f, &own->table, &own->tables, own->lines.count, &own->t);
}

static void fini(tg_coder *c)
{
    onebit *own = c->impl;
    tg__lines_free(&own->lines);
    tg__lines_free(&own->plain);
    tg__strip_frame_free(&own->frame);
    if (own->tables != NULL)
        (void)cudaFree(own->tables);
    if (own->weighted_tables != NULL)
        (void)cudaFree(own->weighted_tables);
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

static tg_status write_weighted(tg_coder *c, const float *g)
{
    onebit *own = c->impl;
    const tg__strip_frame *f = &own->frame;
    cudaStream_t stream = c->queue->stream;
    float *x = own->residual ? c->setup.vector[0] : (float *)(uintptr_t)g; /* else only read */
    const tg__line_taking taking = {.bad = c->bad,
                                    .x = x,
                                    .g = own->residual ? g : NULL,
                                    .value = f->values,
                                    .spoilt = f->spoilt};
    tg__column_pass p = {.bad = c->bad,
                         .x = x,
                         .g = taking.g,
                         .values = f->values,
                         .bits = f->bits,
                         .subtract = own->residual,
                         .spoilt = f->spoilt};
    TG__GPU(tg__line_take(&own->plain, &taking, stream));
    TG__GPU(tg__row_weights(&own->weighted, &p, stream));
    TG__GPU(tg__column_weighed(&own->weighted, &p, stream));
    p.bits = NULL;
    if (own->residual)
        TG__GPU(tg__column_settle(&own->weighted, &p, stream));
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
    TG_TRY(write_weighted(c, g));
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
