/* max = the largest of the ranks' values, at least 0; used to agree on scalers. Frames are f32
 * (dense or zero). NaNs are ignored. */
#include "base/mem.h"
#include "exchange/exchange.h"
#include <string.h>

static void max_begin(float *acc, size_t n)
{
    if (n > 0)
        memset(acc, 0, n * sizeof *acc);
}

static void max_add(float *acc, size_t n, const uint8_t *frame, size_t len, int rank,
                    tg__pool *pool)
{
    (void)len;
    (void)rank;
    (void)pool;
    for (size_t i = 0; frame[1] == TG__FORM_DENSE && i < n; i++) {
        float x;
        tg__floats_get(&x, frame + TG__FRAME_HEAD + i * sizeof x, 1);
        acc[i] = TG__MAX(x, acc[i]);
    }
}

static void max_finish(float *acc, size_t n, int size)
{
    (void)acc;
    (void)n;
    (void)size;
}

const tg__combine tg__combine_max = {
    .name = "max",
    .begin = max_begin,
    .add = max_add,
    .finish = max_finish,
};
