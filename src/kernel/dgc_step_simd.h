/* DGC's momentum correction of one vector, for templates that process v further in the same pass;
 * include after simd_LEVEL.h. */
#ifndef TG_KERNEL_DGC_STEP_SIMD_H
#define TG_KERNEL_DGC_STEP_SIMD_H

/* Update u and v of the first min(left, WIDTH) elements; returns the new v, 0 or NaN in missing
 * lanes. */
static inline vec dgc_step(float *u, float *v, const float *g, size_t left, float m, bool nesterov)
{
    vec velocity = vec_get(u, left), sum = vec_get(v, left), x = vec_get(g, left);
    if (nesterov) {
        velocity = m * (velocity + x);
        sum = (sum + velocity) + x;
    } else {
        velocity = m * velocity + x;
        sum = sum + velocity;
    }
    vec_put(u, left, velocity);
    vec_put(v, left, sum);
    return sum;
}

#endif
