/* Files written aside and renamed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(path, &f), TG_OK);
    assert_true(fputs(text, tg_newfile_stream(f)) >= 0);
    assert_int_equal(tg_newfile_commit(f), TG_OK);
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
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(path, &f), TG_OK);
    assert_true(fputs("new", tg_newfile_stream(f)) >= 0);
    fflush(tg_newfile_stream(f));
    assert_content("old"); /* until the commit */
    assert_true(exists(tmp));
    assert_int_equal(tg_newfile_commit(f), TG_OK);
    assert_content("new");
    assert_false(exists(tmp));
}

static void abandon_keeps_the_old(void **state)
{
    (void)state;
    write_file("old");
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(path, &f), TG_OK);
    assert_true(fputs("new", tg_newfile_stream(f)) >= 0);
    tg_newfile_abandon(f);
    assert_content("old");
    assert_false(exists(tmp));
}

static void open_fails(void **state)
{
    (void)state;
    tg_newfile *f;
    char missing[128];
    snprintf(missing, sizeof missing, "%s/no/file", dir);
    assert_int_equal(tg_newfile_open(missing, &f), TG_E_IO);
    assert_non_null(strstr(tg_error(), missing));
    assert_non_null(strstr(tg_error(), "No such file"));
}

FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);

static bool no_stream; /* of this process, for want of memory */

FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return no_stream ? NULL : __real_fopencookie(cookie, mode, functions);
}

/* Nothing stays of a file that could not be opened. */
static void memory_is_short(void **state)
{
    (void)state;
    tg_newfile *f;
    no_stream = true;
    assert_int_equal(tg_newfile_open(path, &f), TG_E_IO);
    no_stream = false;
    assert_non_null(strstr(tg_error(), "Cannot allocate memory"));
    assert_false(exists(tmp));
}

static void rename_fails(void **state)
{
    (void)state;
    unlink(path);
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(path, &f), TG_OK);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tg_newfile_commit(f), TG_E_IO);
    assert_non_null(strstr(tg_error(), path));
    assert_false(exists(tmp));
    assert_int_equal(tg_newfile_open(path, &f), TG_E_IO); /* a directory is detected at once */
    assert_non_null(strstr(tg_error(), "directory"));
    assert_int_equal(rmdir(path), 0);
}

/* A full disk is reported, whenever it affects the bytes; a limit of the size of files does not end
 * the program. */
static void write_fails(void **state)
{
    (void)state;
    struct rlimit old;
    sigset_t pending;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (int early = 0; early < 2; early++) {
        tg_newfile *f;
        const struct rlimit least = {.rlim_cur = 1, .rlim_max = old.rlim_max};
        assert_int_equal(tg_newfile_open(path, &f), TG_OK);
        assert_true(fputs("bytes", tg_newfile_stream(f)) >= 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
        const bool failed = early && fflush(tg_newfile_stream(f)) != 0;
        const tg_status status = tg_newfile_commit(f);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_true(failed || !early);
        assert_int_equal(status, TG_E_IO);
        assert_non_null(strstr(tg_error(), "cannot write"));
        assert_non_null(strstr(tg_error(), "File too large")); /* also if it failed before */
        assert_false(exists(tmp));
        assert_false(exists(path));
    }
    assert_int_equal(sigpending(&pending), 0); /* nor is the signal left to the program */
    assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
}

static void write_at(const char *name, const char *text)
{
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(name, &f), TG_OK);
    assert_true(fputs(text, tg_newfile_stream(f)) >= 0);
    assert_int_equal(tg_newfile_commit(f), TG_OK);
}

static bool is_link(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(name, &info), 0);
    return S_ISLNK(info.st_mode);
}

/* Links stay, including one to a file that does not exist yet and one into another directory. */
static void links_stay(void **state)
{
    (void)state;
    char sub[96], near[112], far[112];
    unlink(path);
    snprintf(sub, sizeof sub, "%s/sub", dir);
    snprintf(near, sizeof near, "%s/near", sub);
    snprintf(far, sizeof far, "%s/far", sub);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(symlink("../file", near), 0); /* relative to where the link is */
    assert_int_equal(symlink(near, far), 0);
    for (int i = 0; i < 2; i++) {
        write_at(far, i ? "second" : "first");
        assert_content(i ? "second" : "first");
        assert_true(is_link(near) && is_link(far));
    }
    tg_newfile *f;
    assert_int_equal(tg_newfile_open(far, &f), TG_OK);
    assert_true(exists(tmp)); /* beside the file, so that the rename stays within its directory */
    tg_newfile_abandon(f);
    assert_false(exists(tmp));
    assert_int_equal(unlink(near), 0);
    assert_int_equal(symlink(far, near), 0); /* a ring */
    assert_int_equal(tg_newfile_open(far, &f), TG_E_IO);
    assert_non_null(strstr(tg_error(), far));
    unlink(near);
    unlink(far);
    assert_int_equal(rmdir(sub), 0);
}

static void no_regular_file(void **state)
{
    (void)state;
    char got[8];
    tg_newfile *f;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tg_newfile_open(path, &f), TG_E_IO); /* at once: it has no reader */
    assert_non_null(strstr(tg_error(), "a FIFO that no process reads"));
    assert_int_equal(tg_newfile_open_growing(path, false, &f), TG_E_IO);
    assert_non_null(strstr(tg_error(), "a FIFO that no process reads"));
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    write_at(path, "text");
    assert_int_equal(read(fd, got, sizeof got), 4);
    assert_memory_equal(got, "text", 4);
    close(fd);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_false(exists(tmp));
    unlink(path);
    assert_int_equal(symlink("/dev/full", path), 0); /* even where it could be replaced */
    assert_int_equal(tg_newfile_open(path, &f), TG_OK);
    assert_true(fputs("bytes", tg_newfile_stream(f)) >= 0);
    assert_int_equal(tg_newfile_commit(f), TG_E_IO);
    assert_non_null(strstr(tg_error(), "cannot write /dev/full"));
    assert_true(exists("/dev/full"));
    unlink(path);
}

/* Standard output redirected to a regular file: output printed before and after is kept. */
static void own_output(void **state)
{
    (void)state;
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), kept = dup(STDOUT_FILENO);
    assert_true(file >= 0 && kept >= 0);
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    bool written = write(STDOUT_FILENO, "before ", 7) == 7;
    tg_newfile *f;
    tg_status opened = tg_newfile_open("/proc/self/fd/1", &f);
    if (opened == TG_OK) {
        fputs("file ", tg_newfile_stream(f));
        opened = tg_newfile_commit(f);
    }
    written = written && write(STDOUT_FILENO, "after", 5) == 5;
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(file);
    assert_int_equal(opened, TG_OK);
    assert_true(written);
    assert_content("before file after");
    assert_false(exists(tmp));
}

/* No two writers may write the same file, and what one has written stays. */
static void one_writer(void **state)
{
    (void)state;
    tg_newfile *first, *second = NULL;
    unlink(path);
    for (int append = 0; append < 2; append++) {
        assert_int_equal(tg_newfile_check_growing(path), TG_OK);
        assert_int_equal(tg_newfile_open_growing(path, append, &first), TG_OK);
        assert_true(fputs("line\n", tg_newfile_stream(first)) >= 0);
        assert_int_equal(fflush(tg_newfile_stream(first)), 0);
        for (int also = 0; also < 2; also++) {
            assert_int_equal(tg_newfile_open_growing(path, also, &second), TG_E_IO);
            assert_null(second);
            assert_non_null(strstr(tg_error(), path));
            assert_non_null(strstr(tg_error(), "another run is writing it"));
        }
        assert_int_equal(tg_newfile_check_growing(path), TG_E_IO);
        assert_non_null(strstr(tg_error(), "another run is writing it"));
        assert_int_equal(tg_newfile_commit(first), TG_OK);
        assert_content(append ? "line\nline\n" : "line\n");
    }
    assert_int_equal(tg_newfile_open_growing(path, false, &first), TG_OK);
    tg_newfile_abandon(first);
    assert_content("");
}

/* Another program may copy the file and empty it: what follows begins at its start. */
static void emptied_by_another(void **state)
{
    (void)state;
    for (int append = 0; append < 2; append++) {
        tg_newfile *f;
        unlink(path);
        assert_int_equal(tg_newfile_open_growing(path, append, &f), TG_OK);
        assert_true(fputs("first\n", tg_newfile_stream(f)) >= 0);
        assert_int_equal(fflush(tg_newfile_stream(f)), 0);
        assert_int_equal(truncate(path, 0), 0);
        assert_true(fputs("second\n", tg_newfile_stream(f)) >= 0);
        assert_int_equal(tg_newfile_commit(f), TG_OK);
        assert_content("second\n");
    }
}

static void *look_often(void *end)
{
    while (!atomic_load((atomic_bool *)end)) {
        const tg_status looked = tg_newfile_check_growing(path); /* refused while it is open */
        (void)looked;
    }
    return NULL;
}

/* Looking whether a file could be opened never keeps anyone from opening it. */
static void looking_takes_no_lock(void **state)
{
    (void)state;
    atomic_bool end = false;
    pthread_t thread;
    tg_newfile *f;
    unlink(path);
    assert_int_equal(tg_newfile_open_growing(path, false, &f), TG_OK);
    assert_int_equal(tg_newfile_commit(f), TG_OK);
    assert_int_equal(pthread_create(&thread, NULL, look_often, &end), 0);
    for (int i = 0; i < 20000; i++) {
        if (tg_newfile_open_growing(path, true, &f) != TG_OK)
            fail_msg("%d: %s", i, tg_error());
        tg_newfile_abandon(f);
    }
    atomic_store(&end, true);
    pthread_join(thread, NULL);
}

/* What another run writes after the check and before the opening is not lost. */
static void another_comes_between(void **state)
{
    (void)state;
    tg_newfile *first, *second = NULL;
    unlink(path);
    assert_int_equal(tg_newfile_check_growing(path), TG_OK);
    assert_int_equal(tg_newfile_open_growing(path, false, &first), TG_OK);
    assert_true(fputs("first\n", tg_newfile_stream(first)) >= 0);
    assert_int_equal(fflush(tg_newfile_stream(first)), 0);
    assert_int_equal(tg_newfile_open_growing(path, false, &second), TG_E_IO);
    assert_null(second);
    assert_int_equal(tg_newfile_commit(first), TG_OK);
    assert_content("first\n");
}

/* The same for files that are replaced: the second writer is refused, and the file that the first
 * one completes is its own. If its temporary file is taken away, it says so and replaces none. */
static void one_replacement_at_a_time(void **state)
{
    (void)state;
    tg_newfile *first, *second = NULL;
    char aside[4096];
    write_file("old");
    assert_int_equal(tg_newfile_open(path, &first), TG_OK);
    assert_int_equal(tg_newfile_open(path, &second), TG_E_IO);
    assert_null(second);
    assert_non_null(strstr(tg_error(), "another run is writing it"));
    assert_true(fputs("first", tg_newfile_stream(first)) >= 0);
    assert_int_equal(tg_newfile_commit(first), TG_OK);
    assert_content("first");

    assert_int_equal(tg_newfile_open(path, &first), TG_OK);
    snprintf(aside, sizeof aside, "%s", tg_newfile_aside(first));
    unlink(aside);
    assert_int_equal(tg_newfile_open(path, &second),
                     TG_OK); /* as a run that did not see the lock */
    assert_true(fputs("half", tg_newfile_stream(second)) >= 0);
    assert_int_equal(tg_newfile_commit(first), TG_E_IO);
    assert_non_null(strstr(tg_error(), "another run is writing it"));
    assert_content("first");
    assert_int_equal(tg_newfile_commit(second), TG_OK);
    assert_content("half");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commit_replaces),
        cmocka_unit_test(abandon_keeps_the_old),
        cmocka_unit_test(open_fails),
        cmocka_unit_test(memory_is_short),
        cmocka_unit_test(rename_fails),
        cmocka_unit_test(write_fails),
        cmocka_unit_test(links_stay),
        cmocka_unit_test(no_regular_file),
        cmocka_unit_test(own_output),
        cmocka_unit_test(one_writer),
        cmocka_unit_test(emptied_by_another),
        cmocka_unit_test(looking_takes_no_lock),
        cmocka_unit_test(another_comes_between),
        cmocka_unit_test(one_replacement_at_a_time),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
