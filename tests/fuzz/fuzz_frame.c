/* Any bytes as a frame of as many elements as it claims. It is refused, or decoded within its
 * vector, with the same result in both ways of decoding. */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_N = 1 << 16 };

static void *copy_of(const void *bytes, size_t len, size_t room)
{
    void *p = malloc(room ? room : 1);
    if (!p)
        abort();
    if (len > 0)
        memcpy(p, bytes, len);
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size >= TG__FRAME_HEAD ? tg__get32(data + 4) : 0;
    if (n > MAX_N)
        return 0;
    uint8_t *frame = copy_of(data, size, size);
    float *a = copy_of(NULL, 0, n * sizeof(float)), *b = copy_of(NULL, 0, n * sizeof(float));
    memset(b, 0, n * sizeof(float));
    tg_array out = tg_array_f32(a, n), sum = tg_array_f32(b, n);
    tg_status status = tg_frame_decode(frame, size, &out);
    if (status != TG_OK && !*tg_error())
        abort();
    if (tg_frame_decode_add(frame, size, &sum) != status)
        abort();
    for (size_t i = 0; i < n; i++) {
        bool both_nan = a[i] != a[i] && b[i] != b[i];
        if (status == TG_OK ? !both_nan && a[i] != b[i] : b[i] != 0)
            abort();
    }
    free(frame);
    free(a);
    free(b);
    return 0;
}
