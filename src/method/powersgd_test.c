/* PowerSGD among ranks: its exact limits, what is remembered, what a dropped step leaves behind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include <golden/golden_powersgd.h> /* tests/golden */
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

static bool pays(size_t tensor, size_t rank)
{
    return tg__lowrank_pays(rows[tensor], cols[tensor], rank, 2);
}

static world open_world(const char *text, int size, tg__pool *pool)
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

static void close_world(world *w)
{
    for (int r = 0; r < w->size; r++) {
        tg__method_destroy(w->ranks[r].m);
        tg__state_destroy(w->ranks[r].state);
    }
    free(w->ranks);
}

/* All ranks' exchanges, by hand: every message goes where it is awaited. */
static void exchange(world *w)
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
static unsigned step(world *w, uint64_t t, bool coded, int nonfinite)
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

static const float *output(const world *w, int r)
{
    return w->ranks[r].m->def->program->aggregate(w->ranks[r].m, &w->ranks[r].task);
}

static void assert_alike(const world *w)
{
    for (int r = 1; r < w->size; r++)
        assert_memory_equal(output(w, r), output(w, 0), N * sizeof(float));
}

static void drop(world *w)
{
    for (int r = 0; r < w->size; r++)
        assert_int_equal(w->ranks[r].m->def->program->undo(w->ranks[r].m, &w->ranks[r].task),
                         TG_OK);
}

/* Matrices of rank 3 that turn slowly, as a network's do, and noise; their own for each rank. */
static void draw(float *g, int r, uint64_t t, double noise)
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

static void draw_all(world *w, uint64_t t, double noise)
{
    for (int r = 0; r < w->size; r++)
        draw(w->ranks[r].g, r, t, noise);
}

/* This rank's slot of a name, its tensors one after the other; *n_p: elements. */
static const float *slot(const world *w, int r, const char *name, size_t *n_p)
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
static void residual(const world *w, int r, size_t rank, double *e)
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

static double largest(const double *x)
{
    double most = 0;
    for (size_t i = 0; i < N; i++)
        most = TG__MAX(most, fabs(x[i]));
    return most;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void full_rank_is_the_mean(void **state)
{
    (void)state;
    for (int size = 1; size <= MAX_RANKS; size++) {
        world w = open_world("powersgd:rank=40,min_ratio=1", size, NULL);
        for (uint64_t t = 0; t < 3; t++) {
            draw_all(&w, t, 1);
            assert_int_equal(step(&w, t, true, -1), 1);
            assert_alike(&w);
            for (size_t i = 0; i < N; i++) {
                float sum = 0;
                for (int r = 0; r < size; r++)
                    sum += w.ranks[r].g[i];
                assert_true(output(&w, 0)[i] == sum * (1.0f / (float)size));
            }
            assert_true(tg__method_residual_norm(w.ranks[0].m) == 0);
        }
        close_world(&w);
    }
}

/* Tensors that do not pay go as they are, beside matrices that do. */
static void others_ride_along(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2", 2, NULL);
    for (uint64_t t = 0; t < 3; t++) {
        draw_all(&w, t, 1);
        assert_int_equal(step(&w, t, true, -1), 2);
        size_t exact = 0, factors = 0;
        for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++) {
            if (pays(i, 2)) {
                factors += 2 * (rows[i] + cols[i]);
                continue;
            }
            exact += rows[i] * cols[i];
            for (size_t a = at; a < at + rows[i] * cols[i]; a++)
                assert_true(output(&w, 0)[a] == (w.ranks[0].g[a] + w.ranks[1].g[a]) * 0.5f);
        }
        assert_int_equal(exact, 21 + 7 + 12);
        assert_int_equal(w.ranks[0].task.kept, exact + factors);
        assert_int_equal(w.ranks[0].task.coded_bytes, 4 * (exact + factors) + 4 * 12);
    }
    close_world(&w);
}

/* Outputs and mean residual are those of one rank on the mean gradient, to rounding. */
static void ranks_are_as_one_on_the_mean(void **state)
{
    (void)state;
    static double e[N], one[N], sum[N];
    static const char *const texts[] = {"powersgd:rank=1", "powersgd:rank=3",
                                        "powersgd:rank=2,warm=no,exchange=ring",
                                        "powersgd:rank=4,exchange=allgather"};
    static const size_t of[] = {1, 3, 2, 4};
    for (size_t c = 0; c < TG_COUNT(texts); c++)
        for (int size = 2; size <= MAX_RANKS; size++) {
            world w = open_world(texts[c], size, NULL), alone = open_world(texts[c], 1, NULL);
            for (uint64_t t = 0; t < 5; t++) {
                draw_all(&w, t, 0.5);
                for (size_t i = 0; i < N; i++) {
                    double mean = 0;
                    for (int r = 0; r < size; r++)
                        mean += w.ranks[r].g[i];
                    alone.ranks[0].g[i] = (float)(mean / size);
                }
                (void)step(&w, t, true, -1);
                (void)step(&alone, t, true, -1);
                assert_alike(&w);
                residual(&alone, 0, of[c], one);
                memset(sum, 0, sizeof sum);
                for (int r = 0; r < size; r++) {
                    residual(&w, r, of[c], e);
                    for (size_t i = 0; i < N; i++)
                        sum[i] += e[i] / size;
                }
                for (size_t i = 0; i < N; i++) {
                    assert_true(fabs(output(&w, 0)[i] - output(&alone, 0)[i]) < 2e-3);
                    assert_true(fabs(sum[i] - one[i]) < 2e-3);
                }
                assert_true(largest(one) > 1); /* there is something to compare */
            }
            close_world(&w);
            close_world(&alone);
        }
}

/* What was sent plus what is left is what came in: to rounding, over all ranks. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static double e[N], total[N];
    for (int size = 1; size <= MAX_RANKS; size++) {
        world w = open_world("powersgd:rank=2", size, NULL);
        memset(total, 0, sizeof total);
        for (uint64_t t = 0; t < 20; t++) {
            draw_all(&w, t, 1);
            (void)step(&w, t, true, -1);
            for (size_t i = 0; i < N; i++) {
                for (int r = 0; r < size; r++)
                    total[i] += w.ranks[r].g[i];
                total[i] -= (double)size * output(&w, 0)[i];
            }
        }
        double norm = 0;
        for (int r = 0; r < size; r++) {
            residual(&w, r, 2, e);
            double own = 0;
            for (size_t i = 0; i < N; i++) {
                total[i] -= e[i];
                own += e[i] * e[i];
            }
            norm = tg__method_residual_norm(w.ranks[r].m);
            assert_true(fabs(norm - sqrt(own)) < 1e-5 * norm);
        }
        assert_true(norm > 1 && largest(total) < 1e-3);
        close_world(&w);
    }
}

/* Matrices of rank 1 are there after one step, whatever the basis was. */
static void rank_one_is_reproduced(void **state)
{
    (void)state;
    static const char *const texts[] = {"powersgd:rank=1", "powersgd:rank=4",
                                        "powersgd:rank=2,warm=no"};
    for (size_t c = 0; c < TG_COUNT(texts); c++) {
        world w = open_world(texts[c], 3, NULL);
        for (uint64_t t = 0; t < 4; t++) {
            for (int r = 0; r < 3; r++)
                for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++)
                    for (size_t a = 0; a < rows[i] * cols[i]; a++)
                        w.ranks[r].g[at + a] =
                            (float)((r + 1) * sin((double)(a / cols[i]) + (double)t) *
                                    cos((double)(3 * (a % cols[i]))));
            (void)step(&w, t, true, -1);
            for (size_t i = 0; i < N; i++)
                assert_true(fabsf(output(&w, 0)[i] - w.ranks[1].g[i]) < 1e-5f);
        }
        close_world(&w);
    }
}

/* Zero gradients give zeros, and do not stop later ones from getting through. */
static void zeros_are_no_end(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=4", 2, NULL);
    for (uint64_t t = 0; t < 3; t++) {
        for (int r = 0; r < 2; r++)
            memset(w.ranks[r].g, 0, sizeof w.ranks[r].g);
        (void)step(&w, t, true, -1);
        for (size_t i = 0; i < N; i++)
            assert_true(output(&w, 0)[i] == 0);
    }
    draw_all(&w, 3, 0); /* of rank 3: the first step has them all */
    (void)step(&w, 3, true, -1);
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(output(&w, 0)[i] - (w.ranks[0].g[i] + w.ranks[1].g[i]) / 2) < 1e-3f);
    close_world(&w);
}

/* Gradients of any size: bit for bit the same but for the power of two. */
static void scale_does_not_matter(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=3", 2, NULL);
    static const int exponents[] = {-80, 60};
    for (size_t c = 0; c < TG_COUNT(exponents); c++) {
        world scaled = open_world("powersgd:rank=3", 2, NULL);
        close_world(&w);
        w = open_world("powersgd:rank=3", 2, NULL);
        for (uint64_t t = 0; t < 4; t++) {
            draw_all(&w, t, 0.5);
            for (int r = 0; r < 2; r++)
                for (size_t i = 0; i < N; i++)
                    scaled.ranks[r].g[i] = ldexpf(w.ranks[r].g[i], exponents[c]);
            (void)step(&w, t, true, -1);
            (void)step(&scaled, t, true, -1);
            for (size_t i = 0; i < N; i++)
                assert_true(output(&scaled, 0)[i] == ldexpf(output(&w, 0)[i], exponents[c]));
        }
        close_world(&scaled);
    }
    close_world(&w);
}

/* Products beyond f32 are dropped, not spread. */
static void huge_values_do_no_harm(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2", 1, NULL);
    for (uint64_t t = 0; t < 4; t++) {
        draw_all(&w, t, 1);
        for (size_t i = 21; t == 0 && i < 21 + 18 * 75; i++)
            w.ranks[0].g[i] = 3e38f;
        (void)step(&w, t, true, -1);
        for (size_t i = 0; i < N; i++)
            assert_true(!isnan(output(&w, 0)[i]));
    }
    close_world(&w);
}

/* A basis that is kept follows a matrix of higher rank better than one that is not. */
static void warm_start_helps(void **state)
{
    (void)state;
    double error[2];
    for (int cold = 0; cold < 2; cold++) {
        world w = open_world(cold ? "powersgd:rank=3,warm=no" : "powersgd:rank=3", 2, NULL);
        error[cold] = 0;
        for (uint64_t t = 0; t < 12; t++) {
            draw_all(&w, t, 0.3);
            (void)step(&w, t, true, -1);
        }
        for (int r = 0; r < 2; r++)
            error[cold] += tg__method_residual_norm(w.ranks[r].m);
        close_world(&w);
    }
    assert_true(error[0] < error[1]);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Any number of cores, and exchanges that sum in rank order: the same bits. */
static void threads_and_exchanges_agree(void **state)
{
    (void)state;
    static float want[N];
    static const char *const texts[] = {"powersgd:rank=2", "powersgd:rank=2,exchange=allgather"};
    for (unsigned threads = 1; threads <= 4; threads++)
        for (size_t c = 0; c < TG_COUNT(texts); c++) {
            tg__pool *pool;
            assert_int_equal(tg__pool_create(threads, &pool), TG_OK);
            world w = open_world(texts[c], 3, pool);
            for (uint64_t t = 0; t < 4; t++) {
                draw_all(&w, t, 1);
                (void)step(&w, t, true, -1);
                assert_alike(&w);
            }
            if (threads == 1 && c == 0)
                memcpy(want, output(&w, 0), sizeof want);
            assert_memory_equal(output(&w, 0), want, sizeof want);
            close_world(&w);
            tg__pool_destroy(pool);
        }
}

/* ---- steps that are not coded, or dropped ---------------------------------------------------- */

static uint64_t hash_state(const world *w, int r)
{
    const tg__state *s = w->ranks[r].state;
    uint64_t hash = TG_HASH_START;
    for (size_t i = 0; i < s->count; i++)
        hash = tg_hash(hash, s->slot[i].data, s->slot[i].len);
    return hash;
}

static void dense_steps_leave_the_state_alone(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2,start=1ep", 2, NULL); /* of five steps */
    uint64_t before = hash_state(&w, 0);
    for (uint64_t t = 0; t < 9; t++) {
        const bool coded = t != 7;
        draw_all(&w, t, 1);
        before = hash_state(&w, 0);
        assert_int_equal(step(&w, t, coded, -1), t < 5 || !coded ? 1 : 2);
        assert_alike(&w);
        if (t >= 5 && coded) {
            assert_true(hash_state(&w, 0) != before);
            continue;
        }
        assert_true(hash_state(&w, 0) == before);
        drop(&w);
        assert_true(hash_state(&w, 0) == before);
        for (size_t i = 0; i < N; i++)
            assert_true(output(&w, 0)[i] == (w.ranks[0].g[i] + w.ranks[1].g[i]) * 0.5f);
    }
    close_world(&w);
}

/* After a step that rank 1 flagged: the others' gradients are in their residuals, its own is as it
 * was, all start from the basis they had, and the coming steps lose nothing. */
static void a_dropped_step_is_taken_back(void **state)
{
    (void)state;
    static double e[3][N], after[N], total[N];
    enum { DROPPED = 3 };
    size_t n, m;
    world w = open_world("powersgd:rank=2", 3, NULL);
    memset(total, 0, sizeof total);
    for (uint64_t t = 0; t < 8; t++) {
        const bool flagged = t == DROPPED;
        draw_all(&w, t, 1);
        float basis[2 * (75 + 12 + 40)];
        const float *now = slot(&w, 0, "basis", &n);
        assert_int_equal(n, TG_COUNT(basis));
        memcpy(basis, now, sizeof basis);
        for (int r = 0; r < 3; r++)
            residual(&w, r, 2, e[r]);
        (void)step(&w, t, true, flagged ? 1 : -1);
        if (flagged) {
            drop(&w);
            for (int r = 0; r < 3; r++)
                assert_memory_equal(slot(&w, r, "basis", &n), basis, sizeof basis);
        }
        for (int r = 0; r < 3; r++) {
            if (r > 0) {
                assert_memory_equal(slot(&w, r, "basis", &n), slot(&w, 0, "basis", &m),
                                    sizeof basis);
                assert_memory_equal(slot(&w, r, "left", &n), slot(&w, 0, "left", &m),
                                    2 * (18 + 130 + 40) * sizeof(float));
            }
            residual(&w, r, 2, after);
            for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++)
                for (size_t a = at; a < at + rows[i] * cols[i]; a++) {
                    if (!flagged || r != 1)
                        total[a] += w.ranks[r].g[a];
                    if (!flagged)
                        total[a] -= output(&w, 0)[a];
                    if (flagged && !pays(i, 2) && r != 1)
                        total[a] -= w.ranks[r].g[a]; /* no memory: lost, as in any method */
                    const double want = e[r][a] + (r == 1 ? 0 : (double)w.ranks[r].g[a]);
                    if (flagged && pays(i, 2))
                        assert_true(fabs(after[a] - want) < 1e-5 * (1 + fabs(want)));
                }
        }
    }
    for (int r = 0; r < 3; r++) {
        residual(&w, r, 2, after);
        for (size_t i = 0; i < N; i++)
            total[i] -= after[i];
    }
    assert_true(largest(total) < 1e-3);
    close_world(&w);
}

/* ---- golden vectors -------------------------------------------------------------------------- */

static const float *floats(const char *hex, float *to)
{
    for (size_t i = 0; hex[8 * i] != '\0'; i++) {
        uint32_t bits = 0;
        for (unsigned b = 0; b < 4; b++) {
            unsigned byte;
            assert_int_equal(sscanf(hex + 8 * i + 2 * b, "%2x", &byte), 1);
            bits |= byte << 8 * b;
        }
        memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

/* Three steps of two ranks, computed from the formulas in f64. */
static void golden_run(void **state)
{
    (void)state;
    static float g[4096], want[4096];
    for (size_t c = 0; c < TG_COUNT(golden_powersgd); c++) {
        const struct golden_powersgd *v = &golden_powersgd[c];
        const size_t len[] = {v->rows * v->cols, v->rows}, side[] = {v->rows, v->rows},
                     other[] = {v->cols, 1};
        static const char *const name[] = {"fc.weight", "fc.bias"};
        static peer ranks[2];
        world w = {.ranks = ranks, .size = 2};
        for (int r = 0; r < 2; r++) {
            assert_int_equal(tg__state_create(&ranks[r].state), TG_OK);
            const tg__method_setup setup = {.rank = r,
                                            .size = 2,
                                            .seed = v->seed,
                                            .tensor = name,
                                            .len = len,
                                            .rows = side,
                                            .cols = other,
                                            .count = 2,
                                            .lanes = 1,
                                            .state = ranks[r].state};
            assert_int_equal(tg__method_create(v->spec, &setup, &ranks[r].m), TG_OK);
        }
        const size_t n = len[0] + len[1];
        for (uint64_t t = 0; t < 3; t++) {
            for (int r = 0; r < 2; r++)
                memcpy(ranks[r].g, floats(v->gradient[t][r], g), n * sizeof *g);
            assert_int_equal(step(&w, t, true, -1), 2);
            (void)floats(v->out[t], want);
            for (size_t i = 0; i < n; i++)
                if (!(fabsf(output(&w, 0)[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
                    fail_msg("%s, step %d, element %zu: %g in place of %g", v->spec, (int)t, i,
                             (double)output(&w, 0)[i], (double)want[i]);
        }
        for (int r = 0; r < 2; r++) {
            tg__method_destroy(ranks[r].m);
            tg__state_destroy(ranks[r].state);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_rank_is_the_mean),
        cmocka_unit_test(others_ride_along),
        cmocka_unit_test(ranks_are_as_one_on_the_mean),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(rank_one_is_reproduced),
        cmocka_unit_test(zeros_are_no_end),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(huge_values_do_no_harm),
        cmocka_unit_test(warm_start_helps),
        cmocka_unit_test(threads_and_exchanges_agree),
        cmocka_unit_test(dense_steps_leave_the_state_alone),
        cmocka_unit_test(a_dropped_step_is_taken_back),
        cmocka_unit_test(golden_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
