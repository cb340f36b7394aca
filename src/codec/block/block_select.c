/* One pass collects the candidates: elements that reach a threshold, chosen so that slightly more
 * than k do: a little below the smallest magnitude kept in the previous block. If fewer do, the
 * threshold is halved. The k-th largest magnitude among the candidates is found bit by bit from the
 * top. */
#include "codec/block/block_select.h"
#include "kernel/element.h"

#define SLACK 0.88f /* of the hint: in similar blocks, about 1.5 k elements reach it */
#define HALVINGS 12 /* after these, all elements are candidates */

/* Collect candidates in s->idx, s->val: at least k, or all that are not 0. */
static size_t collect(tg__block_select *s, const float *x, size_t n, size_t k)
{
    const tg__kernels *kernel = tg__kernel();
    float threshold = s->hint * SLACK;
    for (int i = 0; i < HALVINGS && threshold > 0; i++, threshold /= 2) {
        const size_t count = kernel->select(x, n, threshold, s->idx, s->val, n);
        if (count >= k)
            return count;
    }
    return kernel->select(x, n, 0, s->idx, s->val, n);
}

/* The magnitude bits of the k-th largest of `count` candidates; *above_p: the number above. At each
 * bit, only the candidates that agree with it so far remain. */
static uint32_t kth_largest(tg__block_select *s, size_t count, size_t k, size_t *above_p)
{
    uint32_t all = TG__F32_MAGNITUDE, some = 0;
    for (size_t i = 0; i < count; i++) {
        s->bits[i] = tg__f32_magnitude(s->val[i]);
        all &= s->bits[i];
        some |= s->bits[i];
    }
    uint32_t kth = all;
    size_t need = k;
    for (uint32_t bit = UINT32_C(1) << 30; bit > 0; bit >>= 1) {
        if (!((all ^ some) & bit))
            continue;
        size_t set = 0, left = 0;
        for (size_t i = 0; i < count; i++)
            set += (s->bits[i] & bit) != 0;
        const uint32_t want = set >= need ? bit : 0;
        for (size_t i = 0; i < count; i++) {
            s->bits[left] = s->bits[i];
            left += (s->bits[i] & bit) == want;
        }
        need -= want ? 0 : set;
        kth |= want;
        count = left;
    }
    *above_p = k - need;
    return kth;
}

/* Fewer than k elements are not 0: take these, and the first places of the others. */
static void pad(const tg__block_select *s, const float *x, size_t count, size_t k, uint16_t *place,
                float *val)
{
    size_t missing = k - count, next = 0, at = 0;
    for (size_t i = 0; at < k; i++) {
        const bool picked = next < count && s->idx[next] == i;
        if (!picked && missing == 0)
            continue;
        place[at] = (uint16_t)i;
        val[at++] = picked ? x[i] : 0;
        next += picked;
        missing -= !picked;
    }
}

void tg__block_pick(tg__block_select *s, const float *x, size_t n, size_t k, uint16_t *place,
                    float *val)
{
    if (k == n) {
        for (size_t i = 0; i < n; i++)
            place[i] = (uint16_t)i;
        memcpy(val, x, n * sizeof *val);
        return;
    }
    const size_t count = collect(s, x, n, k);
    if (count < k) {
        pad(s, x, count, k, place, val);
        return;
    }
    size_t above, at = 0;
    const uint32_t kth = kth_largest(s, count, k, &above);
    size_t ties = k - above;
    for (size_t i = 0; at < k; i++) {
        const uint32_t m = tg__f32_magnitude(s->val[i]);
        const bool tie = m == kth && ties > 0;
        if (m <= kth && !tie)
            continue;
        place[at] = (uint16_t)s->idx[i];
        val[at++] = s->val[i];
        ties -= tie;
    }
    memcpy(&s->hint, &kth, sizeof kth);
}
