/* IDX files, intact and damaged, and the generated digits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "trainer/data/data.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

/* ---- files ----------------------------------------------------------------------------------- */

enum { IMAGES = 5 };

typedef struct folder {
    char path[64];
} folder;

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void path_of(const folder *f, const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", f->path, name);
}

static void write_plain(const folder *f, const char *name, const uint8_t *bytes, size_t len)
{
    char path[256];
    path_of(f, name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_gz(const folder *f, const char *name, const uint8_t *bytes, size_t len)
{
    char path[256];
    path_of(f, name, path);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len), len);
    assert_int_equal(gzclose(file), Z_OK);
}

static void remove_file(const folder *f, const char *name)
{
    char path[256];
    path_of(f, name, path);
    unlink(path);
}

static size_t images_bytes(uint8_t *b)
{
    const uint8_t header[16] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 28, 0, 0, 0, 28};
    memcpy(b, header, 16);
    for (size_t i = 0; i < IMAGES * DATA_PIXELS; i++)
        b[16 + i] = (uint8_t)(i * 31 + i / 784);
    return 16 + IMAGES * DATA_PIXELS;
}

static size_t labels_bytes(uint8_t *b)
{
    const uint8_t bytes[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES, 9, 0, 3, 7, 1};
    memcpy(b, bytes, sizeof bytes);
    return sizeof bytes;
}

/* Make a folder with a complete set of plain files. */
static int set_up(void **state)
{
    static folder f;
    uint8_t b[16 + IMAGES * DATA_PIXELS];
    strcpy(f.path, "/tmp/telegrad-data-XXXXXX");
    if (!mkdtemp(f.path))
        return -1;
    for (int i = 0; i < 4; i++)
        write_plain(&f, names[i], b, i % 2 ? labels_bytes(b) : images_bytes(b));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    const folder *f = *state;
    char gz[64];
    for (int i = 0; i < 4; i++) {
        remove_file(f, names[i]);
        snprintf(gz, sizeof gz, "%s.gz", names[i]);
        remove_file(f, gz);
    }
    return rmdir(f->path);
}

/* NAME:PATH, the same with a key, and other keys after either. */
static void test_spec(void **state)
{
    static const char *const forms[] = {"mnist:%s", "mnist:dir=%s", "mnist:%s,augment=none",
                                        "mnist:augment=none,dir=%s"};
    const folder *f = *state;
    char odd[80], spec[160];
    snprintf(odd, sizeof odd, "%s/a, b=c", f->path); /* a blank and a comma, but no key */
    assert_int_equal(symlink(f->path, odd), 0);
    for (size_t i = 0; i < 2 * sizeof forms / sizeof *forms; i++) {
        const char *path = i % 2 ? f->path : odd;
        train_data *d;
        snprintf(spec, sizeof spec, forms[i / 2], path);
        OK(train_data_open(spec, 0, &d));
        assert_string_equal(train_data_origin(d), path);
        train_data_close(d);
    }
    unlink(odd);
}

static tg_status open_set(const folder *f, size_t holdout, train_data **d_p)
{
    char spec[128];
    snprintf(spec, sizeof spec, "mnist:%s", f->path);
    return train_data_open(spec, holdout, d_p);
}

/* Opening must fail with this status, and the message must contain all of these. */
static void assert_refused(const folder *f, tg_status status, const char *a, const char *b)
{
    train_data *d;
    assert_int_equal(open_set(f, 0, &d), status);
    if (!strstr(tg_error(), a) || !strstr(tg_error(), b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", tg_error(), a, b);
}

static void test_plain(void **state)
{
    const folder *f = *state;
    train_data *d;
    OK(open_set(f, 0, &d));
    assert_string_equal(train_data_name(d), "mnist");
    assert_string_equal(train_data_origin(d), f->path);
    assert_int_equal(train_data_train(d), IMAGES);
    assert_int_equal(train_data_test(d), IMAGES);
    float x[DATA_PIXELS];
    int32_t label;
    data_sample(d, DATA_TRAIN, 3, x, &label);
    assert_int_equal(label, 7);
    const double pixel = (uint8_t)((3 * 784 + 5) * 31 + 3);
    assert_true(fabs((double)x[5] - (pixel / 255 - 0.1307) / 0.3081) < 1e-5);
    train_data_close(d);
}

static void test_gz(void **state)
{
    const folder *f = *state;
    uint8_t b[16 + IMAGES * DATA_PIXELS];
    train_data *plain, *packed;
    OK(open_set(f, 0, &plain));
    for (int i = 0; i < 4; i++) {
        char gz[64];
        snprintf(gz, sizeof gz, "%s.gz", names[i]);
        remove_file(f, names[i]);
        write_gz(f, gz, b, i % 2 ? labels_bytes(b) : images_bytes(b));
    }
    OK(open_set(f, 0, &packed));
    assert_true(train_data_hash(plain) == train_data_hash(packed));
    train_data_close(plain);
    train_data_close(packed);

    /* A truncated gzip file, and one with a flipped bit. */
    char path[256];
    path_of(f, "train-images-idx3-ubyte.gz", path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long len = ftell(file);
    fseek(file, len / 2, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, len / 2, SEEK_SET);
    fputc(byte ^ 4, file);
    assert_int_equal(fclose(file), 0);
    assert_refused(f, TG_E_CORRUPT, "train-images-idx3-ubyte.gz", "gzip");
    write_gz(f, "train-images-idx3-ubyte.gz", b, images_bytes(b));
    assert_int_equal(truncate(path, len - 3), 0);
    assert_refused(f, TG_E_CORRUPT, "train-images-idx3-ubyte.gz", "truncated");
}

static void test_holdout(void **state)
{
    const folder *f = *state;
    train_data *d, *all;
    OK(open_set(f, 2, &d));
    OK(open_set(f, 0, &all));
    assert_int_equal(train_data_train(d), 3);
    assert_int_equal(train_data_test(d), 2);
    assert_true(train_data_hash(d) != train_data_hash(all));
    float x[DATA_PIXELS], y[DATA_PIXELS];
    int32_t a, b;
    data_sample(d, DATA_TEST, 1, x, &a);
    data_sample(all, DATA_TRAIN, 4, y, &b);
    assert_int_equal(a, b);
    assert_memory_equal(x, y, sizeof x);
    train_data_close(d);
    train_data_close(all);
    assert_int_equal(open_set(f, IMAGES, &d), TG_E_ARG);
}

static void test_damaged(void **state)
{
    const folder *f = *state;
    uint8_t b[16 + IMAGES * DATA_PIXELS + 1];
    size_t len = images_bytes(b);
    write_plain(f, names[0], b, len - 1);
    assert_refused(f, TG_E_CORRUPT, names[0], "3919 bytes of data, expected 3920");
    write_plain(f, names[0], b, 9);
    assert_refused(f, TG_E_CORRUPT, names[0], "header of 9 bytes, expected 16");
    b[len] = 0;
    write_plain(f, names[0], b, len + 1);
    assert_refused(f, TG_E_CORRUPT, names[0], "trailing");
    b[3] = 1;
    write_plain(f, names[0], b, len);
    assert_refused(f, TG_E_CORRUPT, "magic=0x00000801", "expected 0x00000803");
    len = images_bytes(b);
    b[7] = 0;
    write_plain(f, names[0], b, len);
    assert_refused(f, TG_E_CORRUPT, "count=0", "expected 1 to");
    b[4] = 0xff;
    write_plain(f, names[0], b, len);
    assert_refused(f, TG_E_CORRUPT, "count=4278190080", "expected");
    len = images_bytes(b);
    b[6] = 0x70; /* refused before any of the body is read: it must not allocate what does not
                    exist */
    write_plain(f, names[0], b, len);
    assert_refused(f, TG_E_CORRUPT, "count=28677", "expected 5 as there are labels");
    len = images_bytes(b);
    b[11] = 32;
    write_plain(f, names[0], b, len);
    assert_refused(f, TG_E_CORRUPT, "32 x 28", "28 x 28");
    len = images_bytes(b);
    write_plain(f, names[0], b, len);

    len = labels_bytes(b);
    b[9] = 10;
    write_plain(f, names[3], b, len);
    assert_refused(f, TG_E_CORRUPT, "label[1]=10", names[3]);
    len = labels_bytes(b);
    b[7] = IMAGES - 1;
    write_plain(f, names[3], b, len - 1);
    assert_refused(f, TG_E_CORRUPT, "count=5, expected 4", names[2]);
    const uint8_t million[8] = {0, 0, 8, 1, 0, 0x0f, 0x42, 0x41}; /* one million and one */
    write_plain(f, names[3], million, sizeof million);
    assert_refused(f, TG_E_CORRUPT, "count=1000001, expected 1 to 1000000", names[3]);
}

/* A few kilobytes of gzip that contain what their header says: 40,000 images, 31 MB. */
static void test_bomb(void **state)
{
    const folder *f = *state;
    char path[256];
    static const uint8_t zeros[DATA_PIXELS * 100];
    const uint8_t header[16] = {0, 0, 8, 3, 0, 0, 0x9c, 0x40, 0, 0, 0, 28, 0, 0, 0, 28};
    remove_file(f, names[0]);
    path_of(f, "train-images-idx3-ubyte.gz", path);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, header, sizeof header), sizeof header);
    for (int i = 0; i < 400; i++)
        assert_int_equal(gzwrite(file, zeros, sizeof zeros), sizeof zeros);
    assert_int_equal(gzclose(file), Z_OK);
    assert_refused(f, TG_E_CORRUPT, "count=40000", "expected 5 as there are labels");
    /* Truncated after the header: the message would differ if the body were read. */
    assert_int_equal(truncate(path, 100), 0);
    assert_refused(f, TG_E_CORRUPT, "count=40000", "expected 5 as there are labels");
}

static void test_missing(void **state)
{
    const folder *f = *state;
    remove_file(f, names[3]);
    assert_refused(f, TG_E_IO, f->path, names[3]);
    train_data *d;
    static const struct {
        const char *spec, *says;
    } refused[] = {
        {"cifar", "fashion-mnist, glyphs, cifar10"},
        {"mnist:", "a key or a path is missing after the colon"},
        {"glyphs:seed=1,", "a key is missing after the last comma"},
        {"mnist:,augment=none", "an empty path"},
        {"mnist:dir=", "an empty path"},
        {"mnist:/x,dir=/y", "two paths, /x and /y"},
        {"mnist:/x,augment=flip", "allowed: none, crop-flip"},
        {"mnist:/x,size=3", "unknown key \"size\""},
        {"glyphs:train=0", "allowed: 1 <= train"},
        {"glyphs:/x", "generated"},
        {"text", "allowed: text:file=PATH"},
        {"words", "allowed: words:dir=PATH"},
        {"words:/x,eval=all", "allowed: test, valid"},
        {"text:/x,split=0", "allowed: 0 < split <= 1"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(train_data_open(refused[i].spec, 0, &d), TG_E_SPEC);
        if (!strstr(tg_error(), refused[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", refused[i].spec, tg_error(),
                     refused[i].says);
    }
}

static void test_find(void **state)
{
    const folder *f = *state;
    char named[128], wanted[128];
    const char *dir;
    /* $TELEGRAD_DATA/mnist is a link to the folder. */
    snprintf(named, sizeof named, "%s/mnist", f->path);
    assert_int_equal(symlink(f->path, named), 0);
    assert_int_equal(setenv("TELEGRAD_DATA", f->path, 1), 0);
    assert_true(train_data_find("mnist", &dir));
    assert_string_equal(dir, named);
    assert_false(train_data_find("fashion-mnist", &dir));
    assert_false(train_data_find("cifar", &dir));
    train_data *d;
    OK(train_data_open("mnist", 0, &d));
    train_data_close(d);
    assert_int_equal(train_data_open("fashion-mnist", 0, &d), TG_E_IO);
    snprintf(wanted, sizeof wanted, "%s/fashion-mnist", f->path);
    assert_non_null(strstr(tg_error(), wanted));
    assert_non_null(strstr(tg_error(), "data/fashion-mnist"));
    assert_true(train_data_find("glyphs", &dir));
    assert_string_equal(dir, "generated");
    unsetenv("TELEGRAD_DATA");
    unlink(named);
}

/* ---- generated digits ------------------------------------------------------------------------ */

#define GLYPHS_HASH UINT64_C(0x6b1986d0b0f0b712)

static void test_glyphs(void **state)
{
    (void)state;
    train_data *a, *b, *c;
    OK(train_data_open("glyphs:train=200,test=50", 0, &a));
    /* Every machine draws these bytes; another drawing would change published figures. */
    if (train_data_hash(a) != GLYPHS_HASH)
        fail_msg("hash 0x%016llx", (unsigned long long)train_data_hash(a));
    size_t count[DATA_CLASSES] = {0};
    float x[DATA_PIXELS], y[DATA_PIXELS];
    int32_t label, other;
    for (size_t i = 0; i < 200; i++) {
        data_sample(a, DATA_TRAIN, i, x, &label);
        count[label]++;
    }
    for (size_t i = 0; i < DATA_CLASSES; i++)
        assert_int_equal(count[i], 20);

    /* A longer set begins with the shorter one; other seeds and the test set differ. */
    OK(train_data_open("glyphs:train=300,test=50", 0, &b));
    OK(train_data_open("glyphs:train=200,test=50,seed=2", 0, &c));
    data_sample(a, DATA_TRAIN, 123, x, &label);
    data_sample(b, DATA_TRAIN, 123, y, &other);
    assert_memory_equal(x, y, sizeof x);
    data_sample(c, DATA_TRAIN, 123, y, &other);
    assert_true(memcmp(x, y, sizeof x) != 0);
    data_sample(a, DATA_TRAIN, 3, x, &label);
    data_sample(a, DATA_TEST, 3, y, &other);
    assert_true(memcmp(x, y, sizeof x) != 0);
    train_data_close(a);
    train_data_close(b);
    train_data_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gz, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_holdout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bomb, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_find, set_up, tear_down),
        cmocka_unit_test(test_glyphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
