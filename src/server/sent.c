/* Source: Tang et al. 2019, DoubleSqueeze, arXiv:1905.05957, alg. 1, with the error of parameters
 * in place of that of sums */
#include "server/sent.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <stdlib.h>
#include <string.h>

tg_status tg__sent_create(const float *w, size_t n, tg__sent **s_p)
{
    tg__sent *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    s->n = n;
    const tg_status status = tg_alloc(TG__MAX(n, (size_t)1), sizeof *s->v, &s->v);
    if (status != TG_OK) {
        tg__sent_destroy(s);
        return status;
    }
    tg__sent_copy(s, w, 0, n);
    *s_p = s;
    return TG_OK;
}

void tg__sent_destroy(tg__sent *s)
{
    if (s == NULL)
        return;
    tg__coder_release(&s->coder);
    free(s->v);
    free(s->coding);
    free(s);
}

/* What is the same in all steps. */
static bool same_coding(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    return a_len == b_len &&
           memcmp(a + TG__CODING_STEP, b + TG__CODING_STEP, a_len - TG__CODING_STEP) == 0;
}

tg_status tg__sent_check(const tg__sent *s, size_t n, uint8_t codec, const tg__star *star,
                         const uint8_t *coding)
{
    const bool first = (star->flags & TG__STAR_FIRST) != 0;
    tg__coding c;
    tg__coder trial = {0};
    TG_TRY(tg__coding_read(coding, star->coding, first, n, &c));
    if (!first)
        return s != NULL && s->coder.codec != NULL
                   ? TG_OK
                   : tg_fail(TG_E_CORRUPT,
                             "a gradient of %zu elements, whose answers' coding was not sent", n);
    if (s != NULL && s->coder.codec != NULL && s->coder.codec->ops->wire_id == codec &&
        same_coding(s->coding, s->coding_len, coding, star->coding))
        return TG_OK;
    const tg_status status = tg__coder_begin(&trial, n, codec, &c);
    tg__coder_release(&trial);
    return status;
}

tg_status tg__sent_compare(const tg__star *a, const uint8_t *coding_a, const tg__star *b,
                           const uint8_t *coding_b)
{
    if ((a->flags & b->flags & TG__STAR_FIRST) == 0 ||
        same_coding(coding_a, a->coding, coding_b, b->coding))
        return TG_OK;
    return tg_fail(TG_E_MISMATCH, "another coding of answers than that of other workers");
}

tg_status tg__sent_adopt(tg__sent *s, int codec, const uint8_t *coding, size_t len)
{
    tg__coding c;
    uint8_t *copy;
    if (s->coder.codec != NULL && same_coding(s->coding, s->coding_len, coding, len))
        return TG_OK;
    TG_TRY(tg__coding_read(coding, len, true, s->n, &c));
    TG_TRY(tg__coder_begin(&s->coder, s->n, codec, &c));
    TG_TRY(tg_alloc(len, 1, &copy));
    memcpy(copy, coding, len);
    free(s->coding);
    s->coding = copy;
    s->coding_len = len;
    return TG_OK;
}

/* False: what there is to code, or what it would give, is not finite. */
static bool code(tg__sent *s, const float *w, uint64_t step, double density, float *p,
                 tg__part *part, tg_status *status_p)
{
    tg__kernel()->sub_to(p, w, s->v, s->n);
    if (!tg__kernel()->all_finite(p, s->n))
        return false;
    *status_p = tg__coder_encode(&s->coder, step, density, p, NULL, part, NULL);
    if (*status_p == TG_OK)
        tg__frame_decode_add(part->dst, part->len, s->v, NULL);
    return *status_p == TG_OK && tg__kernel()->all_finite(s->v, s->n);
}

tg_status tg__sent_code(tg__sent *s, const float *w, uint8_t codec, uint64_t step,
                        const uint8_t *coding, bool keeps, float *p, uint8_t *frame, size_t *len_p)
{
    tg_status status = TG_OK;
    tg__coding c;
    *len_p = 0;
    s->number++;
    TG_TRY(tg__coding_read(coding, TG__CODING_STEP, false, s->n, &c));
    const bool codes =
        s->coder.codec != NULL && frame != NULL && s->coder.codec->ops->wire_id == codec;
    tg__part part = {
        .dst = frame, .cap = codes ? tg__coder_room(&s->coder) : 0, .lo = 0, .hi = s->n};
    if (codes && (keeps || s->n == 0))
        tg__part_zero(&part, codec);
    else if (codes && !code(s, w, step, c.density, p, &part, &status))
        part.len = 0;
    if (status != TG_OK && status != TG_E_NONFINITE)
        return status;
    if (part.len > 0 && part.len <= TG__F32_BYTES(s->n))
        *len_p = part.len;
    else if (!keeps)
        tg__sent_copy(s, w, 0, s->n);
    return TG_OK;
}

void tg__sent_copy(tg__sent *s, const float *w, size_t at, size_t n)
{
    if (s != NULL && n > 0)
        memcpy(s->v + at, w + at, n * sizeof *w);
}
