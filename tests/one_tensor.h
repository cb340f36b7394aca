/* For tests: a session of one vector. */
#ifndef TESTS_ONE_TENSOR_H
#define TESTS_ONE_TENSOR_H

#include "telegrad/session.h"

/* Give the session the vector as "w".
 * w, g  (n) parameters and gradients */
static inline tg_status one_tensor_add(tg_session *s, float *w, float *g, size_t n, uint32_t *id_p)
{
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &n,
                              .ndim = 1,
                              .param = tg_array_f32(w, n),
                              .grad = tg_array_f32(g, n)};
    return tg_session_add(s, &tensor, id_p);
}

/* The same, and begin. */
static inline tg_status one_tensor_begin(tg_session *s, float *w, float *g, size_t n,
                                         uint32_t *id_p)
{
    TG_TRY(one_tensor_add(s, w, g, n, id_p));
    return tg_session_begin(s);
}

#endif
