/* Shared by the fuzz targets. */
#ifndef TESTS_FUZZ_TOOLS_H
#define TESTS_FUZZ_TOOLS_H

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Needed by headers written for cmocka's tests. */
#define assert_true(fact) ((fact) ? (void)0 : abort())
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_memory_equal(a, b, len) assert_true(memcmp(a, b, len) == 0)
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), abort())

/* Copy bytes to a block of their own, so that a sanitizer guards both ends. */
static inline void *fuzz_copy(const void *bytes, size_t len)
{
    void *p = malloc(len ? len : 1);
    if (!p)
        abort();
    if (bytes && len > 0)
        memcpy(p, bytes, len);
    return p;
}

static inline float *fuzz_floats(size_t n)
{
    float *p = calloc(n ? n : 1, sizeof *p);
    if (!p)
        abort();
    return p;
}

/* A refusal must have a message. */
static inline void fuzz_refused(tg_status status)
{
    if (status != TG_OK && !*tg_error())
        abort();
}

/* ---- input of fuzz_codec_NAME: a coded frame of that codec
 *
 *     0  2  aux
 *     2  4  n
 *     6  4  payload length, reached by repeating what follows; 0: as it is */
enum { FUZZ_DECODE_HEAD = 10 };

/* ---- input of fuzz_encode_NAME: what is encoded and how
 *
 *     0  1  number of the spec (see codec_specs.h)     1  1  bit 0: with a context; above: rows
 *     2  2  n                                            4  2  cut between two parts
 *     6  2  cut between two segments                     8  1  density, in 1/255
 *     9  1  seed                                        10     floats, repeated as often as needed
 */
enum { FUZZ_ENCODE_HEAD = 10, FUZZ_ENCODE_MAX = 4200 };

#endif
