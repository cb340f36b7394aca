#include "train/train_util.h"
#include <stdlib.h>
#include <string.h>

tg_status train_alloc(size_t count, size_t size, void *ptr_p)
{
    void *p = NULL;
    if (size == 0 || count <= (PTRDIFF_MAX - 64) / size) {
        size_t bytes = count * size;
        bytes = (bytes + 63) / 64 * 64;
        bytes = bytes ? bytes : 64;
        p = aligned_alloc(64, bytes);
        if (p)
            memset(p, 0, bytes);
    }
    if (!p)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu elements of %zu bytes", count, size);
    memcpy(ptr_p, &p, sizeof p);
    return TG_OK;
}

uint64_t train_hash(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}
