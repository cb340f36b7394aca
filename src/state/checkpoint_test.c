/* Checkpoint files: round trips, and every damaged byte is detected. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "state/checkpoint.h"
#include "state/slots.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDENTITY "model=lenet5\nmethod=topk:density=0.01\nworld=4\nrank=1\n"

static char dir[64], path[96], tmp[100];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/telegrad_checkpoint_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/rank.tg", dir);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* A state of two tensors and a counter, filled with numbers starting at `seed`. */
static tg__state *make_state(float seed)
{
    static const char *const names[] = {"w", "b"};
    static const size_t sizes[] = {5, 2};
    tg__state *s;
    float *r;
    uint8_t *counter;
    assert_int_equal(tg__state_create(&s), TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "residual", names, sizes, 2, &r), TG_OK);
    assert_int_equal(
        tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "w", "counter", 3, &counter), TG_OK);
    for (int i = 0; i < 7; i++)
        r[i] = seed + (float)i;
    memset(counter, (int)seed, 3);
    return s;
}

static void write_checkpoint(const tg__state *s)
{
    tg__ckpt_writer *w;
    assert_int_equal(tg__ckpt_create(path, IDENTITY, &w), TG_OK);
    assert_int_equal(tg__ckpt_put(w, "params", "0123456789", 10), TG_OK);
    assert_int_equal(tg__ckpt_put_state(w, s), TG_OK);
    assert_int_equal(tg__ckpt_put(w, "empty", NULL, 0), TG_OK);
    assert_int_equal(tg__ckpt_commit(w), TG_OK);
}

/* The file's bytes; release them with free(). */
static uint8_t *slurp(size_t *len_p)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *bytes = malloc(1 << 16);
    *len_p = fread(bytes, 1, 1 << 16, file);
    fclose(file);
    return bytes;
}

static void assert_equal_states(const tg__state *a, const tg__state *b, bool equal)
{
    for (size_t i = 0; i < a->count; i++)
        assert_int_equal(memcmp(a->slot[i].data, b->slot[i].data, a->slot[i].len) == 0, equal);
}

static void comes_back(void **state)
{
    (void)state;
    tg__state *s = make_state(1), *back = make_state(9);
    write_checkpoint(s);
    assert_int_not_equal(access(tmp, F_OK), 0);
    tg__ckpt_reader *r;
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_OK);
    const void *bytes;
    size_t len;
    assert_int_equal(tg__ckpt_get(r, "params", 10, &bytes, NULL), TG_OK);
    assert_memory_equal(bytes, "0123456789", 10);
    assert_int_equal((uintptr_t)bytes % 8, 0);
    assert_int_equal(tg__ckpt_get(r, "empty", SIZE_MAX, &bytes, &len), TG_OK);
    assert_int_equal(len, 0);
    assert_int_equal(tg__ckpt_get(r, "params", 9, &bytes, &len), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "section \"params\" has 10 bytes: allowed: 9"));
    assert_int_equal(tg__ckpt_get(r, "param", SIZE_MAX, &bytes, &len), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "has no section \"param\""));
    assert_int_equal(len, 0);
    assert_int_equal(tg__ckpt_get_state(r, back), TG_OK);
    assert_equal_states(back, s, true);
    tg__ckpt_close(r);
    tg__ckpt_close(NULL);
    tg__state_destroy(s);
    tg__state_destroy(back);
}

/* A terabyte of zeros after the end, or in place of everything: detected without reading it. */
static void lengths_are_checked_first(void **state)
{
    (void)state;
    tg__ckpt_reader *r;
    tg__state *s = make_state(1);
    write_checkpoint(s);
    tg__state_destroy(s);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "bytes follow its end"));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "longer than the file"));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "is not a checkpoint"));
}

static void only_files_are_read(void **state)
{
    (void)state;
    tg__ckpt_reader *r;
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60); /* ends a test that waits for a writer */
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_IO);
    alarm(0);
    assert_non_null(strstr(tg_error(), "rank.tg: it is a FIFO, not a regular file"));
    assert_int_equal(tg__ckpt_open(dir, IDENTITY, &r), TG_E_IO);
    assert_non_null(strstr(tg_error(), "it is a directory, not a file"));
}

static void every_damaged_byte_is_seen(void **state)
{
    (void)state;
    tg__state *s = make_state(1);
    write_checkpoint(s);
    tg__state_destroy(s);
    size_t len;
    uint8_t *bytes = slurp(&len);
    tg__ckpt_reader *r = NULL;
    assert_int_equal(tg__ckpt_parse(bytes, len, path, IDENTITY, &r), TG_OK);
    tg__ckpt_close(r);
    r = NULL;
    for (size_t i = 0; i < len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(tg__ckpt_parse(bytes, len, path, IDENTITY, &r), TG_E_CORRUPT);
            assert_null(r);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
        /* truncated; a sanitizer detects every access beyond the end */
        uint8_t *part = malloc(i + 1);
        memcpy(part, bytes, i);
        assert_int_equal(tg__ckpt_parse(part, i, path, IDENTITY, &r), TG_E_CORRUPT);
        assert_null(r);
        free(part);
    }
    bytes[len] = 0;
    assert_int_equal(tg__ckpt_parse(bytes, len + 1, path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "bytes follow the end"));
    assert_null(r);
    free(bytes);
}

static void damage_names_the_section(void **state)
{
    (void)state;
    tg__state *s = make_state(1);
    write_checkpoint(s);
    tg__state_destroy(s);
    FILE *file = fopen(path, "r+b");
    fseek(file, 16 + 16 + 8 + 56 + 16 + 8 + 3,
          SEEK_SET); /* head, identity, in the data of params */
    fputc('x', file);
    fclose(file);
    tg__ckpt_reader *r;
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "section 1 at byte 96: checksum of \"params\" is wrong"));
    file = fopen(path, "wb");
    fputs("not a checkpoint at all", file);
    fclose(file);
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "rank.tg is not a checkpoint"));
    assert_int_equal(tg__ckpt_open(dir, IDENTITY, &r), TG_E_IO);
    assert_int_equal(tg__ckpt_open("/nowhere/x", IDENTITY, &r), TG_E_IO);
    assert_non_null(strstr(tg_error(), "/nowhere/x"));
}

/* With matching checksums, so that the other checks are reached. */
static void lengths_are_not_believed(void **state)
{
    (void)state;
    tg__ckpt_writer *w;
    assert_int_equal(tg__ckpt_create(path, "", &w), TG_OK);
    assert_int_equal(tg__ckpt_commit(w), TG_OK);
    size_t len;
    uint8_t *bytes = slurp(&len);
    assert_int_equal(len, 16 + 16 + 8 + 16);
    const tg__kernels *k = tg__kernel();
    tg__ckpt_reader *r = NULL;
    const uint64_t lengths[] = {1, 17, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 39, UINT64_MAX / 2};
    for (size_t i = 0; i < TG_COUNT(lengths); i++) {
        tg__put64(bytes + 16, lengths[i]);
        uint32_t crc = k->crc32c(0, bytes + 16, 12);
        tg__put32(bytes + 28, k->crc32c(crc, bytes + 32, 8));
        assert_int_equal(tg__ckpt_parse(bytes, len, path, NULL, &r), TG_E_CORRUPT);
    }
    tg__put32(bytes + 8, 3);
    tg__put32(bytes + 12, k->crc32c(0, bytes, 12));
    assert_int_equal(tg__ckpt_parse(bytes, len, path, NULL, &r), TG_E_VERSION);
    assert_non_null(strstr(tg_error(), "version 3: allowed: 2"));
    assert_null(r);
    free(bytes);
}

static void assert_mismatch(const char *identity, const char *want)
{
    tg__ckpt_reader *r = NULL;
    assert_int_equal(tg__ckpt_open(path, identity, &r), TG_E_MISMATCH);
    assert_null(r);
    if (!strstr(tg_error(), want))
        fail_msg("%s", tg_error());
}

static void identity_must_fit(void **state)
{
    (void)state;
    tg__state *s = make_state(1);
    write_checkpoint(s);
    tg__state_destroy(s);
    assert_mismatch("model=lenet5\nmethod=2bit\nworld=4\nrank=1\n",
                    "saved with \"method=topk:density=0.01\", this job has \"method=2bit\"");
    assert_mismatch("model=lenet5\nmethod=topk:density=0.01\nworld=4\n",
                    "saved with \"rank=1\", which this job does not have");
    assert_mismatch(IDENTITY "seed=1\n", "this job has \"seed=1\", which it was not saved with");
    assert_mismatch("model=lenet5\nmethod=topk:density=0.01\nrank=1\n",
                    "saved with \"world=4\", which this job does not have");
    assert_mismatch("model=lenet5\nnodes=0x2\nmethod=topk:density=0.01\nworld=4\nrank=1\n",
                    "this job has \"nodes=0x2\", which it was not saved with");
    assert_mismatch("model=lenet5\nmethod=topk:density=0.01\nworld=40\nrank=1\n",
                    "saved with \"world=4\", this job has \"world=40\"");

    char a[400], b[400]; /* the difference is shown even if it is far into a line */
    memset(a, 'x', sizeof a);
    memcpy(a, "job=", 4);
    strcpy(a + 300, "one");
    memcpy(b, a, sizeof a);
    strcpy(b + 300, "two");
    tg__ckpt_writer *w;
    assert_int_equal(tg__ckpt_create(path, a, &w), TG_OK);
    assert_int_equal(tg__ckpt_commit(w), TG_OK);
    assert_mismatch(b, "xone\"");
    assert_mismatch(b, "xtwo\"");
}

static void state_must_fit(void **state)
{
    (void)state;
    tg__state *s = make_state(1), *other = make_state(9), *same = make_state(9), *less;
    write_checkpoint(s);
    tg__ckpt_reader *r;
    assert_int_equal(tg__ckpt_open(path, IDENTITY, &r), TG_OK);
    void *bytes;
    assert_int_equal(tg__state_bytes(other, TG__ROLE_RANK, TG__RESCALE_COPY, "w", "new", 1, &bytes),
                     TG_OK);
    assert_int_equal(tg__ckpt_get_state(r, other), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "slot:rank:1:w:new|copy"));
    assert_equal_states(same, other, true); /* all or nothing */
    assert_int_equal(tg__state_create(&less), TG_OK);
    assert_int_equal(tg__ckpt_get_state(r, less), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "has 3 slots, this job has 0"));
    assert_int_equal(
        tg__state_bytes(less, TG__ROLE_RANK, TG__RESCALE_COPY, "w", "counter", 4, &bytes), TG_OK);
    assert_int_equal(tg__ckpt_get_state(r, less), TG_E_MISMATCH);
    assert_non_null(strstr(tg_error(), "has 3 bytes, and 4 in this job"));
    tg__ckpt_close(r);
    tg__state_destroy(s);
    tg__state_destroy(other);
    tg__state_destroy(same);
    tg__state_destroy(less);
}

static void writer_refuses(void **state)
{
    (void)state;
    tg__ckpt_writer *w;
    assert_int_equal(tg__ckpt_create("/nowhere/x", "", &w), TG_E_IO);
    const char *const bad[] = {"", "identity", "slot:x", "params"};
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        assert_int_equal(tg__ckpt_create(path, "", &w), TG_OK);
        assert_int_equal(tg__ckpt_put(w, "params", "x", 1), TG_OK);
        assert_int_equal(tg__ckpt_put(w, bad[i], "x", 1), TG_E_ARG);
        assert_int_equal(tg__ckpt_commit(w), i == 2 ? TG_OK : TG_E_ARG);
        assert_int_not_equal(access(tmp, F_OK), 0);
        assert_int_equal(access(path, F_OK) == 0, i == 2);
        unlink(path);
    }
    assert_int_equal(tg__ckpt_create(path, "", &w), TG_OK);
    tg__ckpt_abandon(w);
    tg__ckpt_abandon(NULL);
    assert_int_not_equal(access(tmp, F_OK), 0);
    assert_int_not_equal(access(path, F_OK), 0);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(comes_back),
        IN_DIR(lengths_are_checked_first),
        IN_DIR(only_files_are_read),
        IN_DIR(every_damaged_byte_is_seen),
        IN_DIR(damage_names_the_section),
        IN_DIR(lengths_are_not_believed),
        IN_DIR(identity_must_fit),
        IN_DIR(state_must_fit),
        IN_DIR(writer_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
