/* Encode a gradient into bytes and decode it, without a network:
 *     cc codec.c $(pkg-config --cflags --libs telegrad) -lm -o codec
 *     ./codec */
#include <math.h>
#include <stdio.h>
#include <telegrad/telegrad.h>

enum { N = 10000 };

int main(void)
{
    static float gradient[N], decoded[N];
    static unsigned char frame[8 * N];
    tg_array in = tg_array_f32(gradient, N), out = tg_array_f32(decoded, N);
    tg_codec *codec;
    size_t len;
    for (int i = 0; i < N; i++)
        gradient[i] = sinf((float)i) * expf(-0.001f * (float)i);
    if (tg_codec_create("topk:density=0.01", &codec) != TG_OK ||
        tg_codec_encode(codec, NULL, &in, frame, sizeof frame, &len) != TG_OK ||
        tg_frame_decode(frame, len, &out) != TG_OK) {
        fprintf(stderr, "%s\n", tg_error());
        return 1;
    }
    printf("%d bytes became %zu\n", 4 * N, len);
    tg_codec_destroy(codec);
    return 0;
}
