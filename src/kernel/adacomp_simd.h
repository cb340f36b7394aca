/* Template of adacomp_avx2.c and adacomp_avx512.c: adacomp_ref.c in vectors. The including file
 * defines larger (max |x| in lanes, NaN ignored), largest (over lanes) and lifted (a bit for each
 * lane that is sent). A bin is short enough to be still cached when it is read again. */

static size_t adacomp_select(const float *x, const float *g, size_t n, size_t bin, uint32_t *idx,
                             float *val, size_t cap, tg__bins *bins)
{
    tg__picked to = {idx, val, cap, 0};
    *bins = (tg__bins){0, 0};
    for (size_t begin = 0; begin < n; begin += bin) {
        size_t end = TG__MIN(n, begin + bin);
        vec lanes = vec_splat(0);
        for (size_t i = begin; i < end; i += WIDTH) /* missing lanes are 0: never the maximum */
            lanes = larger(vec_get(x + i, end - i), lanes);
        float max = largest(lanes);
        tg__bins_add(bins, max);
        if (!(max > 0))
            continue;
        vec limit = vec_splat(max);
        for (size_t i = begin; i < end; i += WIDTH) {
            vec v = vec_get(x + i, end - i);
            uint32_t mask = lifted(v, vec_add(v, vec_get(g + i, end - i)), limit);
            for (; mask != 0; mask &= mask - 1) {
                size_t at = i + (unsigned)__builtin_ctz(mask);
                tg__pick_one(&to, at, x[at]);
            }
        }
    }
    return to.count;
}
