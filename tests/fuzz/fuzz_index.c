/* An ignored byte, a parameter, n and k, followed by any bytes as an index list in the coding
 * FUZZ_INDEX. The list is refused, or gives k ascending indices below n that encode to the same
 * bytes again: every list has exactly one code. */
#include "base/mem.h"
#include "wire/index.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    int coding = FUZZ_INDEX, param = data[1] % 34 - 1;
    size_t n = tg__get32(data + 2) % (1u << 29), k = tg__get32(data + 6) % (1u << 16);
    size_t len = size - HEAD, cap = 1 + (size_t)data[1] % 97, done = 0, count;
    uint8_t *code = malloc(len ? len : 1), *again = malloc(len ? len : 1);
    uint32_t *idx = malloc((k + 1) * sizeof(*idx));
    if (!code || !again || !idx)
        abort();
    if (len > 0)
        memcpy(code, data + HEAD, len);
    tg_status whole = tg__index_check(coding, param, n, k, code, len);
    tg__index_reader r;
    tg_status status = tg__index_read_begin(&r, coding, param, n, k, code, len);
    while (status == TG_OK) {
        status = tg__index_read(&r, idx + done, TG__MIN(cap, k - done), &count);
        if (status != TG_OK)
            break;
        for (size_t i = done; i < done + count; i++)
            if (idx[i] >= n || (i > 0 && idx[i] <= idx[i - 1]))
                abort();
        done += count;
        if (count == 0)
            break;
    }
    if (status != whole || (status == TG_OK && done != k))
        abort();
    if (status == TG_OK) {
        tg__index_plan plan = {coding, param, len};
        tg__index_write(&plan, idx, k, n, again);
        if (len > 0 && memcmp(code, again, len) != 0)
            abort();
    }
    free(code);
    free(again);
    free(idx);
    return 0;
}
