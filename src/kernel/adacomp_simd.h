/* Template: AdaComp's selection (Chen et al. 2018, arXiv:1712.02679, alg. 2): of every bin the
 * elements that g, added once more, would lift to the bin's maximum. A bin is short enough to be
 * still cached when it is read again. */

static size_t adacomp_select(const float *x, const float *g, size_t n, size_t bin, uint32_t *idx,
                             float *val, size_t cap, tg__bins *bins)
{
    tg__picked to = {idx, val, cap, 0};
    *bins = (tg__bins){0, 0};
    for (size_t begin = 0; begin < n; begin += bin) {
        size_t end = TG__MIN(n, begin + bin);
        vec lanes = vec_splat(0);
        for (size_t i = begin; i < end; i += WIDTH) /* missing lanes are 0: never the maximum */
            lanes = vec_max(vec_abs(vec_get(x + i, end - i)), lanes);
        const float max = vec_largest(lanes);
        if (!(max > 0))
            continue;
        bins->sum += (double)max;
        bins->count++;
        for (size_t i = begin; i < end; i += WIDTH) {
            const vec own = vec_get(x + i, end - i), sum = vec_abs(own + vec_get(g + i, end - i));
            const vmask high = vec_at_least(sum, vec_splat(max));
            uint32_t mask = mask_bits(mask_and(high, vec_less(vec_splat(0), vec_abs(own))));
            for (; mask != 0; mask &= mask - 1) {
                size_t at = i + (unsigned)__builtin_ctz(mask);
                tg__pick(&to, at, x[at]);
            }
        }
    }
    return to.count;
}

static void fill_adacomp(tg__kernels *table)
{
    table->adacomp_select = adacomp_select;
}
