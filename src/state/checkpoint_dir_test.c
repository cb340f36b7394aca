/* Checkpoint folders: which one is the newest, what survives a crash, what is removed and what is
 * not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "state/state.h"
#include "state/weights_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64], dir[96];
static const tg__weights_mark weights = {123, 0xabcdef01, NULL};

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/telegrad_folder_XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(dir, sizeof dir, "%s/a/b", root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void write_rank(const char *path, const char *text)
{
    tg__ckpt_writer *w;
    if (tg__ckpt_create(path, text, &w) != TG_OK || tg__ckpt_commit(w) != TG_OK)
        fail_msg("%s", tg_error());
}

static const int together[3]; /* rank 0 commits for all */

static void prepare(uint64_t step, const char *text)
{
    char path[256];
    for (int rank = 0; rank < 2; rank++) {
        if (tg__ckpt_dir_prepare(dir, step, 0, rank, path, sizeof path) != TG_OK)
            fail_msg("%s", tg_error());
        write_rank(path, text);
    }
}

static void save(uint64_t step, const char *text)
{
    prepare(step, text);
    if (tg__ckpt_dir_commit(dir, step, 2, together, 0, &weights) != TG_OK)
        fail_msg("%s", tg_error());
    tg__ckpt_dir_prune(dir, step, 0);
}

static void assert_latest(uint64_t want)
{
    uint64_t step = UINT64_MAX;
    if (tg__ckpt_dir_latest(dir, true, &step) != TG_OK)
        fail_msg("%s", tg_error());
    assert_int_equal(step, want);
}

static bool exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void keeps_the_newest_two(void **state)
{
    (void)state;
    save(9, "nine");
    assert_latest(9);
    save(10, "ten");
    save(100, "hundred");
    assert_latest(100);
    assert_false(exists("step-000000000009"));
    assert_true(exists("step-000000000010/COMMIT"));
    assert_true(exists("step-000000000100/rank-0001.tg"));
    char path[256];
    tg__ckpt_reader *r;
    assert_int_equal(tg__ckpt_dir_path(dir, 100, 1, path, sizeof path), TG_OK);
    assert_int_equal(tg__ckpt_open(path, "hundred", &r), TG_OK);
    tg__ckpt_close(r);
}

/* Nothing is written through a link. */
static void links_in_the_place_of_ours_are_refused(void **state)
{
    (void)state;
    char path[512], link[256], target[256];
    save(5, "five");
    snprintf(target, sizeof target, "%s/elsewhere", root);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(link, sizeof link, "%s/step-000000000006.tmp", dir);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(tg__ckpt_dir_prepare(dir, 6, 0, 0, path, sizeof path), TG_E_IO);
    assert_non_null(strstr(tg_error(), "is a symbolic link, not a folder"));
    assert_int_equal(rmdir(target), 0); /* it is empty */
    assert_int_equal(unlink(link), 0);
    static const char *const names[] = {"rank-0000.tg", "rank-0000.tg.tmp", "COMMIT", "COMMIT.tmp",
                                        "model.safetensors"};
    for (size_t i = 0; i < TG_COUNT(names); i++) {
        assert_int_equal(mkdir(link, 0700), 0);
        snprintf(path, sizeof path, "%s/%s", link, names[i]);
        assert_int_equal(symlink(target, path), 0);
        char own[256], weights_path[256];
        tg_status status = tg__ckpt_dir_prepare(dir, 6, 0, 0, own, sizeof own);
        if (status == TG_OK)
            write_rank(own, "six");
        if (status == TG_OK)
            status = tg__ckpt_dir_weights_aside(dir, 6, weights_path, sizeof weights_path);
        if (status == TG_OK)
            status = tg__ckpt_dir_commit(dir, 6, 1, together, 0, &weights);
        assert_int_equal(status, strstr(names[i], ".tmp") ? TG_OK : TG_E_IO);
        assert_int_not_equal(access(target, F_OK), 0);
        char command[512];
        snprintf(command, sizeof command, "rm -rf %s %s/step-000000000006", link, dir);
        assert_int_equal(system(command), 0);
    }
}

static void a_crash_leaves_the_last_one(void **state)
{
    (void)state;
    uint64_t step = 77;
    assert_int_equal(tg__ckpt_dir_latest(dir, true, &step), TG_E_IO); /* no folder */
    prepare(5, "half");
    assert_int_equal(tg__ckpt_dir_latest(dir, true, &step), TG_E_IO);
    assert_non_null(strstr(tg_error(), "step-000000000005.tmp (unfinished)"));
    assert_int_equal(step, 77);
    save(5, "five"); /* the old .tmp is reused */
    prepare(6, "half");
    assert_latest(5);
    save(7, "seven");
    assert_latest(7);
    assert_false(exists("step-000000000006.tmp"));
    assert_true(exists("step-000000000005"));
    /* A folder without its COMMIT is not a checkpoint. */
    char mark[256];
    snprintf(mark, sizeof mark, "%s/step-000000000007/COMMIT", dir);
    assert_int_equal(unlink(mark), 0);
    assert_latest(5);
}

static void touch(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

/* A save by more ranks crashed: its files must not become part of a later save by fewer. */
static void a_crash_of_more_ranks_leaves_nothing(void **state)
{
    (void)state;
    prepare(5, "half");
    static const char *const strays[] = {"rank-0002.tg", "rank-0003.tg", "rank-0003.tg.tmp",
                                         "rank-0001.tg.tmp", "rank-9999.tg"};
    char name[64];
    for (size_t i = 0; i < TG_COUNT(strays); i++) {
        snprintf(name, sizeof name, "step-000000000005.tmp/%s", strays[i]);
        touch(name);
    }
    touch("step-000000000005.tmp/mine.txt");
    save(5, "five");
    assert_latest(5);
    for (size_t i = 0; i < TG_COUNT(strays); i++) {
        snprintf(name, sizeof name, "step-000000000005/%s", strays[i]);
        if (exists(name))
            fail_msg("%s was committed", name);
    }
    assert_true(exists("step-000000000005/rank-0000.tg"));
    assert_true(exists("step-000000000005/rank-0001.tg"));
    assert_true(exists("step-000000000005/mine.txt"));
    /* A file that cannot be removed stops the commit, and the previous checkpoint stays. */
    char path[256];
    prepare(6, "six");
    snprintf(path, sizeof path, "%s/step-000000000006.tmp/rank-0002.tg", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tg__ckpt_dir_commit(dir, 6, 2, together, 0, &weights), TG_E_IO);
    assert_non_null(strstr(tg_error(), "rank-0002.tg, which an unfinished save left"));
    assert_latest(5);
}

static void the_same_step_is_replaced(void **state)
{
    (void)state;
    save(5, "five");
    save(8, "old");
    save(8, "new");
    assert_latest(8);
    char path[256];
    tg__ckpt_reader *r;
    assert_int_equal(tg__ckpt_dir_path(dir, 8, 0, path, sizeof path), TG_OK);
    assert_int_equal(tg__ckpt_open(path, "new", &r), TG_OK);
    tg__ckpt_close(r);
    assert_true(exists("step-000000000005"));
    assert_false(exists("step-000000000008.tmp"));
    assert_false(exists("step-000000000008.old"));
    /* The commit leaves nothing aside. So what is there when the folder is pruned is a rank's file
     * of the next save. */
    prepare(8, "again");
    assert_int_equal(tg__ckpt_dir_commit(dir, 8, 2, together, 0, &weights), TG_OK);
    assert_false(exists("step-000000000008.tmp"));
    prepare(8, "once more");
    tg__ckpt_dir_prune(dir, 8, 0);
    assert_true(exists("step-000000000008.tmp/rank-0001.tg"));
}

/* A save of the same step again was killed when the two folders had changed places. */
static void final_weights_of_before_do_not_return(void **state)
{
    (void)state;
    static const char *const files[] = {"FINAL", "final.safetensors"};
    char name[64];
    prepare(8, "old");
    for (size_t i = 0; i < TG_COUNT(files); i++) {
        snprintf(name, sizeof name, "step-000000000008.tmp/%s", files[i]);
        touch(name);
    }
    save(8, "new");
    for (size_t i = 0; i < TG_COUNT(files); i++) {
        snprintf(name, sizeof name, "step-000000000008/%s", files[i]);
        assert_false(exists(name));
    }
    assert_false(tg__ckpt_dir_has_final(dir, 8));
}

static void another_runs_folder_is_refused(void **state)
{
    (void)state;
    save(500, "theirs");
    char path[256] = "untouched";
    assert_int_equal(tg__ckpt_dir_prepare(dir, 100, 0, 0, path, sizeof path), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "checkpoint of step 500, beyond step 100"));
    assert_string_equal(path, "untouched");
    assert_latest(500);
}

static void one_checkpoint_is_no_folder_of_them(void **state)
{
    (void)state;
    save(5, "five");
    char path[256];
    uint64_t step = 77;
    assert_true(snprintf(path, sizeof path, "%s/step-000000000005", dir) < (int)sizeof path);
    assert_int_equal(tg__ckpt_dir_latest(path, true, &step), TG_E_IO);
    assert_non_null(strstr(tg_error(), path));
    assert_non_null(strstr(tg_error(), "give the folder of checkpoints that contains it"));
    assert_int_equal(step, 77);
}

static void other_files_stay(void **state)
{
    (void)state;
    save(1, "one");
    char path[256];
    const char *const others[] = {"notes.txt", "step-1", "step-000000000001x", "step-00000000000a",
                                  "step-000000000001/mine.txt"};
    for (size_t i = 0; i < TG_COUNT(others); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, others[i]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    save(2, "two");
    save(3, "three"); /* step 1 is removed, except for foreign files */
    for (size_t i = 0; i < TG_COUNT(others); i++)
        assert_true(exists(others[i]));
    assert_false(exists("step-000000000001/COMMIT"));
    assert_false(exists("step-000000000001/rank-0000.tg"));
    assert_latest(3);
}

static void write_mark(const char *text, size_t len)
{
    char path[256];
    snprintf(path, sizeof path, "%s/step-000000000005/COMMIT", dir);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

/* The mark in COMMIT is read as it was written, or gives an error. */
static void the_mark_is_read_strictly(void **state)
{
    (void)state;
    static const char text[] =
        "telegrad checkpoint 2\nstep 5\nmodel.safetensors 123 bytes, crc32c abcdef01\n";
    tg__weights_mark mark = {0};
    save(5, "five");
    assert_int_equal(tg__ckpt_dir_mark(dir, 5, TG__WEIGHTS_SAVED, &mark), TG_OK);
    assert_true(mark.bytes == 123 && mark.crc == 0xabcdef01);
    char damaged[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(damaged, text, sizeof text);
            damaged[i] ^= (char)(1 << bit);
            write_mark(damaged, sizeof text - 1);
            tg__weights_mark other = {0};
            tg_status status = tg__ckpt_dir_mark(dir, 5, TG__WEIGHTS_SAVED, &other);
            /* A digit may have become another digit: then the weights do not match. */
            if (status == TG_OK ? other.bytes == 123 && other.crc == 0xabcdef01
                                : status != TG_E_CORRUPT)
                fail_msg("byte %zu bit %d: %s", i, bit, damaged);
        }
    write_mark(text, sizeof text - 2);
    assert_int_equal(tg__ckpt_dir_mark(dir, 5, TG__WEIGHTS_SAVED, &mark), TG_E_CORRUPT);
    write_mark("", 0);
    assert_int_equal(tg__ckpt_dir_mark(dir, 5, TG__WEIGHTS_SAVED, &mark), TG_E_CORRUPT);
    write_mark("step 5\n", 7); /* the previous format */
    assert_int_equal(tg__ckpt_dir_mark(dir, 5, TG__WEIGHTS_SAVED, &mark), TG_E_VERSION);
    assert_non_null(strstr(tg_error(), "format 1, without model.safetensors: allowed: format 2"));
}

static void arguments_are_checked(void **state)
{
    (void)state;
    static char big[4096];
    char path[256] = "untouched";
    assert_int_equal(tg__ckpt_dir_prepare(dir, 1, 0, -1, path, sizeof path), TG_E_ARG);
    assert_int_equal(tg__ckpt_dir_prepare(dir, 1, 0, 10000, path, sizeof path), TG_E_ARG);
    assert_int_equal(tg__ckpt_dir_path(dir, UINT64_C(1000000000000), 0, path, sizeof path),
                     TG_E_ARG);
    assert_int_equal(tg__ckpt_dir_prepare(dir, 1, 0, 1, path, 20), TG_E_ARG);
    assert_int_equal(tg__ckpt_dir_path(dir, 1, 1, path, 20), TG_E_ARG);
    char longest[4200];
    memset(longest, 'd', sizeof longest);
    longest[4199] = '\0';
    assert_int_equal(tg__ckpt_dir_path(longest, 1, 1, big, sizeof big), TG_E_ARG);
    assert_string_equal(tg_error(),
                        "the folder of checkpoints has a name of 4199 bytes: allowed: at "
                        "most 4064");
    longest[4064] = '\0';
    assert_int_equal(tg__ckpt_dir_path(longest, 1, 1, big, sizeof big), TG_OK);
    assert_int_equal(tg__ckpt_dir_prepare("", 1, 0, 1, path, sizeof path), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "the name of the folder of checkpoints is \"\""));
    uint64_t step;
    assert_int_equal(tg__ckpt_dir_latest("", true, &step), TG_E_ARG);
    assert_int_equal(tg__ckpt_dir_prepare("/proc/nowhere", 1, 0, 1, path, sizeof path), TG_E_IO);
    assert_int_equal(tg__ckpt_dir_commit(dir, 1, 2, together, 0, &weights),
                     TG_E_IO); /* nothing was prepared */
}

/* A rank that saved to another folder: nothing is committed, and what was there stays. */
static void a_rank_elsewhere(void **state)
{
    (void)state;
    save(1, "one");
    prepare(2, "two");
    assert_int_equal(tg__ckpt_dir_commit(dir, 2, 3, together, 0, &weights), TG_E_IO);
    assert_non_null(strstr(tg_error(), "the file of rank 2 is not in"));
    assert_latest(1);
}

/* Ranks 0 and 2 see the folder, rank 1 has another one, but left files here once. */
static void only_ranks_that_sign_are_here(void **state)
{
    (void)state;
    static const int writers[] = {0, 1, 0};
    char path[256];
    prepare(4, "rank 1 was here"); /* ranks 0 and 1 */
    assert_int_equal(tg__ckpt_dir_sign(dir, 4, 1, 77), TG_OK);
    for (int rank = 0; rank < 3; rank += 2) {
        assert_int_equal(tg__ckpt_dir_prepare(dir, 4, 0, rank, path, sizeof path), TG_OK);
        write_rank(path, "now");
        assert_int_equal(tg__ckpt_dir_sign(dir, 4, rank, 100 + (uint64_t)rank), TG_OK);
    }
    assert_true(tg__ckpt_dir_sees(dir, 4, 2, 102));
    assert_false(tg__ckpt_dir_sees(dir, 4, 2, 103));
    assert_false(tg__ckpt_dir_sees(dir, 4, 1, 101)); /* an old sign */
    assert_false(tg__ckpt_dir_sees(dir, 4, 3, 103));
    assert_int_equal(tg__ckpt_dir_commit(dir, 4, 3, writers, 0, &weights), TG_OK);
    assert_true(exists("step-000000000004/rank-0002.tg"));
    assert_false(exists("step-000000000004/rank-0001.tg"));
    assert_false(exists("step-000000000004/rank-0000.sign"));
    assert_false(exists("step-000000000004/rank-0001.sign"));
}

/* A run that resumed from step 5, because others lack step 9, may save step 6, which replaces
 * it. */
static void a_later_step_that_was_left_behind(void **state)
{
    (void)state;
    char path[256];
    save(5, "five");
    save(9, "nine");
    assert_int_equal(tg__ckpt_dir_prepare(dir, 6, 8, 0, path, sizeof path), TG_E_STATE);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tg__ckpt_dir_prepare(dir, 6, 9, rank, path, sizeof path), TG_OK);
        write_rank(path, "six");
    }
    assert_int_equal(tg__ckpt_dir_commit(dir, 6, 2, together, 0, &weights), TG_OK);
    assert_latest(9); /* until all have committed */
    tg__ckpt_dir_prune(dir, 6, 8);
    assert_latest(9); /* another job's */
    tg__ckpt_dir_prune(dir, 6, 9);
    assert_latest(6);
    assert_true(exists("step-000000000005"));
    assert_false(exists("step-000000000009"));
}

/* The step that was left behind is reached again. Until it is committed anew it does not count. */
static void a_step_that_is_revoked(void **state)
{
    (void)state;
    save(6, "six");
    save(9, "old");
    assert_int_equal(tg__ckpt_dir_revoke(dir, 7), TG_OK); /* there is none */
    assert_int_equal(tg__ckpt_dir_revoke(dir, 9), TG_OK);
    assert_latest(6);
    assert_int_equal(tg__ckpt_dir_revoke(dir, 9), TG_OK); /* another rank's turn */
    save(9, "new");
    assert_latest(9);
    assert_false(exists("step-000000000009.tmp"));
}

static void the_newest_steps_are_listed(void **state)
{
    (void)state;
    uint64_t steps[TG__CKPT_STEPS];
    size_t count;
    static const uint64_t made[] = {30, 10, 50, 90, 20, 70, 80, 60, 40, 100};
    for (size_t i = 0; i < TG_COUNT(made); i++) {
        char path[256];
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(tg__ckpt_dir_prepare(dir, made[i], 1000, rank, path, sizeof path),
                             TG_OK);
            write_rank(path, "x");
        }
        assert_int_equal(tg__ckpt_dir_commit(dir, made[i], 2, together, 0, &weights), TG_OK);
    }
    assert_int_equal(tg__ckpt_dir_steps(dir, false, steps, &count), TG_OK);
    assert_int_equal(count, TG__CKPT_STEPS);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(steps[i], 100 - 10 * i);
}

#define IN_ROOT(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOT(a_rank_elsewhere),
        IN_ROOT(only_ranks_that_sign_are_here),
        IN_ROOT(a_later_step_that_was_left_behind),
        IN_ROOT(a_step_that_is_revoked),
        IN_ROOT(the_newest_steps_are_listed),
        IN_ROOT(keeps_the_newest_two),
        IN_ROOT(a_crash_leaves_the_last_one),
        IN_ROOT(the_same_step_is_replaced),
        IN_ROOT(final_weights_of_before_do_not_return),
        IN_ROOT(another_runs_folder_is_refused),
        IN_ROOT(one_checkpoint_is_no_folder_of_them),
        IN_ROOT(other_files_stay),
        IN_ROOT(the_mark_is_read_strictly),
        IN_ROOT(arguments_are_checked),
        IN_ROOT(links_in_the_place_of_ours_are_refused),
        IN_ROOT(a_crash_of_more_ranks_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
