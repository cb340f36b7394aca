/* Matrices of a vector with their factors: the tables that the kernels go by, and the transfers of
 * factors, which pass through a pinned buffer each way. */
#include "cuda_impl.h"
#include "elementwise.h"
#include "skinny.h"
#include "telegrad/tools.h"

#include <stdlib.h>
#include <string.h>

/* Rows that share what is loaded of the factors, as long as the GPU has enough half warps. */
enum { HALVES_ENOUGH = 8192, HEIGHT_MOST = 4, HEIGHT_MOST_WIDE = 2, WIDE = 8 };

struct tg_matrices {
    tg_queue *queue;
    size_t n, nleft, nright, nrest;
    float *m;
    tg__gpu_matrices tables;
    tg__gpu_buffer memory; /* of the tables */
    /* Factors and what else is small: what kernels read and write, and copies in pinned memory */
    tg__gpu_buffer factors, results;
    tg__gpu_buffer in;    /* for fold, which waits */
    tg__gpu_buffer given; /* for project and expand */
    tg__gpu_buffer out;
    bool leaving; /* `given` is on its way */
};

/* ---- tables ---------------------------------------------------------------------------------- */

/* The tables while they are made, in one block of host memory that is copied to the device. */
typedef struct tables {
    tg__gpu_matrix *matrix;
    tg__gpu_tile *fold, *project, *cells;
    tg__gpu_run *run;
    size_t nfold, nproject, ncells, nruns;
} tables;

/* Cut a matrix into tiles; tile NULL: only count them. */
static size_t cut(const tg_matrix *a, size_t index, size_t height, size_t width, tg__gpu_tile *tile)
{
    size_t count = 0;
    for (size_t row = 0; row < a->rows; row += height)
        for (size_t col = 0; col < a->cols; col += width, count++)
            if (tile != NULL)
                tile[count] = (tg__gpu_tile){
                    .matrix = (uint32_t)index, .row = (uint32_t)row, .col = (uint32_t)col};
    return count;
}

static size_t cut_run(size_t at, size_t to, size_t n, tg__gpu_run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i += TG__GPU_RUN, count++)
        if (run != NULL)
            run[count] = (tg__gpu_run){
                .at = at + i, .to = to + i, .n = n - i < TG__GPU_RUN ? n - i : TG__GPU_RUN};
    return count;
}

/* Fill the tables; if they have no memory yet, only count. */
static void fill(tg_matrices *x, const tg_matrices_setup *s, tables *t)
{
    const bool real = t->matrix != NULL;
    size_t end = 0, m_at = 0;
    t->nfold = t->nproject = t->ncells = t->nruns = 0;
    x->nleft = x->nright = x->nrest = 0;
    for (size_t i = 0; i <= s->count; i++) {
        const size_t at = i < s->count ? s->matrix[i].at : s->n;
        t->nruns += cut_run(end, x->nrest, at - end, real ? t->run + t->nruns : NULL);
        x->nrest += at - end;
        if (i == s->count)
            break;
        const tg_matrix *a = &s->matrix[i];
        if (real)
            t->matrix[i] = (tg__gpu_matrix){.at = a->at,
                                            .m_at = m_at,
                                            .left_at = x->nleft,
                                            .right_at = x->nright,
                                            .rows = (uint32_t)a->rows,
                                            .cols = (uint32_t)a->cols};
        t->nfold += cut(a, i, TG__FOLD_HALVES * (size_t)x->tables.height, a->cols,
                        real ? t->fold + t->nfold : NULL);
        t->nproject += cut(a, i, a->rows, TG__PROJECT_COLS, real ? t->project + t->nproject : NULL);
        t->ncells += cut(a, i, TG__CELL_ROWS, TG__CELL_COLS, real ? t->cells + t->ncells : NULL);
        end = a->at + a->rows * a->cols;
        m_at += a->rows * a->cols;
        x->nleft += a->rows * s->rank;
        x->nright += a->cols * s->rank;
    }
}

static size_t bytes_of(const tg_matrices_setup *s, const tables *t)
{
    return s->count * sizeof *t->matrix + t->nruns * sizeof *t->run +
           (t->nfold + t->nproject + t->ncells) * sizeof *t->cells;
}

/* The tables are in the block at base. */
static void place(const tg_matrices_setup *s, tables *t, void *base)
{
    t->matrix = base;
    t->run = (void *)(t->matrix + s->count);
    t->fold = (void *)(t->run + t->nruns);
    t->project = t->fold + t->nfold;
    t->cells = t->project + t->nproject;
}

static uint32_t choose_height(const tg_matrices_setup *s)
{
    const uint32_t most = s->rank >= WIDE ? HEIGHT_MOST_WIDE : HEIGHT_MOST;
    size_t rows = 0;
    uint32_t height = 1;
    for (size_t i = 0; i < s->count; i++)
        rows += s->matrix[i].rows;
    while (height < most && rows / (2 * height) >= HALVES_ENOUGH)
        height *= 2;
    return height;
}

static tg_status make_tables(tg_matrices *x, const tg_matrices_setup *s)
{
    tables t = {.matrix = NULL};
    tg__gpu_matrices *on_device = &x->tables;
    void *host;
    on_device->rank = (uint32_t)s->rank;
    on_device->height = choose_height(s);
    fill(x, s, &t);
    const size_t bytes = bytes_of(s, &t);
    TG_TRY(tg__gpu_room(x->queue, &x->memory, bytes));
    TG_TRY(tg_alloc(bytes, 1, &host));
    place(s, &t, host);
    fill(x, s, &t);
    const tg_status status = tg__gpu_copy_in(x->queue, x->memory.data, host, bytes);
    free(host);
    place(s, &t, x->memory.data);
    on_device->matrix = t.matrix;
    on_device->fold = t.fold;
    on_device->project = t.project;
    on_device->cells = t.cells;
    on_device->run = t.run;
    on_device->nfold = (uint32_t)t.nfold;
    on_device->nproject = (uint32_t)t.nproject;
    on_device->ncells = (uint32_t)t.ncells;
    on_device->nruns = (uint32_t)t.nruns;
    return status;
}

/* ---- creating and destroying ----------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static tg_status make_room(tg_matrices *x)
{
    const size_t given = x->nleft + x->nright + x->nrest, folds = x->nleft + 2 * x->nright;
    const size_t results = larger(x->nleft + x->nrest, x->nright);
    x->in.pinned = x->given.pinned = x->out.pinned = true;
    TG_TRY(tg__gpu_room(x->queue, &x->factors, larger(given, folds) * sizeof(float)));
    TG_TRY(tg__gpu_room(x->queue, &x->in, folds * sizeof(float)));
    TG_TRY(tg__gpu_room(x->queue, &x->given, given * sizeof(float)));
    TG_TRY(tg__gpu_room(x->queue, &x->results, results * sizeof(float)));
    return tg__gpu_room(x->queue, &x->out, results * sizeof(float));
}

tg_status tg__matrices_create(tg_queue *q, const tg_matrices_setup *setup, tg_matrices **x_p)
{
    tg_matrices *x;
    TG__ON_DEVICE(q->device);
    TG_TRY(tg_alloc(1, sizeof *x, &x));
    x->queue = q;
    x->n = setup->n;
    x->m = setup->m;
    tg_status status = make_tables(x, setup);
    if (status == TG_OK)
        status = make_room(x);
    if (status != TG_OK) {
        tg__matrices_destroy(x);
        return status;
    }
    *x_p = x;
    return TG_OK;
}

void tg__matrices_destroy(tg_matrices *x)
{
    if (x == NULL)
        return;
    TG__ON_DEVICE(x->queue->device);
    (void)cudaStreamSynchronize(x->queue->stream);
    tg__gpu_free(&x->memory);
    tg__gpu_free(&x->factors);
    tg__gpu_free(&x->in);
    tg__gpu_free(&x->given);
    tg__gpu_free(&x->results);
    tg__gpu_free(&x->out);
    free(x);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* A host array of n floats, one of several that follow each other on the device. */
typedef struct piece {
    const float *host;
    size_t n;
} piece;

/* Copy the pieces to x->factors. */
static tg_status bring(tg_matrices *x, const tg__gpu_buffer *pinned, const piece *p, size_t count)
{
    float *to = pinned->data;
    size_t n = 0;
    for (size_t i = 0; i < count; n += p[i++].n)
        if (p[i].n > 0)
            memcpy(to + n, p[i].host, p[i].n * sizeof *to);
    TG__GPU(cudaMemcpyAsync(x->factors.data, to, n * sizeof *to, cudaMemcpyHostToDevice,
                            x->queue->stream));
    return TG_OK;
}

/* Copy the first n results to x->out, and wait. */
static tg_status fetch(tg_matrices *x, size_t n)
{
    TG__GPU(cudaMemcpyAsync(x->out.data, x->results.data, n * sizeof(float), cudaMemcpyDeviceToHost,
                            x->queue->stream));
    TG_TRY(tg__gpu_finish(x->queue));
    x->leaving = false;
    return TG_OK;
}

/* Find the first element of g that is not finite: q->word[TG__GPU_BAD]. Without g, it is 0. */
static tg_status check(const tg_matrices *x, const float *g)
{
    tg_queue *q = x->queue;
    uint64_t *answer = q->answer.data;
    if (g == NULL)
        TG__GPU(cudaMemsetAsync(&q->word[TG__GPU_BAD], 0, sizeof *q->word, q->stream));
    else
        TG__GPU(tg__gpu_first_above(q->stream, g, x->n, 0x7f7fffffu, &q->word[TG__GPU_BAD]));
    TG__GPU(cudaMemcpyAsync(&answer[TG__GPU_BAD], &q->word[TG__GPU_BAD], sizeof *answer,
                            cudaMemcpyDeviceToHost, q->stream));
    return TG_OK;
}

tg_status tg__matrices_fold(tg_matrices *x, const float *g, const float *left, const float *right,
                            const float *start, float *p, float *rest, size_t *bad_p)
{
    tg_queue *q = x->queue;
    const piece factors[] = {{left, x->nleft}, {right, x->nright}, {start, x->nright}};
    const float *on_device = x->factors.data, *out = x->out.data;
    const uint64_t *answer = q->answer.data;
    float *results = x->results.data;
    TG__ON_DEVICE(q->device);
    TG_TRY(check(x, g));
    TG_TRY(bring(x, &x->in, factors, sizeof factors / sizeof *factors));
    TG__GPU(tg__gpu_fold(q->stream, &x->tables, x->m, g, on_device, on_device + x->nleft,
                         on_device + x->nleft + x->nright, results, &q->word[TG__GPU_BAD]));
    if (g != NULL)
        TG__GPU(tg__gpu_gather(q->stream, &x->tables, g, results + x->nleft));
    TG_TRY(fetch(x, x->nleft + x->nrest));
    *bad_p = g == NULL ? SIZE_MAX : answer[TG__GPU_BAD] < x->n ? (size_t)answer[TG__GPU_BAD] : x->n;
    if (*bad_p != x->n)
        return TG_OK;
    memcpy(p, out, x->nleft * sizeof *p);
    if (x->nrest > 0)
        memcpy(rest, out + x->nleft, x->nrest * sizeof *rest);
    return TG_OK;
}

static tg_status give(tg_matrices *x, const piece *p, size_t count)
{
    if (x->leaving) /* since expand; fold, which usually comes next, waits anyway */
        TG_TRY(tg__gpu_finish(x->queue));
    x->leaving = true;
    return bring(x, &x->given, p, count);
}

tg_status tg__matrices_project(tg_matrices *x, const float *left, float *right)
{
    tg_queue *q = x->queue;
    const piece factor = {left, x->nleft};
    TG__ON_DEVICE(q->device);
    TG_TRY(give(x, &factor, 1));
    TG__GPU(tg__gpu_project(q->stream, &x->tables, x->m, x->factors.data, x->results.data));
    TG_TRY(fetch(x, x->nright));
    memcpy(right, x->out.data, x->nright * sizeof *right);
    return TG_OK;
}

tg_status tg__matrices_expand(tg_matrices *x, const float *left, const float *right,
                              const float *rest, float *out)
{
    tg_queue *q = x->queue;
    const piece factors[] = {{left, x->nleft}, {right, x->nright}, {rest, x->nrest}};
    const float *on_device = x->factors.data;
    TG__ON_DEVICE(q->device);
    TG_TRY(give(x, factors, sizeof factors / sizeof *factors));
    TG__GPU(tg__gpu_expand(q->stream, &x->tables, on_device, on_device + x->nleft, out));
    TG__GPU(tg__gpu_scatter(q->stream, &x->tables, on_device + x->nleft + x->nright, out));
    return TG_OK;
}
