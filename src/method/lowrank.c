#include "method/lowrank.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "method/orthonormalize.h"
#include "telegrad/random.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Elements of a piece, and the fewest columns of one: rows are read in whole cache lines. */
enum { PIECE = 1 << 18, COLUMNS = 64 };
/* Outputs with at least this many elements bypass the caches. */
#define LARGE ((size_t)1 << 20)

bool tg__lowrank_pays(size_t rows, size_t cols, size_t rank, double min_ratio)
{
    const double factors = ((double)rows + (double)cols) * (double)rank;
    return min_ratio * factors < (double)rows * (double)cols;
}

/* ---- creating -------------------------------------------------------------------------------- */

tg_status tg__lowrank_choose(tg__lowrank *l, tg__method *m, size_t rank, double min_ratio)
{
    const tg__method_setup *s = &m->setup;
    size_t m_at = 0;
    l->rank = rank;
    l->pool = s->pool;
    TG_TRY(tg__method_alloc(m, s->count, sizeof *l->matrix, &l->matrix));
    for (size_t i = 0; i < s->count; i++) {
        if (!tg__lowrank_pays(s->rows[i], s->cols[i], l->rank, min_ratio))
            continue;
        l->matrix[l->count++] = (tg__lowrank_matrix){
            .tensor = i,
            .at = m->segments[i].begin,
            .rows = s->rows[i],
            .cols = s->cols[i],
            .m_at = m_at,
            .left_at = l->nleft,
            .right_at = l->nright,
            .name = (uint32_t)tg_hash(TG_HASH_START, s->tensor[i], strlen(s->tensor[i])),
        };
        m_at += s->len[i];
        l->large = m_at >= LARGE;
        l->nleft += s->rows[i] * l->rank;
        l->nright += s->cols[i] * l->rank;
    }
    return TG_OK;
}

static tg_status make_slots(tg__lowrank *l, tg__method *m)
{
    const tg__method_setup *s = &m->setup;
    const char **name;
    size_t *len;
    TG_TRY(tg__method_alloc(m, l->count, sizeof *name, &name));
    TG_TRY(tg__method_alloc(m, l->count, sizeof *len, &len));
    const struct {
        tg__role role;
        tg__rescale rescale;
        const char *name;
        float **data_p;
    } slots[] = {
        {s->role, TG__RESCALE_SUM, "accumulated", &l->m},
        {TG__ROLE_REPLICATED, TG__RESCALE_COPY, "left", &l->left},
        {s->role, TG__RESCALE_SUM, "right", &l->right},
        {TG__ROLE_REPLICATED, TG__RESCALE_COPY, "basis", &l->basis},
    };
    for (size_t slot = 0; slot < TG_COUNT(slots); slot++) {
        for (size_t i = 0; i < l->count; i++) {
            const tg__lowrank_matrix *a = &l->matrix[i];
            const size_t side = slots[slot].data_p == &l->left ? a->rows : a->cols;
            name[i] = s->tensor[a->tensor];
            len[i] = slots[slot].data_p == &l->m ? a->rows * a->cols : side * l->rank;
        }
        TG_TRY(tg__state_block(s->state, slots[slot].role, slots[slot].rescale, slots[slot].name,
                               name, len, l->count, slots[slot].data_p));
    }
    return TG_OK;
}

/* Cut `side` lines of `length` elements each into pieces of whole `unit`s; pieces NULL: only count
 * them. A single core works best on whole matrices. */
static size_t cut(const tg__lowrank *l, size_t matrix, size_t side, size_t length, size_t unit,
                  tg__lowrank_piece *pieces)
{
    const size_t lines = l->pool == NULL ? side : TG__MAX(PIECE / length / unit, 1) * unit;
    size_t count = 0;
    for (size_t lo = 0; lo < side; lo += lines, count++)
        if (pieces != NULL)
            pieces[count] =
                (tg__lowrank_piece){.matrix = matrix, .lo = lo, .hi = TG__MIN(side, lo + lines)};
    return count;
}

static size_t cut_all(const tg__lowrank *l, bool columns, tg__lowrank_piece *pieces)
{
    size_t count = 0;
    for (size_t i = 0; i < l->count; i++) {
        const tg__lowrank_matrix *a = &l->matrix[i];
        tg__lowrank_piece *at = pieces == NULL ? NULL : pieces + count;
        count += columns ? cut(l, i, a->cols, a->rows, COLUMNS, at)
                         : cut(l, i, a->rows, a->cols, TG__SKINNY_ROWS, at);
    }
    return count;
}

tg_status tg__lowrank_init(tg__lowrank *l, tg__method *m)
{
    size_t longest = 0;
    TG_TRY(make_slots(l, m));
    for (size_t i = 0; i < l->count; i++)
        longest = TG__MAX(longest, l->matrix[i].cols);
    l->nrows = cut_all(l, false, NULL);
    l->ncols = cut_all(l, true, NULL);
    TG_TRY(tg__method_alloc(m, l->nrows, sizeof *l->rows, &l->rows));
    TG_TRY(tg__method_alloc(m, l->ncols, sizeof *l->cols, &l->cols));
    (void)cut_all(l, false, l->rows);
    (void)cut_all(l, true, l->cols);
    TG_TRY(tg__method_alloc(m, l->nright, sizeof *l->start, &l->start));
    TG_TRY(tg__method_alloc(m, l->nright, sizeof *l->before, &l->before));
    return tg__method_alloc(m, longest, sizeof *l->row, &l->row);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Shared by the tasks of one pass. */
typedef struct pass {
    tg__lowrank *l;
    const float *g, *right;
    float *p, *out;
    tg_rng_key key;
    bool warm;
    atomic_bool overflow; /* [out] */
} pass;

static tg__skinny skinny(const tg__lowrank *l, const tg__lowrank_matrix *a)
{
    return (tg__skinny){.rows = a->rows,
                        .cols = a->cols,
                        .rank = l->rank,
                        .stride = a->cols,
                        .left_stride = a->rows,
                        .right_stride = a->cols,
                        .past_caches = l->large};
}

static void start_matrix(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_matrix *a = &l->matrix[i];
    float *start = l->start + a->right_at;
    tg_rng_key key = job->key;
    key.tensor = a->name;
    if (job->warm)
        memcpy(start, l->basis + a->right_at, a->cols * l->rank * sizeof *start);
    else
        memset(start, 0, a->cols * l->rank * sizeof *start);
    tg__draw_zero_columns(start, a->cols, l->rank, &key);
    tg__orthonormalize(start, a->cols, l->rank);
}

void tg__lowrank_start(tg__lowrank *l, uint64_t seed, uint64_t step, bool warm)
{
    pass job = {.l = l,
                .key = {.seed = seed, .purpose = TG_PURPOSE_BASIS, .rank = 0, .step = step},
                .warm = warm};
    tg__pool_run(l->pool, l->count, start_matrix, &job);
}

static void fold_rows(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_piece *piece = &l->rows[i];
    const tg__lowrank_matrix *a = &l->matrix[piece->matrix];
    const size_t from = piece->lo * a->cols;
    tg__skinny s = skinny(l, a);
    s.rows = piece->hi - piece->lo;
    tg__kernel()->skinny_fold(&s, l->m + a->m_at + from, job->g + a->at + from,
                              l->left + a->left_at + piece->lo, l->right + a->right_at,
                              l->start + a->right_at, job->p + a->left_at + piece->lo);
}

void tg__lowrank_fold(tg__lowrank *l, const float *g, float *p)
{
    tg__pool_run(l->pool, l->nrows, fold_rows, &(pass){.l = l, .g = g, .p = p});
}

static void agree_matrix(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_matrix *a = &l->matrix[i];
    float *left = l->left + a->left_at;
    memcpy(left, job->p + a->left_at, a->rows * l->rank * sizeof *left);
    tg__orthonormalize(left, a->rows, l->rank);
}

void tg__lowrank_agree(tg__lowrank *l, float *p)
{
    tg__pool_run(l->pool, l->count, agree_matrix, &(pass){.l = l, .p = p});
}

/* From the last piece to the first: this starts with what the previous pass left in the caches. */
static void project_columns(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_piece *piece = &l->cols[l->ncols - 1 - i];
    const tg__lowrank_matrix *a = &l->matrix[piece->matrix];
    tg__skinny s = skinny(l, a);
    s.cols = piece->hi - piece->lo;
    tg__kernel()->skinny_project(&s, l->m + a->m_at + piece->lo, l->left + a->left_at,
                                 l->right + a->right_at + piece->lo);
}

/* Products that overflow f32 are not sent. */
static void clear_overflow(void *arg, size_t i)
{
    pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_matrix *a = &l->matrix[i];
    for (size_t k = 0; k < l->rank; k++) {
        float *column = l->right + a->right_at + k * a->cols;
        if (!tg__kernel()->all_finite(column, a->cols)) {
            memset(column, 0, a->cols * sizeof *column);
            atomic_store(&job->overflow, true);
        }
    }
}

bool tg__lowrank_clear_overflow(tg__lowrank *l)
{
    pass job = {.l = l};
    tg__pool_run(l->pool, l->count, clear_overflow, &job);
    return !job.overflow;
}

bool tg__lowrank_project(tg__lowrank *l)
{
    tg__pool_run(l->pool, l->ncols, project_columns, &(pass){.l = l});
    return tg__lowrank_clear_overflow(l);
}

static void expand_rows(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_piece *piece = &l->rows[i];
    const tg__lowrank_matrix *a = &l->matrix[piece->matrix];
    tg__skinny s = skinny(l, a);
    s.rows = piece->hi - piece->lo;
    tg__kernel()->skinny_expand(&s, job->out + a->at + piece->lo * a->cols,
                                l->left + a->left_at + piece->lo, job->right + a->right_at);
}

void tg__lowrank_expand(tg__lowrank *l, float *out)
{
    tg__pool_run(l->pool, l->nrows, expand_rows, &(pass){.l = l, .right = l->basis, .out = out});
}

static void settle_rows(void *arg, size_t i)
{
    const pass *job = arg;
    const tg__lowrank *l = job->l;
    const tg__lowrank_piece *piece = &l->rows[i];
    const tg__lowrank_matrix *a = &l->matrix[piece->matrix];
    const size_t from = piece->lo * a->cols;
    expand_rows(arg, i);
    tg__kernel()->sub(l->m + a->m_at + from, job->out + a->at + from,
                      (piece->hi - piece->lo) * a->cols);
}

void tg__lowrank_settle(tg__lowrank *l, float *scratch)
{
    tg__pool_run(l->pool, l->nrows, settle_rows,
                 &(pass){.l = l, .right = l->right, .out = scratch});
    memset(l->right, 0, l->nright * sizeof *l->right);
}

void tg__lowrank_undo(tg__lowrank *l)
{
    memset(l->right, 0, l->nright * sizeof *l->right);
    memcpy(l->basis, l->before, l->nright * sizeof *l->basis);
}

bool tg__lowrank_heal(tg__lowrank *l, bool anyway)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->matrix[i].rows * l->matrix[i].cols;
    if (n == 0 || (!anyway && !tg__state_strays(l->m, n, l->pool)))
        return false;
    memset(l->m, 0, n * sizeof *l->m);
    memset(l->right, 0, l->nright * sizeof *l->right);
    return true;
}

double tg__lowrank_residual_norm(const tg__lowrank *l)
{
    double sum = 0;
    for (size_t i = 0; i < l->count; i++) {
        const tg__lowrank_matrix *a = &l->matrix[i];
        tg__skinny s = skinny(l, a);
        s.rows = 1;
        for (size_t r = 0; r < a->rows; r++) {
            tg__kernel()->skinny_expand(&s, l->row, l->left + a->left_at + r,
                                        l->right + a->right_at);
            tg__kernel()->sub(l->row, l->m + a->m_at + r * a->cols, a->cols);
            sum += tg__kernel()->dot(l->row, l->row, a->cols);
        }
    }
    return sqrt(sum);
}
