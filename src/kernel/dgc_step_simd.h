/* DGC's momentum correction of one vector, for templates that process v further in the same pass;
 * include after simd_avx2.h or simd_avx512.h. tg__dgc_step is its specification. */
#ifndef TG_KERNEL_DGC_STEP_SIMD_H
#define TG_KERNEL_DGC_STEP_SIMD_H

/* Update u and v of the first min(left, WIDTH) elements; returns the new v, 0 or NaN in missing
 * lanes. */
static inline vec dgc_step(float *u, float *v, const float *g, size_t left, vec m, bool nesterov)
{
    vec velocity = vec_get(u, left), sum = vec_get(v, left), x = vec_get(g, left);
    if (nesterov) {
        velocity = vec_mul(m, vec_add(velocity, x));
        sum = vec_add(vec_add(sum, velocity), x);
    } else {
        velocity = vec_add(vec_mul(m, velocity), x);
        sum = vec_add(sum, velocity);
    }
    vec_put(u, left, velocity);
    vec_put(v, left, sum);
    return sum;
}

#endif
