#include "engine/handshake.h"
#include "base/mem.h"
#include "exchange/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_CAP 65536u /* longer texts end in a hash of the rest */

/* What this rank says, len of at most cap bytes; the lowest `full` ranks say cap. */
typedef struct speech {
    const void *own;
    size_t len, cap;
    int full;
} speech;

static tg_status run(tg__engine *e, const speech *s, tg__op *op)
{
    tg_transport *t = tg__engine_transport(e);
    TG_TRY(tg__gather_create(t->rank, t->size, s->cap, &op->x));
    tg__gather_set(op->x, s->own, s->len);
    for (int rank = 0; rank < s->full; rank++)
        tg__gather_expect(op->x, rank, s->cap);
    TG_TRY(tg__engine_submit(e, op));
    return tg__engine_wait(e, op);
}

static tg_status gather(tg__engine *e, const speech *s, tg__op **op_p)
{
    tg__op *op;
    TG_TRY(tg_alloc(1, sizeof *op, &op));
    tg_status status = run(e, s, op);
    if (status == TG_OK)
        *op_p = op;
    else
        tg__op_release(e, op);
    return status;
}

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

/* A claim, then the text; *len_p: bytes of both. */
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

/* Look at what all ranks said; claims becomes theirs, merged. */
static tg_status judge(const tg__exchange *x, const char *own, size_t len,
                       uint8_t claims[TG__CLAIM_BYTES])
{
    const size_t c = TG__CLAIM_BYTES;
    memset(claims, 0, c);
    for (int rank = 0; rank < x->size; rank++) {
        size_t other_len;
        const uint8_t *other = tg__gather_get(x, rank, &other_len);
        if (other_len < c)
            return tg_fail(TG_E_CORRUPT, "rank %d sent %zu bytes in the handshake: at least %zu",
                           rank, other_len, c);
        if (rank != x->rank)
            TG_TRY(
                compare(own + c, len - c, (const char *)other + c, other_len - c, x->rank, rank));
        tg__claim_merge(claims, other);
    }
    return TG_OK;
}

static tg_status shake(tg__engine *e, char *own, size_t len, uint32_t at_once)
{
    uint8_t claims[TG__CLAIM_BYTES];
    tg__op *op;
    tg__engine_claim(e, claims);
    memcpy(own, claims, sizeof claims);
    TG_TRY(gather(e, &(speech){.own = own, .len = len, .cap = TG__CLAIM_BYTES + TEXT_CAP}, &op));
    tg_status status = judge(op->x, own, len, claims);
    tg__op_release(e, op);
    TG_TRY(status);
    const uint64_t hash = tg_hash(TG_HASH_START, own + TG__CLAIM_BYTES, len - TG__CLAIM_BYTES);
    return tg__engine_join(e, claims, hash, at_once);
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

tg_status tg__gather_all(tg__engine *e, const void *own, size_t len, void *all)
{
    const int size = tg__engine_transport(e)->size;
    tg__op *op = NULL;
    TG_TRY(gather(e, &(speech){.own = own, .len = len, .cap = len, .full = size}, &op));
    for (int rank = 0; rank < size; rank++) {
        const uint8_t *bytes = tg__gather_get(op->x, rank, &len);
        memcpy((uint8_t *)all + (size_t)rank * len, bytes, len);
    }
    tg__op_release(e, op);
    return TG_OK;
}

tg_status tg__share(tg__engine *e, void *data, size_t len)
{
    const bool says = tg__engine_transport(e)->rank == 0;
    tg__op *op = NULL;
    TG_TRY(gather(e, &(speech){.own = data, .len = says ? len : 0, .cap = len, .full = 1}, &op));
    const uint8_t *bytes = tg__gather_get(op->x, 0, &len);
    memcpy(data, bytes, len);
    tg__op_release(e, op);
    return TG_OK;
}

typedef struct verdict { /* of one rank, sent to all */
    int32_t status;
    char text[476];
} verdict;

tg_status tg__agree(tg__engine *e, tg_status own)
{
    const int size = tg__engine_transport(e)->size;
    verdict mine = {.status = (int32_t)own}, *all;
    if (own != TG_OK)
        snprintf(mine.text, sizeof mine.text, "%s", tg_error());
    TG_TRY(tg_alloc((size_t)size, sizeof *all, &all));
    tg_status status = tg__gather_all(e, &mine, sizeof mine, all);
    for (int rank = 0; status == TG_OK && rank < size; rank++) {
        all[rank].text[sizeof all[rank].text - 1] = 0;
        if (all[rank].status != TG_OK) {
            status = tg_fail((tg_status)all[rank].status, "rank %d: %s", rank, all[rank].text);
            tg__engine_all_know(e);
        }
    }
    free(all);
    return status;
}
