/* For tests of PowerSGD: ranks whose messages are exchanged by hand, the gradients that they draw,
 * and what they remember. */
#ifndef TG_METHOD_POWERSGD_WORLD_H
#define TG_METHOD_POWERSGD_WORLD_H

#include "base/mem.h"
#include "method/lowrank.h"
#include "state/slots.h"
#include "telegrad/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bucket: matrices that pay, among tensors that do not. */
enum { TENSORS = 6, MAX_RANKS = 4 };
static const char *const names[TENSORS] = {"bias", "wide", "norm", "tall", "tiny", "square"};
static const size_t rows[TENSORS] = {21, 18, 7, 130, 3, 40}, cols[TENSORS] = {1, 75, 1, 12, 4, 40};
enum { N = 21 + 18 * 75 + 7 + 130 * 12 + 3 * 4 + 40 * 40 };

typedef struct peer {
    tg__state *state;
    tg__method *m;
    tg__task task;
    tg__exchange *x;
    float g[N];
} peer;

typedef struct world {
    peer *ranks; /* (size) */
    int size;
} world;

static inline bool pays(size_t tensor, size_t rank)
{
    return tg__lowrank_pays(rows[tensor], cols[tensor], rank, 2);
}

static inline world open_world(const char *text, int size, tg__pool *pool)
{
    static size_t len[TENSORS];
    world w = {.ranks = calloc((size_t)size, sizeof *w.ranks), .size = size};
    assert_non_null(w.ranks);
    for (int i = 0; i < TENSORS; i++)
        len[i] = rows[i] * cols[i];
    for (int r = 0; r < size; r++) {
        assert_int_equal(tg__state_create(&w.ranks[r].state), TG_OK);
        tg__method_setup setup = {.rank = r,
                                  .size = size,
                                  .seed = 1,
                                  .steps_per_epoch = 5,
                                  .tensor = names,
                                  .len = len,
                                  .rows = rows,
                                  .cols = cols,
                                  .count = TENSORS,
                                  .lanes = 1,
                                  .may_bypass = true,
                                  .momentum = (double)NAN,
                                  .nesterov = -1,
                                  .state = w.ranks[r].state,
                                  .pool = pool};
        if (tg__method_create(text, &setup, &w.ranks[r].m) != TG_OK)
            fail_msg("%s: %s", text, tg_error());
    }
    return w;
}

static inline void close_world(world *w)
{
    for (int r = 0; r < w->size; r++) {
        tg__method_destroy(w->ranks[r].m);
        tg__state_destroy(w->ranks[r].state);
    }
    free(w->ranks);
}

/* All ranks' exchanges, by hand: every message goes where it is awaited. */
static inline void exchange(world *w)
{
    enum { MAX = 64 };
    static tg__wish wish[MAX_RANKS][MAX];
    size_t count[MAX_RANKS] = {0};
    for (int r = 0; r < w->size; r++)
        assert_int_equal(w->ranks[r].x->ops->start(w->ranks[r].x), TG_OK);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < w->size; r++) {
            tg__exchange *x = w->ranks[r].x;
            count[r] += x->ops->wants(x, wish[r] + count[r], MAX - count[r]);
        }
        for (int r = 0; r < w->size && !moved; r++)
            for (size_t i = 0; i < count[r] && !moved; i++) {
                const tg__wish s = wish[r][i];
                for (size_t j = 0; s.send && j < count[s.peer] && !moved; j++) {
                    const tg__wish d = wish[s.peer][j];
                    if (d.send || d.peer != r || d.round != s.round || d.slice != s.slice)
                        continue;
                    memcpy(d.msg + TG__ENVELOPE_BYTES, s.msg + TG__ENVELOPE_BYTES, s.len);
                    wish[r][i] = wish[r][--count[r]];
                    wish[s.peer][j] = wish[s.peer][--count[s.peer]];
                    tg__exchange *to = w->ranks[s.peer].x, *from = w->ranks[r].x;
                    assert_int_equal(to->ops->done(to, d.id, s.len), TG_OK);
                    assert_int_equal(from->ops->done(from, s.id, s.len), TG_OK);
                    moved = true;
                }
            }
    }
    for (int r = 0; r < w->size; r++)
        assert_true(w->ranks[r].x->ops->finished(w->ranks[r].x));
}

/* Returns how many rounds there were. The gradients are spoilt after begin: nobody needs them. */
static inline unsigned step(world *w, uint64_t t, bool coded, int nonfinite)
{
    static float copy[MAX_RANKS][N];
    unsigned rounds = 0;
    for (int r = 0; r < w->size; r++) {
        peer *own = &w->ranks[r];
        own->task = (tg__task){.step = t, .g = own->g, .coded = coded, .nonfinite = r == nonfinite};
        assert_int_equal(own->m->def->program->begin(own->m, &own->task, &own->x), TG_OK);
        memcpy(copy[r], own->g, sizeof copy[r]);
        memset(own->g, 0xff, sizeof own->g);
    }
    for (bool more = true; more; rounds++) {
        exchange(w);
        for (int r = 0; r < w->size; r++) {
            peer *own = &w->ranks[r];
            assert_int_equal(own->m->def->program->next(own->m, &own->task, &own->x), TG_OK);
            more = own->x != NULL;
        }
    }
    for (int r = 0; r < w->size; r++)
        memcpy(w->ranks[r].g, copy[r], sizeof copy[r]);
    return rounds;
}

static inline const float *output(const world *w, int r)
{
    return w->ranks[r].m->def->program->aggregate(w->ranks[r].m, &w->ranks[r].task);
}

static inline void assert_alike(const world *w)
{
    for (int r = 1; r < w->size; r++)
        assert_memory_equal(output(w, r), output(w, 0), N * sizeof(float));
}

static inline void drop(world *w)
{
    for (int r = 0; r < w->size; r++)
        assert_int_equal(w->ranks[r].m->def->program->undo(w->ranks[r].m, &w->ranks[r].task),
                         TG_OK);
}

/* Matrices of rank 3 that turn slowly, as a network's do, and noise; their own for each rank. */
static inline void draw(float *g, int r, uint64_t t, double noise)
{
    const tg_rng_key key = {.seed = 6, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t},
                     slow = {.seed = 7, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++)
        for (size_t a = 0; a < rows[i]; a++)
            for (size_t b = 0; b < cols[i]; b++) {
                double sum = noise * tg_rng_normal(&key, at + a * cols[i] + b);
                for (size_t k = 0; k < 3; k++)
                    sum += (double)(3 - k) * tg_rng_normal(&slow, 1000 * (3 * i + k) + a) *
                           tg_rng_normal(&slow, 1000 * (3 * i + k) + 500 + b) *
                           (1 + 0.1 * cos((double)t + r));
                g[at + a * cols[i] + b] = (float)sum;
            }
}

static inline void draw_all(world *w, uint64_t t, double noise)
{
    for (int r = 0; r < w->size; r++)
        draw(w->ranks[r].g, r, t, noise);
}

/* This rank's slot of a name, its tensors one after the other; *n_p: elements. */
static inline const float *slot(const world *w, int r, const char *name, size_t *n_p)
{
    const tg__state *s = w->ranks[r].state;
    const float *first = NULL;
    char tail[32];
    *n_p = 0;
    snprintf(tail, sizeof tail, ":%s|", name);
    for (size_t i = 0; i < s->count; i++)
        if (strstr(s->slot[i].key, tail) != NULL) {
            first = first == NULL ? s->slot[i].data : first;
            *n_p += s->slot[i].len / sizeof(float);
        }
    return first;
}

/* The residual of rank r in f64, 0 for tensors that have none. */
static inline void residual(const world *w, int r, size_t rank, double *e)
{
    size_t n, left_at = 0, right_at = 0, m_at = 0;
    const float *m = slot(w, r, "accumulated", &n), *left = slot(w, r, "left", &n),
                *right = slot(w, r, "right", &n);
    for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++) {
        for (size_t a = 0; a < rows[i] * cols[i]; a++)
            e[at + a] = 0;
        if (!pays(i, rank))
            continue;
        for (size_t a = 0; a < rows[i]; a++)
            for (size_t b = 0; b < cols[i]; b++) {
                double *to = &e[at + a * cols[i] + b];
                *to = m[m_at + a * cols[i] + b];
                for (size_t k = 0; k < rank; k++)
                    *to -=
                        (double)left[left_at + k * rows[i] + a] * right[right_at + k * cols[i] + b];
            }
        m_at += rows[i] * cols[i];
        left_at += rank * rows[i];
        right_at += rank * cols[i];
    }
}

static inline double largest(const double *x)
{
    double most = 0;
    for (size_t i = 0; i < N; i++)
        most = TG__MAX(most, fabs(x[i]));
    return most;
}

#endif
