#include "engine/claim.h"
#include "base/mem.h"

void tg__claim_merge(uint8_t all[TG__CLAIM_BYTES], const uint8_t one[TG__CLAIM_BYTES])
{
    tg__put32(all, TG__MAX(tg__get32(all), tg__get32(one)));
    for (uint32_t i = 4; i < TG__CLAIM_BYTES; i++)
        all[i] |= one[i];
}

static bool is_free(const uint8_t *claim, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (claim[4 + i / 8] >> i % 8 & 1)
            return false;
    return true;
}

uint32_t tg__claim_find(const uint8_t claim[TG__CLAIM_BYTES], uint32_t blocks, uint32_t *first_p)
{
    for (uint32_t count = blocks; count > 0; count /= 2)
        for (uint32_t first = 0; first + count <= TG__BLOCKS; first += count)
            if (is_free(claim, first, count)) {
                *first_p = first;
                return count;
            }
    return 0;
}

uint32_t tg__claim_count(const uint8_t claim[TG__CLAIM_BYTES])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TG__BLOCKS; i++)
        count += !is_free(claim, i, 1);
    return count;
}

void tg__claim_mark(uint8_t claim[TG__CLAIM_BYTES], uint32_t first, uint32_t count, bool taken)
{
    for (uint32_t i = first; i < first + count; i++) {
        const uint8_t bit = (uint8_t)(1u << i % 8);
        claim[4 + i / 8] = (uint8_t)(taken ? claim[4 + i / 8] | bit : claim[4 + i / 8] & ~bit);
    }
}
