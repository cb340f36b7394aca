#include "method/chunk_choice.h"
#include "codec/sparse/topk_select.h"
#include "kernel/element.h"

enum { DIGIT = 8, DIGITS = 1 << DIGIT };

enum { SMALLEST = 64, LARGEST = 32768, CHUNKS = 64, SENT = 4 };

size_t tg__chunk_for(size_t n, double density)
{
    for (size_t chunk = LARGEST; chunk > SMALLEST; chunk /= 2) {
        const size_t count = (n + chunk - 1) / chunk;
        if (count >= CHUNKS && tg__topk_count(density, count) >= SENT)
            return chunk;
    }
    return SMALLEST;
}

/* Non-negative floats have the same order as their bits. */
static uint32_t order(float norm)
{
    const uint32_t bits = tg__f32_bits(norm);
    if ((bits & TG__F32_MAGNITUDE) > TG__F32_INF)
        return TG__F32_INF;
    return bits >= TG__F32_SIGN ? 0 : bits;
}

/* Find the k-th largest, digit by digit, the highest first. *equal_p: how many values equal to it
 * are among the k. */
static uint32_t kth(const float *norm, size_t count, size_t k, size_t *equal_p)
{
    uint32_t known = 0, mask = 0;
    for (unsigned shift = 32; shift > 0;) {
        size_t have[DIGITS] = {0};
        shift -= DIGIT;
        for (size_t i = 0; i < count; i++) {
            const uint32_t bits = order(norm[i]);
            if ((bits & mask) == known)
                have[bits >> shift & (DIGITS - 1)]++;
        }
        uint32_t digit = DIGITS - 1;
        for (; have[digit] < k; digit--)
            k -= have[digit];
        known |= digit << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    *equal_p = k;
    return known;
}

void tg__chunks_choose(const float *norm, size_t count, size_t k, uint32_t *chosen)
{
    if (k == 0)
        return;
    size_t equal, at = 0;
    const uint32_t least = kth(norm, count, k, &equal);
    for (size_t i = 0; at < k; i++) {
        const uint32_t bits = order(norm[i]);
        if (bits > least) {
            chosen[at++] = (uint32_t)i;
        } else if (bits == least && equal > 0) {
            chosen[at++] = (uint32_t)i;
            equal--;
        }
    }
}
