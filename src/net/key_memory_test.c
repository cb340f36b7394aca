/* Private keys are gone from memory once nobody needs them: all memory of the process is searched
 * for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net/key.h"
#include "net_ranks.h"
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SECRET = 32, MASK = 0x5a };

/* Sanitizers have terabytes of memory of their own, and keep what is freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NOT_HERE() skip()
#else
#define NOT_HERE() (void)0
#endif

static char path[] = "/tmp/tg-key-memory-XXXXXX";

/* What is searched for, masked, so that it is not found here. */
typedef struct secret {
    uint8_t raw[SECRET];
    uint8_t text[SECRET]; /* from the middle of the file's base64 */
} secret;

static void mask(uint8_t *bytes)
{
    for (int i = 0; i < SECRET; i++)
        bytes[i] ^= MASK;
}

/* Through its file: OpenSSL's own way leaves a copy. */
static secret secret_of(const tg_key_pair *key)
{
    secret s;
    char text[200] = "";
    unsigned char der[48];
    assert_int_equal(tg_key_save(key, path), TG_OK);
    const int fd = open(path, O_RDONLY);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    unlink(path);
    const char *at = strchr(text, '\n') + 1;
    assert_int_equal(EVP_DecodeBlock(der, (const unsigned char *)at, 64), 48);
    memcpy(s.raw, der + 16, SECRET);
    memcpy(s.text, at + 28, SECRET);
    OPENSSL_cleanse(der, sizeof der);
    OPENSSL_cleanse(text, sizeof text);
    mask(s.raw);
    mask(s.text);
    return s;
}

static int count(const uint8_t *bytes, size_t len, const uint8_t *masked)
{
    int found = 0;
    for (size_t i = 0; i + SECRET <= len; i++) {
        size_t k = 0;
        while (k < SECRET && bytes[i + k] == (masked[k] ^ MASK))
            k++;
        found += k == SECRET;
    }
    return found;
}

/* How often it is anywhere in memory that can be written. */
static int search(const secret *s)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    const int fd = open("/proc/self/mem", O_RDONLY);
    char line[512];
    int found = 0;
    assert_true(maps && fd >= 0);
    const size_t room = (size_t)1 << 20;
    uint8_t *part = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(part != MAP_FAILED);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[1] != 'w' ||
            strstr(line, "[v"))
            continue;
        for (unsigned long at = from; at < to; at += room - SECRET) {
            const size_t want = to - at < room ? to - at : room;
            if ((uintptr_t)part - at < room || at - (uintptr_t)part < room)
                continue; /* the copy itself */
            const ssize_t n = pread(fd, part, want, (off_t)at);
            if (n > 0)
                found += count(part, (size_t)n, s->raw) + count(part, (size_t)n, s->text);
        }
        OPENSSL_cleanse(part, room);
    }
    munmap(part, room);
    fclose(maps);
    close(fd);
    return found;
}

static void a_key_that_was_destroyed(void **state)
{
    (void)state;
    NOT_HERE();
    tg_key_pair *key;
    assert_int_equal(tg_key_create(&key), TG_OK);
    const secret s = secret_of(key);
    assert_true(search(&s) > 0); /* it would be found */
    assert_int_equal(tg_key_save(key, path), TG_OK);
    tg_key_destroy(key);
    assert_int_equal(search(&s), 0);
    assert_int_equal(tg_key_load(path, &key), TG_OK);
    assert_true(search(&s) > 0);
    tg_key_destroy(key);
    assert_int_equal(search(&s), 0);
    unlink(path);
}

/* A rank keeps its key while it is a member, and not longer. */
static void a_membership_that_has_ended(void **state)
{
    (void)state;
    NOT_HERE();
    net_job job;
    net_job_begin(&job, 2, false);
    const secret s = secret_of(job.key[1]);
    net_job_run(&job, net_rank_stays);
    net_job_check(&job);
    net_job_end(&job);
    for (int r = 0; r < 2; r++)
        tg_transport_destroy(job.rank[r].t);
    assert_int_equal(search(&s), 0);
}

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    unlink(path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_was_destroyed),
        cmocka_unit_test(a_membership_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
