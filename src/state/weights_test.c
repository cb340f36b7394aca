/* Weights files: round trips, and only valid files are accepted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernel/kernel.h"
#include "state/state.h"
#include "state/weights_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/telegrad_weights_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

#define ODD_NAME "a \"b\\c\"\n\t\x01 \xc3\xa4\xf0\x9f\x93\xa0/"
static const size_t shape[][2] = {{2, 3}, {4, 0}, {0, 7}};
static float w[6] = {1, -2, 3.5f, 0, 1e-40f, -0.0f}, b[4] = {5, 6, 7, 8}, scalar[1] = {9};
static const tg_weights_tensor tensors[] = {{"fc.weight", shape[0], 2, w},
                                            {ODD_NAME, shape[1], 1, b},
                                            {"none", shape[2], 2, w},
                                            {"scalar", NULL, 0, scalar}};
enum { TENSORS = TG_COUNT(tensors) };

static tg__weights_mark write_file(void)
{
    const tg__weights_pair pairs[] = {
        {"step", "12"}, {"job", "a=b\nc=\"d\""}, {"broken", "x\xffy\xc3"}};
    tg__weights_mark mark;
    assert_int_equal(tg__weights_write(path, tensors, TENSORS, pairs, TG_COUNT(pairs), &mark),
                     TG_OK);
    return mark;
}

static uint8_t *slurp(size_t *len_p)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *bytes = malloc(1 << 16);
    *len_p = fread(bytes, 1, 1 << 16, file);
    fclose(file);
    return bytes;
}

static void comes_back(void **state)
{
    (void)state;
    const tg__weights_mark mark = write_file();
    size_t len;
    uint8_t *bytes = slurp(&len);
    assert_int_equal(mark.bytes, len);
    assert_int_equal(mark.crc, tg__kernel()->crc32c(0, bytes, len));
    assert_int_equal(tg__get64(bytes) % 8, 0);
    assert_int_equal(8 + tg__get64(bytes) + 11 * sizeof(float), len);
    free(bytes);
    tg_weights *f;
    assert_int_equal(tg_weights_open(path, &f), TG_OK);
    assert_string_equal(tg_weights_path(f), path);
    assert_string_equal(tg_weights_metadata(f, "step"), "12");
    assert_string_equal(tg_weights_metadata(f, "job"), "a=b\nc=\"d\"");
    assert_string_equal(tg_weights_metadata(f, "broken"), "x\xef\xbf\xbdy\xef\xbf\xbd");
    assert_null(tg_weights_metadata(f, "ste"));
    float w2[6] = {0}, b2[4] = {0}, scalar2[1] = {0};
    const tg_weights_tensor back[TENSORS] = {{"scalar", NULL, 0, scalar2},
                                             {ODD_NAME, shape[1], 1, b2},
                                             {"fc.weight", shape[0], 2, w2},
                                             {"none", shape[2], 2, NULL}};
    assert_int_equal(tg_weights_read(f, back, TENSORS, true), TG_OK);
    const tg_weights_tensor bad[] = {{"fc.weight", shape[0], 2, NULL},
                                     {"fc.weight", NULL, 2, w2},
                                     {"fc.weight", shape[0], 9, w2},
                                     {NULL, shape[0], 2, w2}};
    for (size_t i = 0; i < TG_COUNT(bad); i++)
        assert_int_equal(tg_weights_read(f, &bad[i], 1, false), TG_E_ARG);
    assert_memory_equal(w2, w, sizeof w);
    assert_memory_equal(b2, b, sizeof b);
    assert_memory_equal(scalar2, scalar, sizeof scalar);
    tg_weights_close(f);
    tg_weights_close(NULL);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    write_file();
    tg_weights *f;
    assert_int_equal(tg_weights_open(path, &f), TG_OK);
    float w2[6] = {0};
    const size_t turned[2] = {3, 2};
    tg_weights_tensor wants[2] = {{"fc.weight", shape[0], 2, w2}, {"fc.bias", shape[0], 1, w2}};
    assert_int_equal(tg_weights_read(f, wants, 2, false), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "no tensor \"fc.bias\": it has 4 others, such as"));
    wants[1] = (tg_weights_tensor){"fc.weight", turned, 2, w2};
    assert_int_equal(tg_weights_read(f, wants, 2, false), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "\"fc.weight\" has shape (2, 3), and (3, 2) in this model"));
    wants[1] = (tg_weights_tensor){ODD_NAME, turned, 1, w2};
    assert_int_equal(tg_weights_read(f, wants, 2, false), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "has shape (4,), and (3,) in this model"));
    assert_null(strchr(tg_error(), '\n'));
    assert_int_equal(tg_weights_read(f, wants, 1, true), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "unexpected tensor"));
    const float zeros[6] = {0};
    assert_memory_equal(w2, zeros, sizeof w2); /* all or nothing */
    assert_int_equal(tg_weights_read(f, wants, 1, false), TG_OK);
    assert_memory_equal(w2, w, sizeof w2);
    tg_weights_close(f);
    assert_int_equal(tg_weights_open("/nowhere/x", &f), TG_E_IO);
    assert_int_equal(tg_weights_open(dir, &f), TG_E_IO);
}

static void names_that_cannot_be_written(void **state)
{
    (void)state;
    const char *const names[] = {
        "\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "__metadata__"};
    for (size_t i = 0; i < TG_COUNT(names); i++) {
        const tg_weights_tensor t = {names[i], shape[1], 1, b};
        tg__weights_mark mark;
        assert_int_equal(tg__weights_write(path, &t, 1, NULL, 0, &mark), TG_E_ARG);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

/* Parse a file with this header and `data` zeros. */
static tg_status parse(const char *header, size_t data, tg_weights **f_p, uint8_t **bytes_p)
{
    const size_t n = strlen(header), len = 8 + n + data;
    uint8_t *bytes = calloc(len, 1); /* a separate allocation, so that a sanitizer sees its end */
    tg__put64(bytes, n);
    memcpy(bytes + 8, header, n);
    tg_status status = tg__weights_parse(bytes, len, "x", f_p);
    if (status == TG_OK)
        *bytes_p = bytes;
    else
        free(bytes);
    return status;
}

#define F(name, shape, from, to) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static const struct {
    const char *header;
    size_t data;
    const char *error; /* NULL: it is valid */
} headers[] = {
    {"{}", 0, NULL},
    {"{}  \n", 0, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
    {"{" F("a", "", "0", "4") "}", 4, NULL},
    {"{" F("a", "2", "4", "12") "," F("b", "1", "0", "4") "}", 12, NULL},
    {"{" F("a", "0,18446744073709551", "0", "0") "," F("b", "1", "0", "4") "}", 4, NULL},
    {"{ \"a\" :\t{ \"data_offsets\" : [ 0 , 2 ] , \"shape\" : [ 2 ] , \"dtype\" : \"U8\" } }", 2,
     NULL},
    {"{\"\\u0061\\uD83D\\uDCE0\\/\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
     NULL},
    {"", 2, "does not begin with {"},
    {" {}", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {"{", 1, "byte 1 of the header: expected a string"},
    {"{}x", 0, "byte 2 of the header: something follows"},
    {"{}", 1, "1 bytes of tensors, but the header ends at 0"},
    {"{\"a\"}", 0, "expected a colon"},
    {"{\"a\":1}", 0, "byte 5 of the header: expected an object"},
    {"{\"a\":{}}", 0, "expected a string"},
    {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor \"a\" has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "tensor \"a\" has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "field \"dtype\": allowed"},
    {"{\"a\":{\"type\":\"F32\"}}", 0, "field \"type\": allowed: dtype, shape, data_offsets"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[]}}", 0, "dtype \"F31\": allowed: F32"},
    {"{\"a\":{\"dtype\":4}}", 0, "expected a string"},
    {"{\"a\":{\"shape\":[1,]}}", 0, "a whole number, not negative"},
    {"{\"a\":{\"shape\":[1 1]}}", 0, "a comma or the closing"},
    {"{\"a\":{\"shape\":[[1]]}}", 0, "a whole number, not negative"},
    {"{\"a\":{\"shape\":[-1]}}", 0, "a whole number, not negative"},
    {"{\"a\":{\"shape\":[1.0]}}", 0, "not a whole number in its plain form"},
    {"{\"a\":{\"shape\":[1e3]}}", 0, "not a whole number in its plain form"},
    {"{\"a\":{\"shape\":[01]}}", 0, "not a whole number in its plain form"},
    {"{\"a\":{\"shape\":[18446744073709551616]}}", 0, "a number that does not fit in 64 bits"},
    {"{\"a\":{\"shape\":[18446744073709551615]}}", 0, "more elements than can be counted"},
    {"{\"a\":{\"shape\":[4294967296,4294967296]}}", 0, "more elements than can be counted"},
    {"{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1]}}", 0, "more than 8 dimensions"},
    {"{\"a\":{\"data_offsets\":[0]}}", 0, "a comma or the closing"},
    {"{\"a\":{\"data_offsets\":[0,1,2]}}", 0, "a comma or the closing"},
    {"{" F("a", "1", "0", "4") "}", 3, "data_offsets 0 to 4: allowed: in order, 0 to 3"},
    {"{" F("a", "1", "4", "0") "}", 4, "data_offsets 4 to 0: allowed: in order"},
    {"{" F("a", "2", "0", "4") "}", 4, "its shape in F32 has 8 bytes"},
    {"{" F("a", "1", "1", "5") "}", 5, "\"a\" begins at 1, but what is before it ends at 0"},
    {"{" F("a", "1", "0", "4") "," F("b", "1", "8", "12") "}", 12, "no holes"},
    {"{" F("a", "2", "0", "8") "," F("b", "1", "4", "8") "}", 8, "no overlaps"},
    {"{" F("a", "1", "0", "4") "," F("b", "1", "0", "4") "}", 4, "no overlaps"},
    {"{" F("a", "1", "0", "4") "," F("b", "1", "4", "8") "}", 9, "9 bytes of tensors"},
    {"{" F("a", "1", "0", "4") "," F("a", "1", "4", "8") "}", 8, "\"a\" occurs twice"},
    {"{" F("a", "1", "0", "4") "," F("\\u0061", "1", "4", "8") "}", 8, "\"a\" occurs twice"},
    {"{" F("a", "1", "0", "4") ",}", 4, "expected a string"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "\"a\" occurs twice"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, "expected a string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "more than one __metadata__"},
    {"{\"a", 0, "the header ends within a string"},
    {"{\"a\\", 0, "the header ends within a string"},
    {"{\"a\\x\":", 0, "an unknown escape"},
    {"{\"\\u12g4\":", 0, "four hexadecimal digits"},
    {"{\"\\u12", 0, "the header ends within a string"},
    {"{\"\\u0000\":", 0, "\\u0000 in a string"},
    {"{\"\\ud83d\":", 0, "an incomplete pair"},
    {"{\"\\ud83d\\u0041\":", 0, "an incomplete pair"},
    {"{\"\\udce0\":", 0, "an incomplete pair"},
    {"{\"\n\":", 0, "a control character"},
    {"{\"\xff\":", 0, "not UTF-8"},
    {"{\"\xc3\":", 0, "not UTF-8"},
    {"{\"\xe2\x82", 0, "not UTF-8"},
};

static void headers_are_read_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(headers); i++) {
        tg_weights *f = NULL;
        uint8_t *bytes = NULL;
        tg_status status = parse(headers[i].header, headers[i].data, &f, &bytes);
        if (status != (headers[i].error ? TG_E_CORRUPT : TG_OK) ||
            (headers[i].error && !strstr(tg_error(), headers[i].error)))
            fail_msg("%s: %s", headers[i].header, status == TG_OK ? "accepted" : tg_error());
        tg_weights_close(f);
        free(bytes);
    }
}

static void lengths_are_not_believed(void **state)
{
    (void)state;
    write_file();
    size_t len;
    uint8_t *bytes = slurp(&len);
    tg_weights *f = NULL;
    const uint64_t header = tg__get64(bytes),
                   lengths[] = {0,       1,          header - 8, header + 8,     len - 8,
                                len - 7, 100000001u, 1u << 31,   UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < TG_COUNT(lengths); i++) {
        tg__put64(bytes, lengths[i]);
        assert_int_equal(tg__weights_parse(bytes, len, "x", &f), TG_E_CORRUPT);
    }
    tg__put64(bytes, header);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        assert_int_equal(tg__weights_parse(part, cut, "x", &f), TG_E_CORRUPT);
        free(part);
    }
    assert_null(f);
    /* Some damage leaves a header valid (another name); nothing worse may happen. */
    for (size_t i = 0; i < 8 + header; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            if (tg__weights_parse(bytes, len, "x", &f) == TG_OK)
                tg_weights_close(f);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    free(bytes);
}

static void halves_are_widened(void **state)
{
    (void)state;
    static const char header[] =
        "{\"n\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[1,9]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[9,17]},"
        "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[17,25]}}";
    static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x7c00}, /* 1 -2 2^-24 inf */
        bf16[] = {0x3f80, 0xc000, 0x0001, 0x7f80};
    uint8_t *bytes = NULL;
    tg_weights *f = NULL;
    assert_int_equal(parse(header, 25, &f, &bytes), TG_OK);
    uint8_t *data = bytes + 8 + strlen(header);
    for (int i = 0; i < 4; i++) {
        tg__put16(data + 1 + 2 * i, half[i]);
        tg__put16(data + 9 + 2 * i, bf16[i]);
    }
    const size_t four = 4, one = 1;
    float h[4], b4[4], d[1];
    const tg_weights_tensor both[] = {
        {"h", &four, 1, h}, {"b", &four, 1, b4}, {"d", &one, 1, d}, {"n", NULL, 0, d}};
    assert_int_equal(tg_weights_read(f, both, 2, false), TG_OK);
    assert_true(h[0] == 1 && h[1] == -2 && h[2] == ldexpf(1, -24) && isinf(h[3]));
    assert_true(b4[0] == 1 && b4[1] == -2 && b4[2] == ldexpf(1, -133) && isinf(b4[3]));
    /* A counter beside them is ignored, but a floating-point tensor is not. */
    assert_int_equal(tg_weights_read(f, both, 2, true), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "unexpected tensor \"d\""));
    assert_int_equal(tg_weights_read(f, &both[2], 1, false), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "dtype F64: allowed: F32, F16, BF16"));
    assert_int_equal(tg_weights_read(f, &both[3], 1, false), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "dtype U8"));
    tg_weights_close(f);
    free(bytes);
}

static void only_files_of_their_length_are_read(void **state)
{
    (void)state;
    tg_weights *f;
    (void)write_file();
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* it must not be read */
    assert_int_equal(tg_weights_open(path, &f), TG_E_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60); /* ends a test that waits for a writer */
    assert_int_equal(tg_weights_open(path, &f), TG_E_IO);
    alarm(0);
    assert_non_null(strstr(tg_error(), "it is a FIFO, not a regular file"));
}

/* The file of rank 0, which is not read here. */
static void touch(const char *name)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* In a checkpoint every bit must match the mark in COMMIT. */
static void checkpoints_are_compared_with_their_mark(void **state)
{
    (void)state;
    char aside[160], command[400];
    assert_int_equal(tg__ckpt_dir_prepare(dir, 3, 0, 0, aside, sizeof aside), TG_OK);
    touch(aside);
    assert_int_equal(tg__ckpt_dir_weights_aside(dir, 3, path, sizeof path), TG_OK);
    const tg__weights_mark mark = write_file();
    assert_int_equal(tg__ckpt_dir_commit(dir, 3, 1, &(int){0}, 0, &mark), TG_OK);
    assert_int_equal(tg__ckpt_dir_weights(dir, 3, TG__WEIGHTS_SAVED, path, sizeof path), TG_OK);
    tg_weights *f;
    assert_int_equal(tg_weights_open_newest(dir, &f), TG_OK);
    assert_string_equal(tg_weights_path(f), path);
    tg_weights_close(f);
    size_t len;
    uint8_t *bytes = slurp(&len);
    for (size_t i = 0; i <= len; i++) {
        FILE *file = fopen(path, "wb");
        bytes[i % len] ^= (uint8_t)(i < len); /* the last time it is only truncated */
        assert_int_equal(fwrite(bytes, 1, len - (i == len), file), len - (i == len));
        fclose(file);
        bytes[i % len] ^= (uint8_t)(i < len);
        assert_int_equal(tg_weights_open_newest(dir, &f), TG_E_CORRUPT);
        assert_non_null(strstr(tg_error(), "COMMIT beside it says"));
        assert_int_equal(tg_weights_open(path, &f), TG_E_CORRUPT);
        assert_non_null(strstr(tg_error(), "COMMIT beside it says"));
    }
    free(bytes);
    snprintf(command, sizeof command, "rm %s", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(tg_weights_open_newest(dir, &f), TG_E_IO);
    assert_non_null(strstr(tg_error(), "model.safetensors"));
}

/* A file of weights that is given by name is compared, too, if a telegrad COMMIT lies beside it. */
static void a_file_is_compared_with_the_mark_beside_it(void **state)
{
    (void)state;
    static const struct {
        const char *commit;
        tg_status status;
    } cases[] = {{NULL, TG_OK},
                 {"", TG_OK},
                 {"0f3c2a the commit of another program\n", TG_OK},
                 {"telegrad checkpoint 2\nstep 3\n", TG_E_CORRUPT},
                 {"telegrad checkpoint 2\nstep 3\nmodel.safetensors 1 bytes, crc32c 00000000\n",
                  TG_E_CORRUPT}};
    char commit[sizeof path];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    snprintf(commit, sizeof commit, "%s/COMMIT", dir);
    (void)write_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_weights *f = NULL;
        if (cases[i].commit) {
            FILE *file = fopen(commit, "wb");
            assert_non_null(file);
            fputs(cases[i].commit, file);
            assert_int_equal(fclose(file), 0);
        }
        assert_int_equal(tg_weights_open(path, &f), cases[i].status);
        if (cases[i].status == TG_OK)
            tg_weights_close(f);
        else
            assert_non_null(strstr(tg_error(), "COMMIT"));
    }
}

/* Weights of the end that are damaged or gone are an error, and those that were saved are still
 * there. */
static void final_weights_that_are_gone_are_missed(void **state)
{
    (void)state;
    char aside[160], saved[sizeof path];
    tg_weights *f;
    assert_int_equal(tg__ckpt_dir_prepare(dir, 3, 0, 0, aside, sizeof aside), TG_OK);
    touch(aside);
    assert_int_equal(tg__ckpt_dir_weights_aside(dir, 3, path, sizeof path), TG_OK);
    tg__weights_mark mark = write_file();
    assert_int_equal(tg__ckpt_dir_commit(dir, 3, 1, &(int){0}, 0, &mark), TG_OK);
    assert_int_equal(tg__ckpt_dir_weights(dir, 3, TG__WEIGHTS_SAVED, saved, sizeof saved), TG_OK);
    assert_int_equal(tg__ckpt_dir_final_begin(dir, 3, path, sizeof path), TG_OK);
    mark = write_file();
    assert_int_equal(tg__ckpt_dir_final_commit(dir, 3, &mark), TG_OK);
    assert_int_equal(tg_weights_open_newest(dir, &f), TG_OK);
    assert_string_equal(tg_weights_path(f), path);
    tg_weights_close(f);
    touch(path); /* damaged: a resumed run does not need it */
    assert_int_equal(tg_weights_open_newest(dir, &f), TG_E_CORRUPT);
    assert_int_equal(tg_weights_open_saved(dir, &f), TG_OK);
    assert_string_equal(tg_weights_path(f), saved);
    tg_weights_close(f);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tg_weights_open_newest(dir, &f), TG_E_IO);
    assert_non_null(strstr(tg_error(), "final.safetensors"));
    assert_int_equal(tg_weights_open_saved(dir, &f), TG_OK);
    tg_weights_close(f);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(comes_back),
        IN_DIR(a_file_is_compared_with_the_mark_beside_it),
        IN_DIR(final_weights_that_are_gone_are_missed),
        IN_DIR(what_does_not_fit_is_named),
        IN_DIR(names_that_cannot_be_written),
        cmocka_unit_test(headers_are_read_strictly),
        IN_DIR(lengths_are_not_believed),
        cmocka_unit_test(halves_are_widened),
        IN_DIR(only_files_of_their_length_are_read),
        IN_DIR(checkpoints_are_compared_with_their_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
