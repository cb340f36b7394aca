/* Coded reduce-scatter, then coded all-gather: sums stay as small as the parts, for any P.
 *
 *   round 0   rank p sends part q of its vector, coded, to rank q
 *   owner q   sum = decode(part of rank 0) + ... + decode(part of rank P-1), in rank order; the
 *             owner encodes the sum with the same codec: a sparsifier keeps its density, k/P of the
 *             block
 *   round 1   rank q sends that frame to all; its own copy comes from the same frame
 *
 *   result = decode(frames of the blocks) * (1 / P)
 *
 * Leftover  what an owner drops (elements that it did not select, and the rounding of the others),
 *           in units of the sum. The owner's memory absorbs it, so nothing is lost
 * Cost      2 rounds, 2 delays; each rank sends (P-1) coded parts and (P-1) coded blocks: for
 *           frames of F bytes about 2 F (P-1)/P, while an all-gather sends F (P-1)
 * Source    Renggli et al. 2019, "SparCML", arXiv:1802.08021 (split all-gather, without selection);
 *           Li and Hoefler 2022, "Ok-Topk", arXiv:2201.07598 (with selection by a threshold) */
#include "exchange/direct.h"
#include "kernel/kernel.h"

static void reducescatter_result(tg__exchange *x, float *dst)
{
    tg__direct_result(x, dst);
    tg__combine_finish(x, dst, x->n);
}

static void reducescatter_leftover(tg__exchange *x, float scale, float *r)
{
    const tg__direct *d = x->impl;
    if (d->block_n > 0)
        tg__kernel()->axpy(r + x->parts[x->rank].lo, scale, d->sum, d->block_n);
}

static void reducescatter_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const double P = size, head = TG__ENVELOPE_BYTES + TG__FRAME_HEAD;
    (void)n;
    *cost_p = tg__cost_of(size, 2, 2 * (P - 1) * ((frame - TG__FRAME_HEAD) / P + head));
}

const tg__exchange_ops tg__reducescatter_exchange = {
    .entry = {"reducescatter",
              "owners sum their blocks and send them coded: 2 delays, bytes do not grow "
              "with P",
              "Renggli et al. 2019, arXiv:1802.08021; Li, Hoefler 2022, arXiv:2201.07598", NULL},
    .brief = "2 delays, owners of blocks code their sums, bytes do not grow with P",
    .sums = TG__SUMS_SELECTED | TG__SUMS_ROUNDED,
    TG__DIRECT_OPS,
    .result = reducescatter_result,
    .cost = reducescatter_cost,
    .leftover = reducescatter_leftover,
    .automatic = true,
    .decodes_own = true,
};
