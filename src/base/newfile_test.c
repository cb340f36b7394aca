/* Files written aside. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96], tmp[100];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/telegrad_newfile_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(tmp);
    return rmdir(dir);
}

static bool exists(const char *name)
{
    return access(name, F_OK) == 0;
}

static void write_file(const char *text)
{
    tg__newfile f;
    assert_int_equal(tg__newfile_open(&f, path), TG_OK);
    assert_true(fputs(text, f.file) >= 0);
    assert_int_equal(tg__newfile_commit(&f), TG_OK);
}

static void assert_content(const char *want)
{
    char got[64];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(got, 1, sizeof got, file);
    fclose(file);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(got, want, len);
}

static void commit_replaces(void **state)
{
    (void)state;
    write_file("old");
    assert_content("old");
    tg__newfile f;
    assert_int_equal(tg__newfile_open(&f, path), TG_OK);
    assert_true(fputs("new", f.file) >= 0);
    fflush(f.file);
    assert_content("old"); /* until the commit */
    assert_true(exists(tmp));
    assert_int_equal(tg__newfile_commit(&f), TG_OK);
    assert_content("new");
    assert_false(exists(tmp));
}

static void abandon_keeps_the_old(void **state)
{
    (void)state;
    write_file("old");
    tg__newfile f;
    assert_int_equal(tg__newfile_open(&f, path), TG_OK);
    assert_true(fputs("new", f.file) >= 0);
    tg__newfile_abandon(&f);
    assert_content("old");
    assert_false(exists(tmp));
}

static void open_fails(void **state)
{
    (void)state;
    tg__newfile f;
    char missing[128];
    snprintf(missing, sizeof missing, "%s/no/file", dir);
    assert_int_equal(tg__newfile_open(&f, missing), TG_E_IO);
    assert_non_null(strstr(tg_error(), missing));
    assert_non_null(strstr(tg_error(), "No such file"));
}

static void rename_fails(void **state)
{
    (void)state;
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    tg__newfile f;
    assert_int_equal(tg__newfile_open(&f, path), TG_OK);
    assert_int_equal(tg__newfile_commit(&f), TG_E_IO);
    assert_non_null(strstr(tg_error(), path));
    assert_false(exists(tmp));
    assert_int_equal(rmdir(path), 0);
}

/* A full disk is noticed, whenever the bytes meet it. */
static void write_fails(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        tg__newfile f;
        assert_int_equal(tg__newfile_open(&f, path), TG_OK);
        FILE *full = freopen("/dev/full", "wb", f.file);
        assert_ptr_equal(full, f.file);
        assert_true(fputs("bytes", f.file) >= 0);
        if (early)
            assert_int_not_equal(fflush(f.file), 0);
        assert_int_equal(tg__newfile_commit(&f), TG_E_IO);
        assert_non_null(strstr(tg_error(), "cannot write"));
        assert_false(exists(tmp));
        assert_false(exists(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commit_replaces), cmocka_unit_test(abandon_keeps_the_old),
        cmocka_unit_test(open_fails),      cmocka_unit_test(rename_fails),
        cmocka_unit_test(write_fails),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
