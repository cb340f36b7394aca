/* CIFAR-10 and texts: intact, damaged and packed files; also the real sets, if present. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "trainer/data/data.h"
#ifdef TG_HAVE_LZMA
#include <lzma.h>
#endif

#define OK(expr) assert_int_equal((expr), TG_OK)

/* ---- a folder -------------------------------------------------------------------------------- */

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/telegrad-files-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_gz(const char *name, const void *bytes, size_t len)
{
    gzFile file = gzopen(path_of(name), "wb1");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len), len);
    assert_int_equal(gzclose(file), Z_OK);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* Open FORM, in which %s stands for the folder. */
static tg_status open_form(const char *form, train_data **d_p)
{
    char spec[256];
    snprintf(spec, sizeof spec, form, folder);
    return train_data_open(spec, 0, d_p);
}

static train_data *opened(const char *form)
{
    train_data *d;
    const tg_status status = open_form(form, &d);
    if (status != TG_OK)
        fail_msg("%s: %s", form, tg_error());
    return d;
}

static void refused(const char *form, tg_status status, const char *a, const char *b)
{
    train_data *d;
    assert_int_equal(open_form(form, &d), status);
    if (!strstr(tg_error(), a) || !strstr(tg_error(), b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", tg_error(), a, b);
}

/* ---- CIFAR-10 -------------------------------------------------------------------------------- */

enum { PLANE = CIFAR_SIDE * CIFAR_SIDE, RECORD = 1 + 3 * PLANE, RECORDS = 3 };

static uint8_t byte_of(int batch, int record, int channel, int at)
{
    return (uint8_t)(batch * 50 + record * 31 + channel * 97 + at * 7);
}

static size_t batch_bytes(int batch, uint8_t *b)
{
    for (int r = 0; r < RECORDS; r++) {
        *b++ = (uint8_t)((batch * RECORDS + r) % CIFAR_CLASSES);
        for (int i = 0; i < 3 * PLANE; i++)
            *b++ = byte_of(batch, r, i / PLANE, i % PLANE);
    }
    return RECORDS * RECORD;
}

static const char *batch_name(int batch)
{
    static char name[32];
    snprintf(name, sizeof name, batch ? "data_batch_%d.bin" : "test_batch.bin", batch);
    return name;
}

static void write_batches(void)
{
    uint8_t b[RECORDS * RECORD];
    for (int batch = 0; batch <= 5; batch++)
        write_file(batch_name(batch), b, batch_bytes(batch, b));
}

static void assert_image(const train_data *d, data_split split, size_t index, int batch, int record)
{
    static const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.2470, 0.2435, 0.2616};
    float x[3 * PLANE];
    int32_t label;
    data_sample(d, split, index, x, &label);
    assert_int_equal(label, (batch * RECORDS + record) % CIFAR_CLASSES);
    for (int at = 0; at < PLANE; at++) {
        for (int c = 0; c < 3; c++) {
            const double want = (byte_of(batch, record, c, at) / 255.0 - mean[c]) / deviation[c];
            assert_true(fabs((double)x[3 * at + c] - want) < 1e-5);
        }
    }
}

static void test_cifar(void **state)
{
    (void)state;
    write_batches();
    train_data *d = opened("cifar10:%s");
    assert_int_equal(train_data_train(d), 5 * RECORDS);
    assert_int_equal(train_data_test(d), RECORDS);
    assert_true(d->augment);
    for (int i = 0; i < 5 * RECORDS; i++)
        assert_image(d, DATA_TRAIN, (size_t)i, 1 + i / RECORDS, i % RECORDS);
    assert_image(d, DATA_TEST, 2, 0, 2);
    const model_input in = train_data_input(d, 9);
    assert_true(in.height == 32 && in.width == 32 && in.channels == 3 && in.context == 0 &&
                in.classes == 10);
    train_data_close(d);

    d = opened("cifar10:train=1+3-4,test=5+test,augment=none,dir=%s");
    assert_int_equal(train_data_train(d), 3 * RECORDS);
    assert_int_equal(train_data_test(d), 2 * RECORDS);
    assert_false(d->augment);
    assert_image(d, DATA_TRAIN, RECORDS, 3, 0);
    assert_image(d, DATA_TEST, 0, 5, 0);
    assert_image(d, DATA_TEST, RECORDS, 0, 0);
    train_data_close(d);

    unlink(path_of(batch_name(2)));
    train_data_close(opened("cifar10:%s,train=1"));
    refused("cifar10:%s", TG_E_IO, "data_batch_2.bin", ".xz can be read");
    refused("cifar10:%s,train=0", TG_E_SPEC, "train=0", "batches 1 to 5");
    refused("cifar10:%s,train=6", TG_E_SPEC, "train=6", "allowed");
    refused("cifar10:%s,train=3-1", TG_E_SPEC, "train=3-1", "allowed");
    refused("cifar10:%s,train=1+1", TG_E_SPEC, "train=1+1", "each once");
    refused("cifar10:%s,train=1-", TG_E_SPEC, "train=1-", "allowed");
    refused("cifar10:%s,train=1+", TG_E_SPEC, "train=1+", "allowed");
    refused("cifar10:%s,train=12", TG_E_SPEC, "train=12", "allowed");
    refused("cifar10:%s,test=testy", TG_E_SPEC, "test=testy", "allowed");
    refused("cifar10:%s,train=1-3,test=3", TG_E_SPEC, "train=1-3 and test=3", "in common");
}

static void test_cifar_damaged(void **state)
{
    (void)state;
    uint8_t b[RECORDS * RECORD];
    write_batches();
    size_t len = batch_bytes(4, b);
    write_file(batch_name(4), b, len - 1);
    refused("cifar10:%s", TG_E_CORRUPT, "data_batch_4.bin: record 2 has 3072 bytes",
            "expected 3073");
    write_file(batch_name(4), b, 0);
    refused("cifar10:%s", TG_E_CORRUPT, "data_batch_4.bin: record 0 has 0 bytes", "truncated");
    b[2 * RECORD] = 10;
    write_file(batch_name(4), b, len);
    refused("cifar10:%s", TG_E_CORRUPT, "data_batch_4.bin: label[2]=10", "expected 0 to 9");
    unlink(path_of(batch_name(4)));

    /* A small packed file that unpacks to more than any batch holds. */
    gzFile file = gzopen(path_of("data_batch_4.bin.gz"), "wb1");
    memset(b, 0, sizeof b);
    for (int i = 0; i < 3334; i++)
        assert_int_equal(gzwrite(file, b, sizeof b), sizeof b);
    assert_int_equal(gzclose(file), Z_OK);
    refused("cifar10:%s,train=4", TG_E_CORRUPT, "data_batch_4.bin.gz", "more than 10000 records");
}

/* ---- packed ---------------------------------------------------------------------------------- */

static void test_gz(void **state)
{
    (void)state;
    uint8_t b[RECORDS * RECORD];
    write_batches();
    train_data *plain = opened("cifar10:%s");
    const size_t len = batch_bytes(3, b);
    unlink(path_of(batch_name(3)));
    write_gz("data_batch_3.bin.gz", b, len);
    train_data *packed = opened("cifar10:%s");
    assert_true(train_data_hash(plain) == train_data_hash(packed));
    train_data_close(plain);
    train_data_close(packed);
    assert_int_equal(truncate(path_of("data_batch_3.bin.gz"), 100), 0);
    refused("cifar10:%s", TG_E_CORRUPT, "data_batch_3.bin.gz", "damaged or truncated gzip");
}

static void test_xz(void **state)
{
    (void)state;
    uint8_t b[RECORDS * RECORD];
    write_batches();
    const size_t len = batch_bytes(3, b);
#ifdef TG_HAVE_LZMA
    uint8_t xz[2 * sizeof b];
    size_t n = 0;
    train_data *plain = opened("cifar10:%s");
    assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, b, len, xz, &n, sizeof xz),
                     LZMA_OK);
    unlink(path_of(batch_name(3)));
    write_file("data_batch_3.bin.xz", xz, n);
    train_data *packed = opened("cifar10:%s");
    assert_true(train_data_hash(plain) == train_data_hash(packed));
    train_data_close(plain);
    train_data_close(packed);

    for (size_t cut = 0; cut < n; cut += 1 + cut / 2) {
        write_file("data_batch_3.bin.xz", xz, cut);
        refused("cifar10:%s", TG_E_CORRUPT, "data_batch_3.bin.xz", "truncated");
    }
    for (size_t at = 0; at < n; at += 1 + at / 2) {
        xz[at] ^= 0x10;
        write_file("data_batch_3.bin.xz", xz, n);
        refused("cifar10:%s", TG_E_CORRUPT, "data_batch_3.bin.xz", "xz data");
        xz[at] ^= 0x10;
    }
    write_file("data_batch_3.bin.xz", b, len);
    refused("cifar10:%s", TG_E_CORRUPT, "data_batch_3.bin.xz", "not an xz file");
#else
    unlink(path_of(batch_name(3)));
    write_file("data_batch_3.bin.xz", b, len);
    refused("cifar10:%s", TG_E_UNSUPPORTED, "data_batch_3.bin.xz", "no liblzma");
#endif
}

/* ---- characters ------------------------------------------------------------------------------ */

static void assert_tokens(const train_data *d, data_split split, const char *digits)
{
    const data_part *p = &d->view[split];
    assert_int_equal(p->count, strlen(digits));
    for (size_t i = 0; i < p->count; i++)
        assert_int_equal(p->tokens[i], digits[i] - '0');
}

/* The end of the training text; the numbers of its characters are those of the whole file. */
static void test_held_text(void **state)
{
    (void)state;
    char spec[128];
    train_data *d, *all;
    write_text("t", "banana\nband");
    snprintf(spec, sizeof spec, "text:%s/t,split=0.7", folder);
    OK(train_data_open(spec, 0, &all));
    OK(train_data_open(spec, 3, &d));
    assert_tokens(d, DATA_TRAIN, "2141");
    assert_tokens(d, DATA_TEST, "410");
    assert_int_equal(data_test_labels(d), 2);
    assert_int_equal(train_data_classes(d), 5);
    assert_true(train_data_hash(d) != train_data_hash(all));
    size_t samples;
    OK(train_data_samples(spec, 3, &samples));
    assert_int_equal(samples, 4);
    train_data_close(all);
    train_data_close(d);
    static const size_t wrong[] = {1, 6, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(train_data_open(spec, wrong[i], &d), TG_E_ARG);
        assert_non_null(strstr(tg_error(), "allowed: 0, or 2 to 5 (training tokens - 2)"));
    }
}

static void test_text(void **state)
{
    (void)state;
    write_text("t", "banana\nband");
    train_data *d = opened("text:%s/t,split=0.7");
    assert_true(train_data_unit(d) == TRAIN_CHARACTERS);
    assert_int_equal(train_data_classes(d), 5); /* \n a b d n */
    assert_tokens(d, DATA_TRAIN, "2141410");
    assert_tokens(d, DATA_TEST, "2143");
    assert_int_equal(data_test_labels(d), 3);
    const model_input in = train_data_input(d, 9);
    assert_true(in.context == 9 && in.classes == 5 && in.height == 0);
    train_data_close(d);

    write_text("t", "a\xc3\xa9\xe2\x82\xac"
                    "a\xf0\x9f\x98\x80\xc3\xa9"); /* a e' euro a smile e' */
    d = opened("text:split=0.5,file=%s/t");
    assert_tokens(d, DATA_TRAIN, "012");
    assert_tokens(d, DATA_TEST, "031");
    train_data_close(d);
    d = opened("text:%s/t,unit=bytes");
    assert_int_equal(train_data_train(d) + train_data_test(d), 13);
    train_data_close(d);

    static const struct {
        const char *text, *says;
    } bad[] = {
        {"abcd\xff", "byte 4 is 0xff"},
        {"abc\xc3", "byte 3 is 0xc3"},
        {"\xc0\xaf"
         "abc",
         "byte 0"},
        {"ab\xed\xa0\x80", "byte 2 is 0xed"},
        {"ab\xf4\x90\x80\x80", "byte 2"},
        {"a\xe2\x82"
         "bcd",
         "byte 1 is 0xe2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("t", bad[i].text);
        refused("text:%s/t,split=0.5", TG_E_CORRUPT, bad[i].says, "unit=bytes");
        train_data_close(opened("text:%s/t,split=0.5,unit=bytes"));
    }
    write_text("t", "");
    refused("text:%s/t", TG_E_ARG, "0 characters", "allowed: 2 and more");
    write_text("t", "abcdefgh");
    refused("text:%s/t", TG_E_ARG, "leaves 7 and 1", "allowed: 2 and more");
    refused("text:%s/t,split=1", TG_E_ARG, "leaves 8 and 0", "allowed");
    refused("text:%s/none", TG_E_IO, "none", "cannot open");
    refused("text:%s", TG_E_IO, folder, "is a folder: allowed: regular files");
}

/* ---- words ----------------------------------------------------------------------------------- */

static void test_words(void **state)
{
    (void)state;
    write_text("train.txt", " the cat\tsaw  the <unk>\r\n\n dog \n");
    write_text("test.txt", "the bird\nsaw dog"); /* no newline at the end, but an <eos> */
    write_text("valid.txt", "cat\n");
    train_data *d = opened("words:%s");
    assert_true(train_data_unit(d) == TRAIN_WORDS);
    assert_int_equal(train_data_classes(d), 6); /* the cat saw <unk> <eos> dog */
    assert_tokens(d, DATA_TRAIN, "012034454");
    assert_tokens(d, DATA_TEST, "034254");
    train_data_close(d);
    d = opened("words:%s,eval=valid");
    assert_tokens(d, DATA_TEST, "14");
    assert_int_equal(train_data_classes(d), 6);
    train_data_close(d);

    write_text("train.txt", "a b\nb a\n");
    write_text("test.txt", "a b\nb c d\n");
    refused("words:%s", TG_E_CORRUPT, "test.txt: line 2: \"c\" is not in the training text",
            "<unk>");
    write_text("test.txt", "");
    refused("words:%s", TG_E_CORRUPT, "test.txt: 0 words", "allowed: 2 to");
    unlink(path_of("test.txt"));
    refused("words:%s", TG_E_IO, folder, "neither test.txt nor wiki.test.tokens");
    write_text("wiki.test.tokens", "b b\n");
    unlink(path_of("train.txt"));
    write_gz("wiki.train.tokens.gz", "a b\n", 4);
    d = opened("words:%s");
    assert_tokens(d, DATA_TEST, "112");
    train_data_close(d);
}

/* Thousands of different words keep their numbers while the table grows. */
static void test_vocabulary(void **state)
{
    (void)state;
    enum { N = 20000 };
    FILE *file = fopen(path_of("train.txt"), "w");
    assert_non_null(file);
    for (int i = 0; i < 2 * N; i++)
        fprintf(file, "w%x ", i % N * 7919);
    fclose(file);
    write_text("test.txt", "w0 w1eef");
    train_data *d = opened("words:%s");
    assert_int_equal(train_data_classes(d), N + 1); /* plus the <eos> at the end */
    assert_int_equal(train_data_train(d), 2 * N + 1);
    for (int32_t i = 0; i < 2 * N; i++)
        assert_int_equal(d->view[DATA_TRAIN].tokens[i], i % N);
    assert_int_equal(train_data_test(d), 3);
    assert_int_equal(d->view[DATA_TEST].tokens[1], 1);
    assert_int_equal(d->view[DATA_TEST].tokens[2], N);
    train_data_close(d);
}

/* ---- the real sets --------------------------------------------------------------------------- */

static bool missing(const char *name)
{
    const char *path;
    if (train_data_find(name, &path))
        return false;
    print_message("SKIP: no %s in $TELEGRAD_DATA\n", name);
    return true;
}

static void test_real_texts(void **state)
{
    (void)state;
    train_data *d;
    if (missing("wikitext-2") || missing("shakespeare"))
        skip();
    OK(train_data_open("wikitext-2", 0, &d));
    assert_int_equal(train_data_train(d), 2088628);
    assert_int_equal(train_data_test(d), 245569);
    assert_int_equal(train_data_classes(d), 33278);
    train_data_close(d);
    OK(train_data_open("wikitext-2:eval=valid", 0, &d));
    assert_int_equal(train_data_test(d), 217646);
    train_data_close(d);
    OK(train_data_open("shakespeare", 0, &d));
    assert_int_equal(train_data_train(d) + train_data_test(d), 1115394);
    assert_int_equal(train_data_classes(d), 65);
    train_data_close(d);
}

static void test_real_cifar(void **state)
{
    (void)state;
    static const uint8_t train[] = {6, 9, 9, 4, 1, 1, 2, 7, 8, 3},
                         test[] = {3, 8, 8, 0, 6, 6, 1, 6, 3, 1};
    train_data *d;
    double sum[3] = {0}, squares[3] = {0};
    if (missing("cifar10"))
        skip();
#ifndef TG_HAVE_LZMA
    skip();
#endif
    OK(train_data_open("cifar10:train=1", 0, &d));
    assert_int_equal(train_data_train(d), 10000);
    assert_memory_equal(d->view[DATA_TRAIN].labels, train, sizeof train);
    assert_memory_equal(d->view[DATA_TEST].labels, test, sizeof test);
    const uint8_t *p = d->view[DATA_TRAIN].images;
    const double n = 10000.0 * PLANE;
    for (size_t i = 0; i < 10000u * 3 * PLANE; i++) {
        sum[i % 3] += p[i] / 255.0;
        squares[i % 3] += p[i] / 255.0 * (p[i] / 255.0);
    }
    for (int c = 0; c < 3; c++) { /* of one batch: close to those of all five, same order */
        assert_true(fabs(sum[c] / n - (double)d->set->mean[c]) < 0.004);
        const double mean = sum[c] / n, deviation = sqrt(squares[c] / n - mean * mean);
        assert_true(fabs(deviation - (double)d->set->deviation[c]) < 0.004);
    }
    train_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cifar, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cifar_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gz, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_xz, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vocabulary, set_up, tear_down),
        cmocka_unit_test(test_real_texts),
        cmocka_unit_test(test_real_cifar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
