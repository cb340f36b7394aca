/* Any bytes as a checkpoint file. It is parsed without a fault, and all results lie inside it. */
#include "base/mem.h"
#include "state/checkpoint.h"
#include "state/slots.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Make the slots that the files of the corpus have. */
static tg__state *make_state(void)
{
    static const char *const names[] = {"w", "b"};
    static const size_t sizes[] = {5, 2};
    tg__state *s;
    float *r;
    uint8_t *counter;
    if (tg__state_create(&s) != TG_OK ||
        tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "residual", names, sizes, 2, &r) !=
            TG_OK ||
        tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "w", "counter", 3, &counter) != TG_OK)
        abort();
    return s;
}

/* Correct the checksums as far as lengths allow, so that the code after those checks is reached. */
static void mend(uint8_t *bytes, size_t size)
{
    const tg__kernels *k = tg__kernel();
    if (size < TG__CKPT_HEAD)
        return;
    tg__put32(bytes + 12, k->crc32c(0, bytes, 12));
    for (size_t at = TG__CKPT_HEAD; size - at >= TG__CKPT_HEAD;) {
        uint8_t *head = bytes + at;
        uint64_t len = tg__get64(head), left = size - at - TG__CKPT_HEAD;
        uint64_t name_len = tg__get32(head + 8), name_bytes = name_len + tg__ckpt_pad(name_len);
        uint32_t crc = k->crc32c(0, head, 12);
        if (name_len == 0)
            len = 0; /* stop */
        if (name_bytes > left || len > left - name_bytes ||
            tg__ckpt_pad(len) > left - name_bytes - len)
            return;
        size_t body = (size_t)(name_bytes + len) + tg__ckpt_pad(len);
        tg__put32(head + 12, k->crc32c(crc, head + TG__CKPT_HEAD, body));
        at += TG__CKPT_HEAD + body;
    }
}

static void try_parse(const uint8_t *bytes, size_t size)
{
    tg__ckpt_reader *r;
    if (tg__ckpt_parse(bytes, size, "input", "model lenet5\nworld 4\n", &r) == TG_OK)
        tg__ckpt_close(r);
    if (tg__ckpt_parse(bytes, size, "input", NULL, &r) != TG_OK)
        return;
    const void *params;
    size_t len;
    if (tg__ckpt_get(r, "params", SIZE_MAX, &params, &len) == TG_OK) {
        const uint8_t *begin = params;
        if (begin < bytes || len > size || begin + len > bytes + size)
            abort();
    }
    tg__state *s = make_state();
    tg_status status = tg__ckpt_get_state(r, s);
    if (status != TG_OK && status != TG_E_MISMATCH)
        abort();
    tg__state_destroy(s);
    tg__ckpt_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = calloc(size ? size : 1, 1); /* a sanitizer guards its end */
    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    try_parse(bytes, size);
    mend(bytes, size);
    try_parse(bytes, size);
    free(bytes);
    return 0;
}
