/* Random-k's passes: the gradient is added to the memory, and elements at given places are read and
 * written. */
#include "places.h"
#include "cuda_impl.h"
#include "elementwise.h"

tg_status tg__places_gather(tg_queue *q, float *r, const float *g, size_t n, const uint32_t *idx,
                            float *val, size_t count, float *host, size_t *bad_p)
{
    uint64_t *answer = q->answer.data, *bad = &q->word[TG__GPU_BAD],
             *spoilt = &q->word[TG__GPU_SPOILT];
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaMemsetAsync(spoilt, 0, sizeof *spoilt, q->stream));
    TG__GPU(tg__gpu_first_above(q->stream, g, n, 0x7f7fffffu, bad));
    if (r != NULL)
        TG__GPU(tg__gpu_add(q->stream, r, g, n, bad, spoilt));
    TG__GPU(tg__gpu_take(q->stream, val, r != NULL ? r : g, idx, count));
    TG__GPU(cudaMemcpyAsync(answer, q->word, TG__GPU_WORDS * sizeof *answer, cudaMemcpyDeviceToHost,
                            q->stream));
    TG_TRY(tg__gpu_copy_out(q, host, val, count * sizeof *val));
    TG_TRY(tg__gpu_finish(q));
    *bad_p = answer[TG__GPU_BAD] < n ? (size_t)answer[TG__GPU_BAD] : n;
    if (answer[TG__GPU_SPOILT] != 0)
        return tg_fail(TG_E_NONFINITE, "the gradient with what is remembered is not finite");
    return TG_OK;
}

tg_status tg__places_scatter(tg_queue *q, float *x, const uint32_t *idx, const float *val,
                             size_t count, bool add, float share)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(tg__gpu_put(q->stream, x, idx, val, count, add, share));
    return TG_OK;
}
