/* For tests: a rank that trains a matrix and a vector for a few steps and hashes them. */
#ifndef TESTS_TWO_TENSORS_H
#define TESTS_TWO_TENSORS_H

#include "telegrad/telegrad.h"
#include <string.h>

typedef struct two_tensors {
    size_t rows, cols, rest; /* the matrix, and the length of the vector */
    int steps;
    float *w, *g;                      /* (rows * cols + rest) parameters and gradients */
    void (*draw)(void *arg, int step); /* fills g */
    void *arg;
} two_tensors;

static inline tg_status two_tensors_try(const two_tensors *m, tg_session *s, uint64_t *hash_p)
{
    const size_t shape[2][2] = {{m->rows, m->cols}, {m->rest, 1}};
    uint32_t id[2];
    memset(m->w, 0, (m->rows * m->cols + m->rest) * sizeof *m->w);
    for (int i = 0; i < 2; i++) {
        const size_t at = i == 0 ? 0 : m->rows * m->cols, n = shape[i][0] * shape[i][1];
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = i == 0 ? "matrix" : "rest",
                                  .shape = shape[i],
                                  .ndim = 2,
                                  .param = tg_array_f32(m->w + at, n),
                                  .grad = tg_array_f32(m->g + at, n)};
        TG_TRY(tg_session_add(s, &tensor, &id[i]));
    }
    TG_TRY(tg_session_begin(s));
    for (int step = 0; step < m->steps; step++) {
        for (int i = 1; i >= 0; i--)
            TG_TRY(tg_session_grad_wait(s, id[i]));
        m->draw(m->arg, step);
        for (int i = 1; i >= 0; i--)
            TG_TRY(tg_session_grad_ready(s, id[i]));
        TG_TRY(tg_session_step(s, NULL));
    }
    TG_TRY(tg_session_finish(s));
    return tg_session_params_hash(s, hash_p);
}

/* The same in a session of its own. */
static inline tg_status two_tensors_train(const two_tensors *m, const tg_session_config *config,
                                          tg_transport *t, uint64_t *hash_p)
{
    tg_session *s;
    TG_TRY(tg_session_create(config, t, &s));
    const tg_status status = two_tensors_try(m, s, hash_p);
    tg_session_destroy(s);
    return status;
}

#endif
