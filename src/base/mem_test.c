/* Allocation, byte order, hash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static void allocation(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 15, 16, 17, 1000};
    for (size_t i = 0; i < TG_COUNT(counts); i++) {
        float *p = NULL;
        assert_int_equal(tg_alloc(counts[i], sizeof *p, &p), TG_OK);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % TG_ALIGN, 0);
        for (size_t j = 0; j < counts[i]; j++)
            assert_true(p[j] == 0);
        free(p);
    }
}

static void too_much(void **state)
{
    (void)state;
    char mark, *p = &mark;
    assert_int_equal(tg_alloc(SIZE_MAX / 2, 8, &p), TG_E_NOMEM);
    assert_int_equal(tg_alloc(SIZE_MAX, 1, &p), TG_E_NOMEM);
    assert_int_equal(tg_alloc(8, SIZE_MAX / 8 + 1, &p), TG_E_NOMEM);
    assert_ptr_equal(p, &mark);
    assert_non_null(strstr(tg_error(), "8 elements"));
}

static void byte_order(void **state)
{
    (void)state;
    const uint8_t want[8] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x81};
    uint8_t bytes[9] = {0};
    tg__put64(bytes + 1, UINT64_C(0x8123456789abcdef));
    assert_memory_equal(bytes + 1, want, 8);
    assert_true(tg__get64(bytes + 1) == UINT64_C(0x8123456789abcdef));
    assert_int_equal(tg__get32(bytes + 1), 0x89abcdef);
    assert_int_equal(tg__get16(bytes + 1), 0xcdef);
}

/* The definition, byte by byte. */
static uint64_t slow_hash(uint64_t h, const uint8_t *p, size_t len)
{
    size_t words = len / 8 + 1;
    for (size_t i = 0; i < words; i++) {
        uint64_t w = 0;
        for (size_t j = 0; j < 8; j++)
            w |= i * 8 + j < len ? (uint64_t)p[i * 8 + j] << 8 * j : 0;
        if (i == words - 1)
            w |= (uint64_t)(len % 8) << 56;
        h = (h ^ w) * UINT64_C(1099511628211);
        h ^= h >> 32;
    }
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

static void hash_definition(void **state)
{
    (void)state;
    uint8_t bytes[40];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 200);
    for (size_t len = 0; len < sizeof bytes; len++) {
        uint64_t h = tg_hash(TG_HASH_START, bytes + 1, len);
        assert_true(h == slow_hash(TG_HASH_START, bytes + 1, len));
        if (len)
            assert_true(h != tg_hash(TG_HASH_START, bytes + 1, len - 1));
    }
    assert_true(tg_hash(TG_HASH_START, NULL, 0) == slow_hash(TG_HASH_START, bytes, 0));
    /* Fixed values, because identities are stored in files. */
    assert_true(tg_hash(TG_HASH_START, "telegrad", 8) == UINT64_C(0xcbbd2af24b46c5f3));
}

static void hash_separates(void **state)
{
    (void)state;
    uint8_t bytes[16] = {0};
    uint64_t zero = tg_hash(TG_HASH_START, bytes, 16);
    for (size_t bit = 0; bit < 128; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(tg_hash(TG_HASH_START, bytes, 16) != zero);
        bytes[bit / 8] = 0;
    }
    /* Two signs in the same lane, which a plain product would cancel. */
    bytes[7] = bytes[15] = 0x80;
    assert_true(tg_hash(TG_HASH_START, bytes, 16) != zero);
    /* Padding and splitting matter. */
    assert_true(tg_hash(TG_HASH_START, "a\0", 2) != tg_hash(TG_HASH_START, "a", 1));
    uint64_t ab_c = tg_hash(tg_hash(TG_HASH_START, "ab", 2), "c", 1);
    uint64_t a_bc = tg_hash(tg_hash(TG_HASH_START, "a", 1), "bc", 2);
    assert_true(ab_c != a_bc);
}

static void arrays_grow(void **state)
{
    (void)state;
    uint32_t *array = NULL;
    size_t cap = 0;
    assert_int_equal(tg__grow(&array, &cap, 0, sizeof *array, "numbers"), TG_OK);
    assert_null(array);
    for (uint32_t i = 0; i < 5000; i++) {
        assert_int_equal(tg__grow(&array, &cap, i + 1, sizeof *array, "numbers"), TG_OK);
        assert_true(cap > i && cap < 2 * i + 17);
        array[i] = i;
    }
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(array[i], i);
    const size_t before = cap;
    assert_int_equal(tg__grow(&array, &cap, SIZE_MAX / 2, sizeof *array, "numbers"), TG_E_NOMEM);
    assert_non_null(strstr(tg_error(), "numbers"));
    assert_int_equal(cap, before);
    assert_int_equal(array[4999], 4999);
    free(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation),     cmocka_unit_test(too_much),
        cmocka_unit_test(byte_order),     cmocka_unit_test(hash_definition),
        cmocka_unit_test(hash_separates), cmocka_unit_test(arrays_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
