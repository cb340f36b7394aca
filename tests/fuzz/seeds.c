/* Writes initial inputs for every fuzz target, made by the library: valid frames of every codec of
 * the registry in all its settings, index lists, spec strings, files.
 *
 *     fuzz_seeds FOLDER      writes FOLDER/TARGET/NAME */
#include "codec_specs.h"
#include "fuzz_tools.h"
#include "method/method.h"
#include "telegrad/registry.h"
#include "vectors.h"
#include "wire/envelope.h"
#include "wire/index.h"
#include "telegrad/spec.h"
#include <errno.h>
#include <sys/stat.h>

static const char *folder;

static void must(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "fuzz_seeds: %s: %s %s\n", what, strerror(errno), tg_error());
    exit(1);
}

static void put(const char *target, const char *kind, size_t number, const void *bytes, size_t len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, target);
    must(mkdir(path, 0777) == 0 || errno == EEXIST, path);
    snprintf(path, sizeof path, "%s/%s/%s-%zu", folder, target, kind, number);
    FILE *file = fopen(path, "wb");
    must(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0, path);
}

/* The name of a codec as used in the names of its targets, which is that of its file. */
static const char *file_name(uint8_t id)
{
    switch (id) {
#define TG_CODEC(name, wire_id) \
    case wire_id:               \
        return #name;
#include "codec/codecs.def"
#undef TG_CODEC
    }
    return "";
}

/* ---- codecs ---------------------------------------------------------------------------------- */

static void seed_decoder(const char *target, size_t number, const uint8_t *frame, size_t len)
{
    uint8_t bytes[8192];
    size_t payload = len - TG__FRAME_HEAD;
    if (frame[1] != TG__FORM_CODED || FUZZ_DECODE_HEAD + payload > sizeof bytes)
        return;
    tg__put16(bytes, tg__get16(frame + 2));
    tg__put32(bytes + 2, tg__get32(frame + 4));
    tg__put32(bytes + 6, 0);
    memcpy(bytes + FUZZ_DECODE_HEAD, frame + TG__FRAME_HEAD, payload);
    put(target, "frame", number, bytes, FUZZ_DECODE_HEAD + payload);
}

static void seed_encoder(const char *target, size_t number, size_t spec, const float *x, size_t n)
{
    uint8_t bytes[FUZZ_ENCODE_HEAD + 64 * sizeof(float)];
    size_t floats = TG__MIN(n, (size_t)64);
    memset(bytes, 0, FUZZ_ENCODE_HEAD);
    bytes[0] = (uint8_t)spec;
    bytes[1] = number % 2 ? 0 : 1 | 7 << 1;
    tg__put16(bytes + 2, (uint16_t)n);
    tg__put16(bytes + 4, (uint16_t)(n / 3));
    tg__put16(bytes + 6, (uint16_t)(n / 2));
    bytes[8] = (uint8_t)(number % 3 * 100);
    bytes[9] = (uint8_t)number;
    tg__floats_put(bytes + FUZZ_ENCODE_HEAD, x, floats);
    put(target, "vector", number, bytes, FUZZ_ENCODE_HEAD + floats * sizeof(float));
}

/* The frame of one vector: for odd numbers without a context, for others with one. */
static void seed_vector(const tg__codec_ops *ops, size_t number, size_t s, const char *spec,
                        size_t n)
{
    static float x[1100];
    const char *name = file_name(ops->wire_id);
    char decode[64], encode[64];
    tg_segment segments[CODEC_SEGMENTS];
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = segments, .nsegments = codec_segments(n, segments)};
    tg_codec *c;
    size_t len;
    snprintf(decode, sizeof decode, "fuzz_codec_%s", name);
    snprintf(encode, sizeof encode, "fuzz_encode_%s", name);
    test_vector(x, n, (enum test_vector)(number / 2 % TEST_VECTORS), number / 2);
    seed_encoder(encode, number, s, x, n);
    must(tg_codec_create(spec, &c) == TG_OK, spec);
    uint8_t *frame = fuzz_copy(NULL, tg_codec_bound(c, n));
    tg_array ax = tg_array_f32(x, n);
    must(tg_codec_encode(c, number % 2 ? NULL : &ctx, &ax, frame, tg_codec_bound(c, n), &len) ==
             TG_OK,
         spec);
    seed_decoder(decode, number, frame, len);
    if (n == 20)
        put("fuzz_frame", name, number, frame, len);
    free(frame);
    tg_codec_destroy(c);
}

static void seed_codec(const tg__codec_ops *ops)
{
    static const size_t lengths[] = {1, 20, 130, 1100};
    char spec[CODEC_SPEC_MAX], decode[64];
    snprintf(decode, sizeof decode, "fuzz_codec_%s", file_name(ops->wire_id));
    put(decode, "empty", 0, "\0\0\1\0\0\0\0\0\0", FUZZ_DECODE_HEAD); /* also if no form is coded */
    size_t number = 0;
    for (size_t s = 0; codec_spec(&ops->entry, s, spec); s++)
        for (size_t l = 0; l < 2 * TG_COUNT(lengths); l++)
            seed_vector(ops, number++, s, spec, lengths[l / 2]);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void seed_index(int coding, const char *target)
{
    static const uint32_t gaps[] = {1, 3, 40, 1000};
    for (size_t g = 0; g < TG_COUNT(gaps); g++) {
        uint32_t idx[30], n;
        uint64_t random = g + 1;
        uint8_t bytes[10 + 8192];
        size_t k = 30;
        for (size_t i = 0; i < k; i++)
            idx[i] = (i > 0 ? idx[i - 1] + 1 : 0) + test_random(&random) % gaps[g];
        n = idx[k - 1] + 1 + (uint32_t)g;
        const tg__index_plan plan = tg__index_choose(coding, idx, k, n);
        if (plan.len > sizeof bytes - 10)
            continue;
        tg__index_write(&plan, idx, k, n, bytes + 10);
        bytes[0] = (uint8_t)plan.coding;
        bytes[1] = (uint8_t)(plan.param + 1);
        tg__put32(bytes + 2, n);
        tg__put32(bytes + 6, (uint32_t)k);
        put(target, "list", g, bytes, 10 + plan.len);
    }
}

static void seed_specs(void)
{
    size_t number = 0;
    for (int kind = 0; kind < TG_KIND_COUNT; kind++) {
        size_t count;
        const tg_entry *const *entries = tg_registry_entries((tg_kind)kind, &count);
        for (size_t i = 0; i < count; i++) {
            tg_spec *spec;
            if (tg_registry_parse((tg_kind)kind, entries[i]->name, &spec) != TG_OK)
                continue; /* it has a mandatory key */
            put("fuzz_spec", "spec", number++, tg_spec_text(spec), strlen(tg_spec_text(spec)));
            tg_spec_free(spec);
        }
    }
}

static void seed_envelopes(void)
{
    for (uint16_t flags = 0; flags < 3; flags++) {
        uint8_t msg[TG__ENVELOPE_BYTES + 20] = {0};
        tg__envelope e = {.session = 9, .step = 5, .sender = 3, .flags = flags, .slice = 1};
        tg__envelope_seal(msg, &e, 20);
        put("fuzz_envelope", "envelope", flags, msg, sizeof msg);
    }
}

/* A head, followed by random lies of all kinds. The first seed is honest; some are long, because
 * that limits the length that a fuzzer tries. */
static void seed_lies(const char *target, size_t number, const uint8_t *head, size_t len)
{
    uint8_t bytes[512];
    const size_t size = number % 16 == 5 ? sizeof bytes : 48;
    const tg_rng_key key = {.seed = 11, .purpose = TG_PURPOSE_TEST, .step = number};
    memcpy(bytes, head, len);
    for (size_t i = len; i < size; i++)
        bytes[i] = (uint8_t)(tg_rng_uniform(&key, i) * 256);
    put(target, "lies", number, bytes, number == 0 ? len : size);
}

static void seed_exchanges(void)
{
    size_t exchanges, codecs, number = 0;
    tg__exchanges(&exchanges);
    tg__codecs(&codecs);
    for (size_t x = 0; x < exchanges + 3; x++)
        for (size_t c = 0; c < codecs; c++) {
            const uint8_t head[] = {(uint8_t)x, (uint8_t)c, (uint8_t)(x % 3),
                                    x + c < 4 ? (uint8_t)(x + c) : 0, (uint8_t)(c + x)};
            seed_lies("fuzz_exchange", number++, head, sizeof head);
        }
}

static void seed_methods(void)
{
    size_t count, strategies, number = 0;
    (void)tg__method_entries(&count);
    for (size_t m = 0; m < count; m++)
        for (uint8_t i = 0; i < 4; i++) {
            const uint8_t head[] = {(uint8_t)m, i, (uint8_t)(m + i), i};
            seed_lies("fuzz_method", number++, head, sizeof head);
        }
    (void)tg_registry_entries(TG_KIND_STRATEGY, &strategies);
    for (size_t m = 0; m < count + strategies; m++) {
        const uint8_t which = (uint8_t)(m < count ? m : 128 + m - count);
        const uint8_t head[] = {(uint8_t)(m * 5), which, (uint8_t)(m % 8)};
        seed_lies("fuzz_session", m, head, sizeof head);
    }
}

/* Two messages about 96 elements, a matrix and a vector: the coding, and the next step's. */
static void seed_recoders(void)
{
    size_t count, number = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    const double density = 0.25, factor = 1;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[200] = {all[i]->wire_id, 0x10, 0, 0};
        const char *spec = all[i]->entry.name;
        const size_t len = strlen(spec);
        uint8_t *at = bytes + 4;
        memcpy(at, &density, 8);
        memcpy(at + 8, &factor, 8);
        tg__put32(at + 32, (uint32_t)len);
        tg__put32(at + 36, 2);
        memcpy(at + 40, spec, len);
        const uint32_t tensors[] = {64, 8, 8, 32, 32, 1};
        for (size_t k = 0; k < TG_COUNT(tensors); k++)
            tg__put32(at + 40 + len + 4 * k, tensors[k]);
        bytes[2] = (uint8_t)(40 + len + 24);
        at += bytes[2];
        const uint8_t next[] = {all[i]->wire_id, i % 2 ? 0x20 : 0, 16, 7};
        memcpy(at, next, sizeof next);
        memcpy(at + 4, bytes + 4, 16);
        put("fuzz_recoder", spec, number++, bytes, (size_t)(at + 20 - bytes));
    }
}

/* A vector in two pieces, and runs with two words each. */
static void seed_kept(void)
{
    uint8_t bytes[200];
    memset(bytes, 1, sizeof bytes);
    const uint8_t first[] = {0, 0, 10, 1, 0, 0, 160, 0}; /* 40 elements from 0 on */
    memcpy(bytes, first, sizeof first);
    put("fuzz_kept", "one", 0, bytes, 8 + 160);
    const uint8_t runs[] = {2 << 1, 25, 2, 2, 2, 0, 24, 0}; /* 8 elements from 100 on: 3, 5 */
    memcpy(bytes, runs, sizeof runs);
    tg__put32(bytes + 8, 3);
    tg__put32(bytes + 12, 5);
    put("fuzz_kept", "runs", 1, bytes, 8 + 24);
}

/* One image and its label, and the same with the last byte missing. */
static void seed_idx(void)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7},
                         images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28};
    uint8_t bytes[4 + sizeof labels + sizeof images + 784] = {0};
    tg__put32(bytes, sizeof labels);
    memcpy(bytes + 4, labels, sizeof labels);
    memcpy(bytes + 4 + sizeof labels, images, sizeof images);
    put("fuzz_idx", "files", 0, bytes, sizeof bytes);
    put("fuzz_idx", "files", 1, bytes, sizeof bytes - 1);
}

/* Headers of weight files, each followed by as many zeros as its tensors need. */
static void seed_weights(void)
{
    static const struct {
        const char *header;
        size_t data;
    } files[] = {
        {"{}", 0},
        {"{\"__metadata__\":{\"format\":\"pt\",\"\\u00e4\\ud83d\\udce0\":\"\\\"\\n\"}}  ", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24},
        {"{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},\"a\":{\"shape\":[],"
         "\"data_offsets\":[0,8],\"dtype\":\"I64\"},\"c\":{\"dtype\":\"F16\",\"shape\":[1,1],"
         "\"data_offsets\":[12,14]},\"d\":{\"dtype\":\"BOOL\",\"shape\":[0],\"data_offsets\":[14,"
         "14]}}",
         14},
    };
    uint8_t bytes[512];
    for (size_t i = 0; i < TG_COUNT(files); i++) {
        size_t n = strlen(files[i].header);
        memset(bytes, 0, sizeof bytes);
        tg__put64(bytes, n);
        memcpy(bytes + 8, files[i].header, n);
        put("fuzz_weights", "file", i, bytes, 8 + n + files[i].data);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        int coding;
        const char *target;
    } codings[] = {{TG__INDEX_RAW, "fuzz_index_raw"},
                   {TG__INDEX_BITMAP, "fuzz_index_bitmap"},
                   {TG__INDEX_RICE, "fuzz_index_rice"},
                   {TG__INDEX_EF, "fuzz_index_ef"}};
    _Static_assert(TG_COUNT(codings) == TG__INDEX_CODINGS, "each coding has a target");
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    must(mkdir(folder, 0777) == 0 || errno == EEXIST, folder);
    size_t count;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (size_t i = 0; i < count; i++)
        seed_codec(all[i]);
    for (size_t i = 0; i < TG_COUNT(codings); i++)
        seed_index(codings[i].coding, codings[i].target);
    seed_specs();
    seed_envelopes();
    seed_exchanges();
    seed_methods();
    seed_recoders();
    seed_kept();
    seed_idx();
    seed_weights();
    return 0;
}
