/* States of servers, in files that are valid as such: any pieces. Each is refused, or its pieces
 * can be taken, by any server of several. An entry of the table takes 8 bytes of the input, and the
 * bytes of a piece follow it: bucket, kind and number, first element, elements, width, runs, and
 * the number of bytes (2). */
#include "base/mem.h"
#include "server/kept.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES = 16, ENTRY = 7, N = 1024 };

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* Returns the bytes (len) of a file. */
static void *write_file(const uint8_t *data, size_t size, size_t *len_p)
{
    uint64_t table[PIECES * ENTRY];
    tg__ckpt_writer *w;
    void *bytes;
    size_t count = 0;
    if (tg__ckpt_create(NULL, "a=b\n", &w) != TG_OK)
        abort();
    for (; count < PIECES && size >= 8; count++) {
        const size_t len = TG__MIN((size_t)data[6] + 256u * data[7], size - 8);
        const uint64_t entry[ENTRY] = {data[0] & 1,
                                       data[0] >> 1 & 15,
                                       data[0] >> 5,
                                       (uint64_t)data[1] * 4,
                                       (uint64_t)data[2] * 4,
                                       data[3],
                                       (uint64_t)data[4] + 256u * data[5]};
        char name[32];
        memcpy(table + count * ENTRY, entry, sizeof entry);
        snprintf(name, sizeof name, "piece %zu", count);
        if (tg__ckpt_put(w, name, data + 8, len) != TG_OK)
            abort();
        data += 8 + len;
        size -= 8 + len;
    }
    if (tg__ckpt_put(w, "pieces", table, count * ENTRY * sizeof *table) != TG_OK ||
        tg__ckpt_commit_memory(w, &bytes, len_p) != TG_OK)
        abort();
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    void *bytes = write_file(data, size, &len);
    float *dst = must(calloc(N, sizeof *dst));
    for (int server = 0; server < 3; server++) {
        tg__kept k = {0};
        if (tg__kept_add(&k, bytes, len, 1, "a=b\n") != TG_OK && !*tg_error())
            abort();
        tg__kept_cut(&k, 1, server, 3);
        for (unsigned i = 0; i < 2 * TG__KEPT_KINDS; i++) {
            const tg__kept_key key = {1, (uint16_t)(i & 1), (uint16_t)(i / 2), 0};
            const uint32_t *words = tg__kept_at(&k, key, 100, 2);
            if (words != NULL)
                dst[0] = (float)(words[0] ^ words[1]);
            (void)tg__kept_take(&k, key, 100, N, dst);
            (void)tg__kept_take(&k, key, 0, 100, dst);
        }
        tg__kept_free(&k);
    }
    free(dst);
    free(bytes);
    return 0;
}
