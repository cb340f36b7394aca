/* Writes many frames of every codec, and what the library decodes them to, for
 * tests/wire_decode_test.py.
 *
 *     wire_dump FILE      records, little-endian: u32 bytes, the message or frame, u32 elements,
 *                         the values as f32 */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "vectors.h"
#include "wire/envelope.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_N = 3000 };

static void must(tg_status status)
{
    if (status == TG_OK)
        return;
    fprintf(stderr, "wire_dump: %s\n", tg_error());
    exit(1);
}

static void put32(FILE *file, size_t v)
{
    uint8_t bytes[4];
    tg__put32(bytes, (uint32_t)v);
    fwrite(bytes, 1, 4, file);
}

/* Write one record; every third frame is in an envelope. */
static void record(FILE *file, tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                   unsigned number)
{
    static uint8_t message[TG__ENVELOPE_BYTES + 12 + 4 * MAX_N], bytes[4 * MAX_N];
    static float decoded[MAX_N];
    uint8_t *frame = message + TG__ENVELOPE_BYTES;
    size_t len;
    tg_array ax = tg_array_f32(x, n), out = tg_array_f32(decoded, n);
    must(tg_codec_encode(c, ctx, &ax, frame, tg_codec_bound(c, n), &len));
    must(tg_frame_decode(frame, len, &out));
    if (number % 3 == 0) {
        tg__envelope e = {.session = number * UINT64_C(0x123456789abcdef1),
                          .step = number,
                          .sender = number % 7,
                          .flags = (uint16_t)(number % 8),
                          .channel = (uint16_t)(number % 5)};
        tg__envelope_seal(message, &e, len);
        frame = message;
        len += TG__ENVELOPE_BYTES;
    }
    put32(file, len);
    fwrite(frame, 1, len, file);
    put32(file, n);
    tg__floats_put(bytes, decoded, n);
    fwrite(bytes, 1, 4 * n, file);
}

/* Every second vector consists of three tensors. */
static void vector(FILE *file, tg_codec *c, const float *x, size_t n, unsigned number)
{
    const tg_segment segments[] = {
        {.n = n / 3, .rows = n / 3, .cols = 1},
        {.begin = n / 3, .n = n / 7, .rows = n / 7, .cols = 1},
        {.begin = n / 3 + n / 7, .n = n - n / 3 - n / 7, .rows = n - n / 3 - n / 7, .cols = 1}};
    const tg_encode_context ctx = {
        .struct_size = sizeof(ctx), .segments = segments, .nsegments = TG_COUNT(segments)};
    record(file, c, number % 2 ? &ctx : NULL, x, n, number);
}

/* Matrices, for codecs that use their shape. */
static void matrices(FILE *file, const char *spec, float *x, unsigned number)
{
    static const tg_segment segments[] = {
        {0, 2000, 40, 50, 0}, {2000, 50, 50, 1, 0}, {2050, 950, 19, 50, 0}};
    tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = segments, .nsegments = 3};
    tg_codec *c;
    must(tg_codec_create(spec, &c));
    for (unsigned v = 0; v < 2 * TEST_VECTORS; v++) {
        ctx.rng.step = v;
        test_vector(x, MAX_N, (enum test_vector)(v % TEST_VECTORS), number);
        record(file, c, &ctx, x, MAX_N, number++);
    }
    tg_codec_destroy(c);
}

int main(int argc, char **argv)
{
    static const char *const topk[] = {
        "topk:density=0.001,index=rice",
        "topk:density=0.05,values=f32",
        "topk:density=0.2,index=raw",
        "topk:density=0.5,index=bitmap",
        "topk:density=1,values=f32",
        "2bit:threshold=0.01",
        "topk:density=0.4,values=int8",
        "topk:density=0.4,values=4bit,index=ef",
        "topk:density=0.5,values=2bit",
        "topk:density=0.3,values=1bit,index=ef",
        "strom:threshold=0.01",
        "strom:threshold=1,index=bitmap",
        "strom:threshold=0.1,index=raw",
        "adacomp:bin=9,index=rice",
        "2bit:threshold=auto",
        "qsgd:bits=3,norm=l2",
        "qsgd:bits=7,bucket=1024",
        "qsgd:norm=l2,coding=elias",
        "terngrad:clip=0",
        "sign:scale=tensor",
        "sign:scale=row",
        "1bit:threshold=mean",
        "blocktopk:keep=5",
        "dct:keep=5,values=fp16",
    };
    static const char *const of_matrices[] = {
        "atomo",     "1bit", "1bit:threshold=mean", "1bit:weights=yes", "sign:scale=row",
        "blocktopk", "dct"};
    static const size_t ns[] = {0, 1, 2, 63, 64, 65, 500, MAX_N};
    static float x[MAX_N];
    FILE *file = argc == 2 ? fopen(argv[1], "wb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    size_t count;
    unsigned number = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (size_t s = 0; s < count + TG_COUNT(topk); s++) {
        tg_codec *c;
        must(tg_codec_create(s < count ? all[s]->entry.name : topk[s - count], &c));
        for (size_t i = 0; i < TG_COUNT(ns); i++)
            for (unsigned v = 0; v < TEST_VECTORS; v++) {
                test_vector(x, ns[i], (enum test_vector)v, number);
                vector(file, c, x, ns[i], number++);
            }
        tg_codec_destroy(c);
    }
    for (size_t s = 0; s < TG_COUNT(of_matrices); s++)
        matrices(file, of_matrices[s], x, number + 2 * TEST_VECTORS * (unsigned)s);
    return fclose(file) == 0 ? 0 : 1;
}
