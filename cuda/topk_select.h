/* The k candidates of largest magnitude, ties to the lower index. */
#ifndef TG_CUDA_TOPK_SELECT_H
#define TG_CUDA_TOPK_SELECT_H

#include "topk_pass.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TG__SELECT_CHUNK = 2048 };

typedef struct tg__topk_choice {
    tg__topk_state *state;
    const uint32_t *idx; /* candidates, as collected */
    const float *val;
    const float *x;          /* NULL: val are the values; else x[idx] are, and val only decide */
    uint32_t room;           /* an upper bound of their number */
    uint32_t *above, *equal; /* scratch: 1 for each CHUNK of room, begun ones included */
    uint32_t *kept_idx;      /* [out] ascending (state->keep) */
    float *kept_val;
} tg__topk_choice;

/* Find state->kth, and state->above: among the candidates, or those of x (n), k <= n. */
cudaError_t tg__select_kth(const tg__topk_choice *c, cudaStream_t stream);
cudaError_t tg__select_kth_of(const float *x, size_t n, uint32_t k, tg__topk_state *state,
                              cudaStream_t stream);
/* Keep state->keep of the candidates, and clear `bytes` (a multiple of 16) of frame. */
cudaError_t tg__select_keep(const tg__topk_choice *c, uint8_t *frame, size_t bytes,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
