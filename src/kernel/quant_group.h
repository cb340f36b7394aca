/* Shared by the variants of the quantisers: the loop over groups of 128 elements that use the same
 * 16 Philox blocks. */
#ifndef TG_KERNEL_QUANT_GROUP_H
#define TG_KERNEL_QUANT_GROUP_H

#include "base/philox.h"
#include "kernel/element.h"

enum { TG__GROUP = 128 }; /* elements */

/* The key of each round. */
typedef struct tg__philox_keys {
    uint32_t k0[TG__PHILOX_ROUNDS], k1[TG__PHILOX_ROUNDS];
    unsigned rounds;
} tg__philox_keys;

/* Quantise one whole group whose first Philox block is `block`. */
typedef void tg__quant_group_fn(int8_t *codes, const float *x, float scale, int levels,
                                const tg__philox_keys *keys, uint32_t block);

/* Inlined, so that `group` is not a call. The vector's length keeps block numbers below 2^32. */
static inline void tg__quant_groups(int8_t *codes, const float *x, size_t n, float inverse,
                                    int levels, const tg__draws *draws, tg__quant_group_fn *group)
{
    const float scale = 65536.0f * inverse;
    tg__philox_keys keys = {.rounds = draws->rounds};
    for (unsigned i = 0; i < draws->rounds; i++) {
        keys.k0[i] = draws->key[0] + i * TG__PHILOX_W0;
        keys.k1[i] = draws->key[1] + i * TG__PHILOX_W1;
    }
    for (size_t i = 0; i < n;) {
        uint64_t at = draws->first + i;
        size_t place = at % TG__GROUP, m = TG__MIN(n - i, TG__GROUP - place);
        uint32_t block = (uint32_t)(at / TG__GROUP * 16);
        if (m == TG__GROUP) {
            group(codes + i, x + i, scale, levels, &keys, block);
        } else { /* a group cut by the vector's start or end */
            float part[TG__GROUP] = {0};
            int8_t out[TG__GROUP];
            memcpy(part + place, x + i, m * sizeof(*x));
            group(out, part, scale, levels, &keys, block);
            memcpy(codes + i, out + place, m);
        }
        i += m;
    }
}

#endif
