/* DGC's local clipping of a gradient, tensor by tensor, before it is encoded: src/feedback/clip.c.
 * Moves 12 bytes of device memory per element, in three kernels for all tensors. */
#include "cuda_impl.h"
#include "line_table.h"
#include "telegrad/tools.h"

#include <stdlib.h>

typedef struct tg__clip {
    tg__lines lines; /* the tensors */
    /* In one block of device memory, which begins with UINT64_MAX: kernels of lines always run. */
    void *device;
    uint64_t *bad;
    float *factor;    /* (lines.count) */
    uint32_t *spoilt; /* not used */
} tg__clip;

void tg__clip_free(tg__clip *own)
{
    if (own == NULL)
        return;
    tg__lines_free(&own->lines);
    if (own->device != NULL)
        (void)cudaFree(own->device);
    free(own);
}

static tg_status make_lines(tg_coder *c, tg__clip *own)
{
    const tg_coder_setup *s = &c->setup;
    tg__line *line;
    TG_TRY(tg_alloc(s->nsegments, sizeof *line, &line));
    for (size_t i = 0; i < s->nsegments; i++)
        line[i] =
            (tg__line){.begin = (uint32_t)s->segments[i].begin, .n = (uint32_t)s->segments[i].n};
    const tg_status status = tg__lines_make(c->queue, line, s->nsegments, &own->lines);
    free(line);
    return status;
}

static tg_status make(tg_coder *c, tg__clip *own)
{
    const size_t count = c->setup.nsegments;
    const size_t bytes = sizeof *own->bad + count * sizeof *own->factor + sizeof *own->spoilt;
    TG_TRY(make_lines(c, own));
    TG__GPU(cudaMalloc(&own->device, bytes));
    own->bad = own->device;
    own->factor = (float *)(void *)(own->bad + 1);
    own->spoilt = (uint32_t *)(void *)(own->factor + count);
    TG__GPU(cudaMemsetAsync(own->device, 0xff, bytes, c->queue->stream));
    return TG_OK;
}

static tg_status have_clip(tg_coder *c)
{
    tg__clip *own;
    if (c->clip != NULL)
        return TG_OK;
    TG_TRY(tg_alloc(1, sizeof *own, &own));
    const tg_status status = make(c, own);
    if (status != TG_OK) {
        tg__clip_free(own);
        return status;
    }
    c->clip = own;
    return TG_OK;
}

tg_status tg__coder_clip(tg_coder *c, const float *g, double limit, float *out)
{
    cudaStream_t stream = c->queue->stream;
    TG__ON_DEVICE(c->queue->device);
    TG_TRY(have_clip(c));
    const tg__clip *own = c->clip;
    const tg__line_pass sums = {
        .bad = own->bad, .x = (float *)(uintptr_t)g, /* only read */ .spoilt = own->spoilt};
    const tg__line_finish finish = {
        .bad = own->bad, .result = TG__LINE_FACTOR, .target = limit, .value = own->factor};
    TG__GPU(tg__line_sums(TG__LINE_SQUARES, &own->lines, &sums, stream));
    TG__GPU(tg__line_results(&own->lines, &finish, stream));
    TG__GPU(tg__line_scale(&own->lines, g, own->factor, out, stream));
    return TG_OK;
}
