#include "server/coder.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void tg__coder_release(tg__coder *c)
{
    tg_codec_destroy(c->codec);
    free(c->segments);
    free(c->memory);
    *c = (tg__coder){0};
}

static tg_status begin(tg__coder *c, int codec, const tg__coding *coding)
{
    TG_TRY(tg_codec_create(coding->spec, &c->codec));
    if (codec >= 0 && c->codec->ops->wire_id != codec)
        return tg_fail(TG_E_CORRUPT, "answers in codec %s to frames of codec %s",
                       c->codec->ops->entry.name, tg__codec_by_id((uint8_t)codec)->entry.name);
    TG_TRY(tg_alloc(coding->nsegments, sizeof *c->segments, &c->segments));
    tg__coding_segments(coding, c->segments);
    return tg__coder_memory(c) == 0 ? TG_OK
                                    : tg_alloc(tg__coder_memory(c), sizeof *c->memory, &c->memory);
}

tg_status tg__coder_begin(tg__coder *c, size_t n, int codec, const tg__coding *coding)
{
    tg__coder_release(c);
    c->n = n;
    c->rng = coding->rng;
    c->nsegments = coding->nsegments;
    const tg_status status = begin(c, codec, coding);
    if (status != TG_OK)
        tg__coder_release(c);
    return status;
}

void tg__coder_clear(tg__coder *c)
{
    if (c->memory != NULL)
        memset(c->memory, 0, tg__coder_memory(c) * sizeof *c->memory);
}

size_t tg__coder_memory(const tg__coder *c)
{
    return c->codec == NULL ? 0 : c->nsegments * tg_codec_memory(c->codec);
}

size_t tg__coder_room(const tg__coder *c)
{
    return TG__MAX(tg__codec_bound(c->codec, c->n), TG__F32_BYTES(c->n));
}

tg_status tg__coder_encode(tg__coder *c, uint64_t step, double density, const float *p,
                           const float *gradient, tg__part *part, tg__view *view)
{
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .rng = c->rng,
                             .density = density,
                             .segments = c->segments,
                             .nsegments = c->nsegments,
                             .gradient = gradient,
                             .memory = c->memory};
    ctx.rng.step = step;
    return tg__codec_encode(c->codec, &ctx, p, c->n, part, 1, view);
}

tg_status tg__coder_keep(const tg__coder *c, tg__kept_key key, uint64_t begin, tg__kept_writer *w)
{
    TG__FREED uint32_t *run = NULL;
    if (tg__coder_memory(c) == 0)
        return TG_OK;
    TG_TRY(tg_alloc(c->nsegments, sizeof *run, &run));
    for (size_t i = 0; i < c->nsegments; i++)
        run[i] = (uint32_t)c->segments[i].n;
    return tg__kept_put(
        w, &(tg__piece){key, begin, c->n, tg_codec_memory(c->codec), c->nsegments, run, c->memory});
}

void tg__coder_restore(tg__coder *c, const tg__kept *kept, tg__kept_key key, uint64_t begin)
{
    const size_t each = tg__coder_memory(c) == 0 ? 0 : tg_codec_memory(c->codec);
    for (size_t i = 0; each > 0 && i < c->nsegments; begin += c->segments[i++].n) {
        const uint32_t *words = tg__kept_at(kept, key, begin, each);
        if (words != NULL)
            memcpy(c->memory + i * each, words, each * sizeof *c->memory);
    }
}
