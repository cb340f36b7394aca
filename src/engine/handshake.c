#include "engine/handshake.h"
#include "base/mem.h"
#include "exchange/gather.h"
#include "engine/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_CAP 65536u /* longer texts are cut and end in a hash of the rest */

static size_t line_length(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);
    return end == NULL ? len : (size_t)(end - text);
}

/* Compare line by line; name the first difference. */
static tg_status compare(const char *own, size_t own_len, const char *other, size_t other_len,
                         int own_rank, int rank)
{
    while (own_len > 0 || other_len > 0) {
        size_t a = line_length(own, own_len), b = line_length(other, other_len);
        if (a != b || memcmp(own, other, a) != 0) {
            bool version = strncmp(own, "telegrad=", 9) == 0 || strncmp(own, "wire=", 5) == 0;
            return tg_fail(version ? TG_E_VERSION : TG_E_MISMATCH,
                           "ranks were started differently: rank %d has %.*s, rank %d has %.*s",
                           own_rank, a == 0 ? 7 : (int)TG__MIN(a, 200u), a == 0 ? "nothing" : own,
                           rank, b == 0 ? 7 : (int)TG__MIN(b, 200u), b == 0 ? "nothing" : other);
        }
        a += a < own_len;
        b += b < other_len;
        own += a, own_len -= a;
        other += b, other_len -= b;
    }
    return TG_OK;
}

/* The claim followed by the text; *len_p: bytes of both. */
static char *full_text(const char *text, size_t *len_p)
{
    size_t len = strlen(text) + 128;
    char *claim = malloc(TG__CLAIM_BYTES + len);
    if (claim == NULL)
        return NULL;
    char *full = claim + TG__CLAIM_BYTES;
    len = (size_t)snprintf(full, len, "telegrad=%s\nwire=%u\n%s", tg_version(),
                           TG__ENVELOPE_VERSION, text);
    if (len > TEXT_CAP) {
        uint64_t rest = tg_hash(TG_HASH_START, full + TEXT_CAP - 32, len - (TEXT_CAP - 32));
        len =
            TEXT_CAP - 32 +
            (size_t)snprintf(full + TEXT_CAP - 32, 32, "\nrest=%016llx", (unsigned long long)rest);
    }
    *len_p = TG__CLAIM_BYTES + len;
    return claim;
}

/* Check that every rank's message is well-formed, as any honest rank's is. */
static tg_status check(const tg__exchange *x, int *liar_p)
{
    for (int rank = 0; rank < x->size; rank++) {
        size_t len;
        const uint8_t *claim = tg__gather_get(x, rank, &len);
        *liar_p = rank;
        if (len < TG__CLAIM_BYTES)
            return tg_fail(TG_E_CORRUPT, "rank %d sent %zu bytes in the handshake: at least %u",
                           rank, len, TG__CLAIM_BYTES);
        if (!(claim[4] & 1))
            return tg_fail(TG_E_CORRUPT,
                           "rank %d says in the handshake that the tags of handshakes are free",
                           rank);
    }
    return TG_OK;
}

/* Examine what all ranks sent. claims: set to theirs, merged. *fullest_p: the rank with the most
 * taken blocks. */
static tg_status judge(const tg__exchange *x, const char *own, size_t len,
                       uint8_t claims[TG__CLAIM_BYTES], int *fullest_p)
{
    const size_t c = TG__CLAIM_BYTES;
    uint32_t most = 0;
    memset(claims, 0, c);
    for (int rank = 0; rank < x->size; rank++) {
        size_t other_len;
        const uint8_t *other = tg__gather_get(x, rank, &other_len);
        if (rank != x->rank)
            TG_TRY(
                compare(own + c, len - c, (const char *)other + c, other_len - c, x->rank, rank));
        tg__claim_merge(claims, other);
        const uint32_t taken = tg__claim_count(other);
        *fullest_p = taken > most ? rank : *fullest_p;
        most = TG__MAX(most, taken);
    }
    return TG_OK;
}

static tg_status shake(tg__engine *e, char *own, size_t len, uint32_t at_once)
{
    const tg__speech speech = {.own = own, .len = len, .cap = TG__CLAIM_BYTES + TEXT_CAP};
    uint8_t claims[TG__CLAIM_BYTES];
    int liar = -1, fullest = 0;
    tg__op *op;
    tg__engine_claim(e, claims);
    memcpy(own, claims, sizeof claims);
    TG_TRY(tg__collect_alike(e, "the handshake", &speech, &op));
    tg_status status = check(op->x, &liar);
    if (status != TG_OK)
        tg__engine_give_up(e, status, liar);
    else
        status = judge(op->x, own, len, claims, &fullest);
    tg__op_release(e, op);
    TG_TRY(status);
    const uint64_t hash = tg_hash(TG_HASH_START, own + TG__CLAIM_BYTES, len - TG__CLAIM_BYTES);
    status = tg__engine_join(e, claims, hash, at_once);
    return status == TG_OK
               ? TG_OK
               : tg_fail(status, "%s; rank %d has given away most", tg_error(), fullest);
}

tg_status tg__handshake(tg__engine *e, const char *text, uint32_t at_once)
{
    size_t len = 0;
    char *own = full_text(text, &len);
    if (own == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory in the handshake");
    tg__engine_begin_setup(e);
    tg_status status = shake(e, own, len, at_once);
    tg__engine_end_setup(e);
    free(own);
    return status;
}
