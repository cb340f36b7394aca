/* Where data are looked for, which files of a set are required, and what is not a data file. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "trainer/data/data.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

/* $TELEGRAD_DATA */
static char folder[64], logged[1024];

static void on_log(void *arg, tg_log_level level, const char *message)
{
    (void)arg;
    assert_int_equal(level, TG_LOG_WARN);
    snprintf(logged, sizeof logged, "%s", message);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/telegrad-places-XXXXXX");
    logged[0] = '\0';
    tg_log_set(on_log, NULL);
    return mkdtemp(folder) && setenv("TELEGRAD_DATA", folder, 1) == 0 ? 0 : -1;
}

static int drop(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
    (void)s;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    tg_log_set(NULL, NULL);
    unsetenv("TELEGRAD_DATA");
    return nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Write `size` zero bytes. */
static void write_zeros(const char *name, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void refused(const char *spec, tg_status status, const char *a, const char *b)
{
    train_data *d;
    assert_int_equal(train_data_open(spec, 0, &d), status);
    if (!strstr(tg_error(), a) || !strstr(tg_error(), b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", tg_error(), a, b);
}

static void test_files_asked_for(void **state)
{
    (void)state;
    train_data *d;
    mkdir(path_of("cifar-10"), 0755);
    write_zeros("cifar-10/data_batch_1.bin", 3 * 3073);
    write_zeros("cifar-10/data_batch_2.bin", 10000 * 3073);
    refused("cifar10", TG_E_IO, path_of("cifar-10"), "batches asked for");
    refused("cifar10:train=1,test=7", TG_E_SPEC, "test=7", "batches 1 to 5");
    OK(train_data_open("cifar10:train=1,test=2", 0, &d));
    assert_int_equal(train_data_train(d), 3);
    train_data_close(d);

    mkdir(path_of("wikitext-2"), 0755);
    write_text("wikitext-2/train.txt", "a b c\n");
    write_text("wikitext-2/valid.txt", "b a\n");
    refused("wikitext-2", TG_E_IO, path_of("wikitext-2"), "{train,test}.txt");
    OK(train_data_open("wikitext-2:eval=valid", 0, &d));
    train_data_close(d);
}

static void test_short_batches(void **state)
{
    (void)state;
    data_part part = {NULL, NULL, NULL, 0};
    write_zeros("whole", 10000 * 3073);
    OK(cifar_append(path_of("whole"), &part));
    assert_string_equal(logged, "");
    write_zeros("cut", 9999 * 3073);
    OK(cifar_append(path_of("cut"), &part));
    assert_int_equal(part.count, 19999);
    assert_non_null(strstr(logged, path_of("cut")));
    assert_non_null(strstr(logged, "9999 records, and CIFAR-10's files have 10000"));
    data_part_free(&part);
}

static void test_special_files(void **state)
{
    (void)state;
    char spec[300];
    refused("text:/dev/zero", TG_E_IO, "/dev/zero is a device", "allowed: regular files");
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0); /* opening it would wait for a writer */
    snprintf(spec, sizeof spec, "text:%s", path_of("fifo"));
    refused(spec, TG_E_IO, "is a pipe", "allowed: regular files");
    mkdir(path_of("mnist"), 0755);
    assert_int_equal(mkfifo(path_of("mnist/train-labels-idx1-ubyte"), 0600), 0);
    snprintf(spec, sizeof spec, "mnist:%s", path_of("mnist"));
    refused(spec, TG_E_IO, "is a pipe", "allowed: regular files");
}

static void test_keys_of_paths(void **state)
{
    (void)state;
    refused("cifar10:folder=/x", TG_E_SPEC, "allowed: train, test, augment", "; dir=PATH");
    refused("text:dir=/x", TG_E_SPEC, "allowed: split, unit", "; file=PATH");
    refused("glyphs:size=3", TG_E_SPEC, "allowed: train, test, seed, augment", "glyphs");
    assert_null(strstr(tg_error(), "PATH")); /* it has no files */
}

static void test_unusable(void **state)
{
    (void)state;
    char text[1400];
    const char *path;
    assert_false(train_data_unusable("mnist", text, sizeof text)); /* there is nothing at all */
    mkdir(path_of("mnist"), 0755);
    write_zeros("mnist/train-labels-idx1-ubyte", 100);
    assert_false(train_data_find("mnist", &path));
    assert_true(train_data_unusable("mnist", text, sizeof text));
    assert_non_null(strstr(text, path_of("mnist")));
    assert_non_null(strstr(text, "is no folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte"));
    assert_int_equal(symlink("nowhere", path_of("fashion-mnist")), 0);
    assert_true(train_data_unusable("fashion-mnist", text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_special_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_of_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unusable, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
