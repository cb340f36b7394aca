#include "engine/handshake.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/settings.h"
#include "exchange/gather.h"
#include "engine/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the text: raise it whenever what the lines say changes, so that other builds are refused as
 * such. Builds before version 2 give none. */
#define TEXT_VERSION 3u
#define TEXT_CAP 65536u /* longer texts are cut and end in a hash of the rest: */
#define REST "rest="

/* Compare the settings of two ranks; name the first difference. */
static tg_status compare(const int rank[2], tg__settings own, tg__settings other)
{
    tg__unlike u;
    if (!tg__settings_differ(own, other, NULL, &u))
        return TG_OK;
    if (strncmp(u.text[0], REST, sizeof REST - 1) == 0)
        return tg_fail(
            TG_E_MISMATCH,
            "ranks were started differently: the settings of rank %d differ from those of rank %d "
            "beyond the first %u bytes (tensors or segments near the end of the list)",
            rank[0], rank[1], TEXT_CAP);
    for (int i = 0; i < 2; i++)
        tg__make_printable(u.text[i]);
    const bool version =
        strncmp(u.text[0], "telegrad=", 9) == 0 || strncmp(u.text[0], "wire=", 5) == 0;
    const int with = u.has[0] ? 0 : 1, without = 1 - with;
    return tg_fail(version ? TG_E_VERSION : TG_E_MISMATCH,
                   "ranks were started differently: rank %d has %s, rank %d has %s%s", rank[with],
                   u.text[with], rank[without], u.has[without] ? "" : "no such ", u.text[without]);
}

/* The claim followed by the text; *len_p: bytes of both. */
static char *full_text(const char *text, size_t *len_p)
{
    size_t len = strlen(text) + 128;
    char *claim = malloc(TG__CLAIM_BYTES + len);
    if (claim == NULL)
        return NULL;
    char *full = claim + TG__CLAIM_BYTES;
    len = (size_t)snprintf(full, len, "telegrad=%s\nwire=%u, settings %u\n%s", tg_version(),
                           TG__ENVELOPE_VERSION, TEXT_VERSION, text);
    if (len > TEXT_CAP) {
        uint64_t rest = tg_hash(TG_HASH_START, full + TEXT_CAP - 32, len - (TEXT_CAP - 32));
        len = TEXT_CAP - 32 +
              (size_t)snprintf(full + TEXT_CAP - 32, 32, "\n" REST "%016llx",
                               (unsigned long long)rest);
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
            return tg_fail(TG_E_CORRUPT, "handshake of rank %d: %zu bytes: allowed: at least %u",
                           rank, len, TG__CLAIM_BYTES);
        if (!(claim[4] & 1))
            return tg_fail(TG_E_CORRUPT, "handshake of rank %d: the reserved tags are marked free",
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
            TG_TRY(compare((const int[]){x->rank, rank}, (tg__settings){own + c, len - c},
                           (tg__settings){(const char *)other + c, other_len - c}));
        tg__claim_merge(claims, other);
        const uint32_t taken = tg__claim_count(other);
        *fullest_p = taken > most ? rank : *fullest_p;
        most = TG__MAX(most, taken);
    }
    return TG_OK;
}

static tg_status shake(tg__engine *e, const char *own, size_t len, uint32_t at_once)
{
    const tg__speech speech = {.own = own, .len = len, .cap = TG__CLAIM_BYTES + TEXT_CAP};
    uint8_t claims[TG__CLAIM_BYTES];
    int liar = -1, fullest = 0;
    tg__op *op;
    TG_TRY(tg__collect(e, "the handshake", &speech, &op));
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
    TG__FREED char *own = full_text(text, &len);
    if (own == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory in the handshake");
    tg__engine_begin_setup(e, (uint8_t *)own);
    tg_status status = shake(e, own, len, at_once);
    tg__engine_end_setup(e);
    return status;
}
