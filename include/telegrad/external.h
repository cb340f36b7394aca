/* telegrad/external.h - sessions whose parameters are updated by the caller's optimizer.
 *
 * With tg_session_config.optimizer "external" the session does not know how local steps are made;
 * it exchanges their results. So local SGD, DiLoCo and the like work with any optimizer.
 *
 *     each step, with the gradient computed:
 *         tg_session_deliver(s, &turn);   applies the results that are due
 *         if (turn.moves) ...             the caller's optimizer updates the parameters
 *         tg_session_step(s, &info);      closes the step, and exchanges at the end of a round
 *
 * Tensors are added without gradients (tg_tensor.grad is zero). Gradients are exchanged only by
 * ssgd, pipe, od, cd and the first `after` steps of local; see tg_session_gradient. The caller
 * saves and restores the optimizer's own state. If the caller's steps equal those of one of the
 * library's optimizers, the parameters have the same bits, except with dga, which then exchanges
 * updates in place of gradients. */
#ifndef TELEGRAD_EXTERNAL_H
#define TELEGRAD_EXTERNAL_H

#include "telegrad/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where this step's gradient of a tensor goes, if the step exchanges gradients (the first `after`
 * steps of local; od, cd, pipe and ssgd always): the caller writes it there (n), and calls
 * tg_session_grad_ready. After tg_session_deliver, the same place holds the mean over ranks, which
 * is the gradient for the caller's optimizer.
 * NULL  no gradient is needed in this step; this rank sits the step out (tg_session_idle); the
 *       optimizer is not external; no such trained tensor; before begin */
TG_API float *tg_session_gradient(tg_session *s, uint32_t id);

/* What the caller's optimizer does in this step. */
typedef struct tg_turn {
    size_t struct_size; /* set by the caller: sizeof(tg_turn) */
    /* 1: update the parameters. 0: leave them as they are, because this rank sits the step out, a
     * gradient of some rank was not finite, or no mean has arrived yet (pipe, od, cd) */
    uint32_t moves;
    /* 1: before that, reset the optimizer's state (momentum, moments): momentum=reset of
     * local and fedavg, at the start of a round */
    uint32_t resets;
} tg_turn;

/* With an external optimizer: take this step's gradients, if any, and apply the results that are
 * due. Call it once in each step, even if the caller's optimizer will skip the step. When it
 * returns, the parameters are those that the caller's optimizer must update; they may differ from
 * those of the last forward pass, if a late average has replaced them.
 * Od, cd      exchange a gradient while the next is computed. The caller's optimizer updates the
 *             global parameters with the mean; the local step is plain SGD with the key eta_loc,
 *             times the rate of tg_session_set_lr, which is 1 at first
 * Diloco,     with rescale=yes, shrink their outer momentum when the rate of tg_session_set_lr
 * streaming   falls; a caller with a schedule passes on its rate, in any unit
 * Finish      tg_session_finish drops means of gradients that are still in flight (od, cd, pipe)
 * Not finite  Parameters that the optimizer made NaN or infinite are detected when they are
 *             exchanged: the round is lost, and all ranks return to the last average
 * Stop        Once *config.stop is nonzero, a call that still waits for other ranks a second later
 *             fails with TG_E_STOPPED. This rank leaves the transport, and the others get
 *             TG_E_PEER. tg_session_request_stop does not end waits within steps
 * Refused     demo, by tg_session_begin: it has no step that another optimizer could make
 * Errors      TG_E_ARG (struct_size), TG_E_STATE (the optimizer is not external, a second call in
 *             one step, a gradient is not ready), those of tg_session_step */
TG_API TG_NODISCARD tg_status tg_session_deliver(tg_session *s, tg_turn *turn);

/* Calls of a step that read or change a tensor's parameters. */
typedef enum tg_touches {
    TG_TOUCHES_IN_DELIVER = 1, /* tg_session_deliver */
    TG_TOUCHES_IN_STEP = 2     /* tg_session_step */
} tg_touches;

/* Which calls of the next step read or change a tensor's parameters. For a caller whose parameters
 * are elsewhere, on a GPU or in another type, and who gives the session a copy in host memory
 * (tg_tensor.param). Call it before tg_session_deliver. When a call begins that touches the tensor,
 * the copy must hold the caller's values; when it returns, the caller takes the copy's. At other
 * times the copy may be out of date, so nothing needs to be copied.
 * Strategies     With local, fedavg, diloco, sparseloco and streaming, most steps touch nothing.
 *                With others, both calls may touch every tensor in every step
 * Between steps  tg_session_begin, _eval_begin, _eval_end, _finish, _load, _load_memory,
 *                _take_memory and all that save touch every tensor
 * Returns        tg_touches, or-ed together. 0: neither call touches it, it is not a trained
 *                tensor, the optimizer is not external, or the session has not begun */
TG_API uint32_t tg_session_touches(const tg_session *s, uint32_t id);

#ifdef __cplusplus
}
#endif
#endif
