/* The folder of a server: what is written is read again, however the writer died. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "server/journal.h"
#include "kernel/kernel.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 5, LONG = 300000, HEAD = 32 };

static char folder[64];

static const char *file(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static const char log_name[] = "log-000000000007", snapshot_name[] = "state-000000000007.tg";

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tg-journal-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static void clear(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    assert_int_equal(system(command), 0);
}

static int remove_folder(void **state)
{
    (void)state;
    clear();
    return rmdir(folder);
}

static size_t len_of(size_t i)
{
    return i == 3 ? LONG : 10 * i;
}

static uint8_t byte_of(size_t i, size_t k)
{
    return (uint8_t)(17 * i + k * k / 3);
}

/* A log of RECORDS records behind snapshot 7, whose contents do not matter here. */
static void write_log(void)
{
    tg__journal j = {0};
    bool found;
    FILE *snapshot = fopen(file(snapshot_name), "w");
    uint8_t *body = malloc(LONG);
    assert_true(snapshot && body && fclose(snapshot) == 0);
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    assert_true(found && j.number == 7);
    assert_int_equal(tg__journal_begin(&j, 7), TG_OK);
    for (size_t i = 0; i < RECORDS; i++) {
        const tg__journal_record record = {TG__RECORD_PUSH, (uint32_t)i,     100 + (uint32_t)i,
                                           len_of(i),       7 * (uint32_t)i, i};
        for (size_t k = 0; k < len_of(i); k++)
            body[k] = byte_of(i, k);
        assert_int_equal(tg__journal_add(&j, &record, body), TG_OK);
    }
    assert_int_equal(tg__journal_sync(&j), TG_OK);
    assert_false(j.dirty);
    tg__journal_close(&j);
    free(body);
}

static size_t replayed;

static tg_status replay(void *arg, const tg__journal_record *record, const uint8_t *body)
{
    const size_t i = replayed++;
    (void)arg;
    assert_int_equal(record->kind, TG__RECORD_PUSH);
    assert_int_equal(record->rank, i);
    assert_int_equal(record->tag, 100 + i);
    assert_int_equal(record->len, len_of(i));
    assert_int_equal(record->worker, 7 * i);
    assert_int_equal(record->number, i);
    for (size_t k = 0; k < len_of(i); k++)
        assert_int_equal(body[k], byte_of(i, k));
    return TG_OK;
}

/* Read it, and write one more record. */
static tg_status recover(void)
{
    static const uint8_t more[] = "more";
    tg__journal j = {0};
    bool found;
    replayed = 0;
    tg_status status = tg__journal_open(&j, folder, &found);
    if (status == TG_OK)
        status = tg__journal_replay(&j, replay, NULL);
    if (status == TG_OK)
        status = tg__journal_add(
            &j, &(tg__journal_record){TG__RECORD_PUSH, 1, 1, sizeof more, 0, 0}, more);
    if (status == TG_OK)
        status = tg__journal_sync(&j);
    tg__journal_close(&j);
    return status;
}

static long file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

static void cut(long len)
{
    assert_int_equal(truncate(file(log_name), len), 0);
}

/* Where record i begins. */
static long begin_of(size_t i)
{
    long at = HEAD;
    for (size_t k = 0; k < i; k++)
        at += 40 + (long)len_of(k);
    return at;
}

/* What the log says to be on disk. */
static void set_mark(long len)
{
    const int fd = open(file(log_name), O_RDWR);
    uint8_t mark[16] = {0};
    tg__put64(mark, (uint64_t)len);
    tg__put32(mark + 8, tg__kernel()->crc32c(0, mark, 8));
    assert_true(fd >= 0 && pwrite(fd, mark, sizeof mark, 16) == sizeof mark);
    close(fd);
}

/* Cut at any place: what is whole is read, and the log goes on behind it. */
static void test_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i <= RECORDS; i++) {
        static const long back[] = {0, 1, 31, 33, 41};
        for (size_t b = 0; b < sizeof back / sizeof *back; b++) {
            clear();
            write_log();
            assert_int_equal(file_size(file(log_name)), begin_of(RECORDS));
            const long at = begin_of(i) - back[b];
            size_t whole = 0;
            if (at < HEAD)
                continue;
            while (whole < RECORDS && begin_of(whole + 1) <= at)
                whole++;
            set_mark(begin_of(whole));
            cut(at);
            if (recover() != TG_OK)
                fail_msg("%ld: %s", at, tg_error());
            assert_int_equal(replayed, whole);
            assert_int_equal(file_size(file(log_name)), begin_of(whole) + 40 + 5);
        }
    }
}

static void change(long at)
{
    const int fd = open(file(log_name), O_RDWR);
    uint8_t byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x41;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* One byte is changed. In what is on disk, that is an error that names the file; behind it, the log
 * is cut off. */
static void test_damage(void **state)
{
    (void)state;
    const long len = begin_of(RECORDS);
    for (int synced = 0; synced <= RECORDS; synced += RECORDS) {
        clear();
        write_log();
        for (long at = 0; at < len; at += at < 200 || at > len - 200 ? 1 : 7919) {
            size_t hit = 0;
            while (hit < RECORDS - 1 && begin_of(hit + 1) <= at)
                hit++;
            set_mark(begin_of((size_t)synced));
            change(at);
            const bool mark = at >= 16 && at < HEAD;
            const bool is_error = at < 16 || (!mark && synced > 0);
            const tg_status status = recover();
            if (status != (!is_error ? TG_OK : at >= 8 && at < 12 ? TG_E_VERSION : TG_E_CORRUPT))
                fail_msg("byte %ld: %s: %s", at, tg_status_name(status), tg_error());
            if (is_error) { /* nothing is lost */
                assert_non_null(strstr(tg_error(), log_name));
                assert_int_equal(file_size(file(log_name)), len);
                change(at);
                continue;
            }
            assert_int_equal(replayed, mark ? RECORDS : hit);
            clear();
            write_log();
        }
    }
}

/* A disk that had room for the bytes, but not the time to write them: zeros at the end. */
static void test_zeros(void **state)
{
    (void)state;
    clear();
    write_log();
    cut(begin_of(RECORDS) + 5000);
    assert_int_equal(recover(), TG_OK);
    assert_int_equal(replayed, RECORDS);
}

/* A log whose head is not whole never had its name: it is damaged, and stays as it is. */
static void test_short(void **state)
{
    static const struct {
        long len, then;
    } cases[] = {{0, 0}, {1, 1}, {HEAD - 1, HEAD - 1}, {0, HEAD}, {0, 4096}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clear();
        write_log();
        cut(cases[i].len);
        cut(cases[i].then);
        assert_int_equal(recover(), TG_E_CORRUPT);
        assert_non_null(strstr(tg_error(), log_name));
        assert_non_null(strstr(tg_error(), "is damaged"));
        assert_int_equal(file_size(file(log_name)), cases[i].then);
    }
    assert_int_equal(unlink(file(log_name)), 0); /* the user has moved it away */
    assert_int_equal(recover(), TG_OK);
    assert_int_equal(replayed, 0);
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(file(name), "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* The server dies while it begins the next log, and before the snapshot that follows. */
static void test_begun(void **state)
{
    tg__journal j = {0};
    bool found;
    (void)state;
    clear();
    write_log();
    write_file("log.tmp", "TGL");
    assert_int_equal(recover(), TG_OK);
    assert_int_equal(replayed, RECORDS);
    clear();
    write_log();
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    assert_int_equal(tg__journal_begin(&j, 8), TG_OK);
    tg__journal_close(&j);
    assert_int_equal(file_size(file("log-000000000008")), HEAD);
    assert_int_equal(recover(), TG_OK);
    assert_int_equal(replayed, RECORDS);
    clear(); /* the first one of all */
    write_file("log.tmp", "TGL");
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    assert_false(found);
    assert_int_equal(tg__journal_begin(&j, 0), TG_OK);
    tg__journal_close(&j);
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    assert_false(found);
    assert_int_equal(tg__journal_begin(&j, 0), TG_OK);
    assert_int_equal(
        tg__journal_add(&j, &(tg__journal_record){TG__RECORD_PUSH, 1, 1, 1, 0, 0}, (uint8_t *)"m"),
        TG_OK);
    assert_int_equal(tg__journal_sync(&j), TG_OK);
    tg__journal_close(&j);
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "but not the snapshot"));
    tg__journal_close(&j);
}

/* Somebody deletes the log while the server writes to it. */
static void test_deleted(void **state)
{
    tg__journal j = {0};
    bool found;
    const tg__journal_record record = {TG__RECORD_PUSH, 1, 1, 1, 0, 0};
    (void)state;
    clear();
    write_log();
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    replayed = 0;
    assert_int_equal(tg__journal_replay(&j, replay, NULL), TG_OK);
    clear();
    assert_int_equal(tg__journal_add(&j, &record, (uint8_t *)"m"), TG_OK);
    assert_int_equal(tg__journal_sync(&j), TG_E_IO);
    assert_non_null(strstr(tg_error(), "was deleted while the server was using it"));
    assert_true(j.broken);
    tg__journal_close(&j);
}

/* The newest snapshot counts; what is older goes. Other files stay. One server at a time. */
static void test_folder(void **state)
{
    static const char *const names[] = {"state-000000000003.tg",
                                        "log-000000000003",
                                        "state-000000000006.tg",
                                        "log-000000000006",
                                        "state-9.tg",
                                        "state-000000000099.tg.tmp",
                                        "notes"};
    tg__journal first = {0}, second = {0};
    bool found;
    (void)state;
    clear();
    write_log();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FILE *f = fopen(file(names[i]), "w");
        assert_true(f && fclose(f) == 0);
    }
    assert_int_equal(tg__journal_open(&first, folder, &found), TG_OK);
    assert_true(found && first.number == 7);
    assert_int_equal(tg__journal_open(&second, folder, &found), TG_E_IO);
    assert_non_null(strstr(tg_error(), "another server uses it"));
    tg__journal_close(&second);
    replayed = 0;
    assert_int_equal(tg__journal_replay(&first, replay, NULL), TG_OK);
    assert_int_equal(replayed, RECORDS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(access(file(names[i]), F_OK), i < 4 ? -1 : 0);
    tg__journal_close(&first);
}

/* A disk that is full. */
static void test_full(void **state)
{
    tg__journal j = {0};
    bool found;
    uint8_t *body = calloc(LONG, 1);
    const tg__journal_record record = {TG__RECORD_PUSH, 0, 0, LONG, 0, 0};
    (void)state;
    assert_non_null(body);
    clear();
    write_log();
    assert_int_equal(tg__journal_open(&j, folder, &found), TG_OK);
    replayed = 0;
    assert_int_equal(tg__journal_replay(&j, replay, NULL), TG_OK);
    close(j.fd);
    j.fd = open("/dev/full", O_WRONLY);
    assert_true(j.fd >= 0);
    assert_int_equal(tg__journal_add(&j, &record, body), TG_E_IO);
    assert_non_null(strstr(tg_error(), "No space left"));
    assert_int_equal(tg__journal_sync(&j), TG_E_IO);
    tg__journal_close(&j);
    assert_int_equal(recover(), TG_OK);
    assert_int_equal(replayed, RECORDS);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_zeros),  cmocka_unit_test(test_short),
        cmocka_unit_test(test_begun),  cmocka_unit_test(test_deleted),
        cmocka_unit_test(test_folder), cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
