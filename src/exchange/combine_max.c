/* max = the largest of the ranks' values, at least 0; used to agree on scalers. Frames are f32
 * (dense or zero). NaNs are ignored. */
#include "base/mem.h"
#include "exchange/exchange.h"

static void max_add(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool)
{
    (void)len;
    (void)pool;
    for (size_t i = 0; frame[1] == TG__FORM_DENSE && i < n; i++) {
        float x;
        tg__floats_get(&x, frame + TG__FRAME_HEAD + i * sizeof x, 1);
        acc[i] = TG__MAX(x, acc[i]);
    }
}

const tg__combine tg__combine_max = {
    .name = "max",
    .add = max_add,
};
