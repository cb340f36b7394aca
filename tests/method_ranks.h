/* Several ranks of a method in one thread, without a network. Include it after cmocka.h. */
#ifndef TG_METHOD_RANKS_H
#define TG_METHOD_RANKS_H

#include "base/mem.h"
#include "hand_exchange.h"
#include "method/method.h"

#include <math.h>

enum { RANKS_N = 1000, RANKS_FIRST = 100 }; /* elements in two tensors; the first has RANKS_FIRST */

typedef struct rank {
    tg__state *state;
    tg__method *m;
    tg__task task;
    float g[RANKS_N];
} rank;

static rank ranks[HAND_RANKS];
static int ranks_size;

static inline tg_status ranks_make(int r, const char *text)
{
    static const char *const names[] = {"a", "b"};
    static const size_t len[] = {RANKS_FIRST, RANKS_N - RANKS_FIRST}, cols[] = {1, 1};
    const tg__method_setup setup = {.rank = r,
                                    .size = ranks_size,
                                    .seed = 1,
                                    .steps_per_epoch = 5,
                                    .tensor = names,
                                    .len = len,
                                    .rows = len,
                                    .cols = cols,
                                    .count = 2,
                                    .lanes = 1,
                                    .may_bypass = true,
                                    .momentum = (double)NAN,
                                    .nesterov = -1,
                                    .state = ranks[r].state};
    return tg__method_create(text, &setup, &ranks[r].m);
}

static inline void ranks_start(const char *text, int size)
{
    memset(ranks, 0, sizeof ranks);
    ranks_size = size;
    for (int r = 0; r < size; r++) {
        assert_int_equal(tg__state_create(&ranks[r].state), TG_OK);
        if (ranks_make(r, text) != TG_OK)
            fail_msg("%s: %s", text, tg_error());
    }
}

/* Each text is refused with a message that contains the second one. */
typedef struct refusal {
    const char *text, *say;
} refusal;
static inline void ranks_refuse(const refusal *cases, size_t count)
{
    memset(ranks, 0, sizeof ranks);
    ranks_size = 2;
    assert_int_equal(tg__state_create(&ranks[0].state), TG_OK);
    for (size_t c = 0; c < count; c++) {
        assert_int_equal(ranks_make(0, cases[c].text), TG_E_SPEC);
        if (strstr(tg_error(), cases[c].say) == NULL)
            fail_msg("%s says \"%s\" without \"%s\"", cases[c].text, tg_error(), cases[c].say);
    }
    tg__state_destroy(ranks[0].state);
}

static inline void ranks_stop(void)
{
    for (int r = 0; r < ranks_size; r++) {
        tg__method_destroy(ranks[r].m);
        tg__state_destroy(ranks[r].state);
    }
}

static inline const float *ranks_aggregate(int r)
{
    return ranks[r].m->def->program->aggregate(ranks[r].m, &ranks[r].task);
}

/* Take one step on all ranks; rank `nonfinite` (-1: none) has no gradient. Checks that all
 * aggregates have the same bits, and that gradients are not read after begin. Returns the number of
 * rounds. */
static inline unsigned ranks_step(uint64_t t, bool coded, int nonfinite)
{
    static float copy[HAND_RANKS][RANKS_N];
    tg__exchange *x[HAND_RANKS] = {NULL};
    unsigned rounds = 0;
    for (int r = 0; r < ranks_size; r++) {
        ranks[r].task =
            (tg__task){.step = t, .g = ranks[r].g, .coded = coded, .nonfinite = r == nonfinite};
        assert_int_equal(ranks[r].m->def->program->begin(ranks[r].m, &ranks[r].task, &x[r]), TG_OK);
        memcpy(copy[r], ranks[r].g, sizeof copy[r]);
        for (size_t i = 0; i < RANKS_N; i++) /* the gradient is no longer valid */
            ranks[r].g[i] = NAN;
    }
    for (; x[0]; rounds++) {
        hand_exchange(x, ranks_size);
        for (int r = 0; r < ranks_size; r++)
            assert_int_equal(ranks[r].m->def->program->next(ranks[r].m, &ranks[r].task, &x[r]),
                             TG_OK);
    }
    for (int r = 0; r < ranks_size; r++) {
        assert_memory_equal(ranks_aggregate(r), ranks_aggregate(0), RANKS_N * sizeof(float));
        memcpy(ranks[r].g, copy[r], sizeof copy[r]);
    }
    return rounds;
}

/* Keep the step, or drop it. */
static inline void ranks_settle(bool dropped)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg__program_ops *program = ranks[r].m->def->program;
        if (dropped)
            assert_int_equal(program->undo(ranks[r].m, &ranks[r].task), TG_OK);
        else if (program->absorb)
            program->absorb(ranks[r].m, &ranks[r].task);
    }
}

#endif
