/* telegrad/external.h - sessions whose parameters are moved by an optimizer of the caller's.
 *
 * With tg_session_config.optimizer "external" the session does not know how own steps are made; it
 * exchanges what they did. So local SGD, DiLoCo and the like go with any optimizer.
 *
 *     each step, with the gradient computed:
 *         tg_session_deliver(s, &turn);   what is due arrives
 *         if (turn.moves) ...             the caller's optimizer moves the parameters
 *         tg_session_step(s, &info);      closes the step, and exchanges at the end of a round
 *
 * Tensors are added without gradients (tg_tensor.grad is zero). Gradients are exchanged only by
 * ssgd, pipe, od, cd and the first `after` steps of local; see tg_session_gradient. The optimizer's
 * memory is the caller's, also in checkpoints. For the same steps the parameters have the same bits
 * as with an optimizer of the library's, but dga exchanges updates in place of gradients. */
#ifndef TELEGRAD_EXTERNAL_H
#define TELEGRAD_EXTERNAL_H

#include "telegrad/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where this step's gradient of a tensor goes, if the step exchanges gradients (the first `after`
 * steps of local; od, cd, pipe and ssgd always): the caller writes it there (n), calls
 * tg_session_grad_ready, and after tg_session_deliver finds the gradient for its optimizer there,
 * the mean over ranks.
 * NULL  no gradient is needed in this step; this rank sits the step out (tg_session_idle); the
 *       optimizer is not external; no such trained tensor; before begin */
TG_API float *tg_session_gradient(tg_session *s, uint32_t id);

/* What the caller's optimizer does in this step. */
typedef struct tg_turn {
    size_t struct_size; /* set by the caller: sizeof(tg_turn) */
    /* 1: move the parameters. 0: leave them, because this rank sits the step out, a gradient of
     * some rank was not finite, or no mean has arrived yet (pipe, od, cd) */
    uint32_t moves;
    /* 1: before that, forget what the optimizer remembers (momentum, moments): fedavg, and
     * local:momentum=reset, at the start of a round */
    uint32_t resets;
} tg_turn;

/* With the optimizer external: take this step's gradients, if any, and deliver what is due. Call it
 * once in each step, also if the caller's optimizer is going to leave the step out. After it the
 * parameters are those that the caller's optimizer moves; they may differ from those of the last
 * forward pass, which a late average has replaced.
 * Od, cd   exchange a gradient while the next is computed. The caller's optimizer moves the global
 *          parameters by the mean; the local step beside it is plain SGD with the key eta_loc,
 *          times the rate of tg_session_set_lr, which is 1 at first
 * Finish   tg_session_finish drops means of gradients that are still in flight (od, cd, pipe)
 * Not finite  Parameters that the optimizer made NaN or infinite are found when they are exchanged:
 *          the round is lost, and all ranks return to the last average
 * Stop     Once *config.stop is nonzero, a call that still waits for other ranks a second later
 *          fails with TG_E_STOPPED. This rank leaves the transport, and the others get TG_E_PEER.
 *          tg_session_request_stop ends no waits of steps
 * Refused  demo, by tg_session_begin: it has no step for another optimizer
 * Errors   TG_E_ARG (struct_size), TG_E_STATE (the optimizer is not external, twice in a step, a
 *          gradient is not ready), those of tg_session_step */
TG_API TG_NODISCARD tg_status tg_session_deliver(tg_session *s, tg_turn *turn);

#ifdef __cplusplus
}
#endif
#endif
