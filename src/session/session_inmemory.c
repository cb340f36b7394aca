/* Checkpoints in memory: what one rank needs to resume, for programs that save it beside state of
 * their own. They have the format of a rank's file, and hold all parameters. */
#include "session/session_ckpt.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/owned.h"

#include <stdlib.h>
#include <string.h>

static tg_status save(tg_session *s, void **bytes_p, size_t *len_p)
{
    tg__ckpt_writer *w;
    TG__FREED char *text = tg__session_identity(s);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint in memory");
    TG_TRY(tg__ckpt_create(NULL, text, &w));
    const tg_status status = tg__session_put_all(s, w, true, NULL, 0);
    if (status == TG_OK)
        return tg__ckpt_commit_memory(w, bytes_p, len_p);
    tg__ckpt_abandon(w);
    return status;
}

tg_status tg_session_save_memory(tg_session *s, const void **bytes_p, size_t *len_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, bytes_p, len_p);
    TG_TRY(tg__session_between_steps(s, "tg_session_save_memory"));
    TG_TRY(tg__session_can_save(s, "tg_session_save_memory"));
    TG_TRY(tg__session_failed(s, tg__session_settle_flight(s)));
    size_t len = 0;
    free(s->saved);
    s->saved = NULL;
    TG_TRY(tg__session_fetch_states(s));
    const tg_status status = save(s, &s->saved, &len);
    tg__session_drop_states(s);
    TG_TRY(status);
    tg__session_round_goes_on(s);
    *bytes_p = s->saved;
    *len_p = len;
    return TG_OK;
}

static tg_status check_place(const tg_session *s, const tg__counters *c)
{
    const int rank = s->transport->rank, size = s->transport->size;
    return c->rank == rank && c->world == size
               ? TG_OK
               : tg_fail(
                     TG_E_MISMATCH,
                     "the checkpoint in memory was saved by rank %d of %d; this is rank %d of %d: "
                     "load that of the same rank, or all of them with tg_session_take_memory",
                     (int)c->rank, (int)c->world, rank, size);
}

static tg_status check_number(const tg__counters *c, int rank, int ranks)
{
    return c->rank == rank && c->world == ranks
               ? TG_OK
               : tg_fail(TG_E_MISMATCH,
                         "checkpoint %d of %d in memory was saved by rank %d of %d: give those of "
                         "all ranks, in order of ranks",
                         rank, ranks, (int)c->rank, (int)c->world);
}

tg_status tg__session_open_image(const tg_session *s, int rank, tg__ckpt_reader **r_p)
{
    const struct tg__image *image = &s->from.image[rank];
    return tg__ckpt_parse(image->bytes, image->len, "in memory", NULL, r_p);
}

tg_status tg__session_look_memory(tg_session *s)
{
    tg__counters c;
    const int ranks = s->from.nimages;
    const int rank = ranks != 0 && ranks == s->transport->size ? s->transport->rank : 0;
    TG_TRY(tg__session_open_image(s, rank, &s->from.own));
    TG_TRY(tg__ckpt_read(s->from.own, "session", &c, sizeof c));
    TG_TRY(ranks == 0 ? check_place(s, &c) : check_number(&c, rank, ranks));
    s->from.step = s->from.newest = c.t;
    return tg__session_look_into(s, s->from.own);
}

static tg_status read_images(tg_session *s)
{
    if (!tg__session_taken_over(s))
        return tg__session_get_all(s, s->from.own, NULL);
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    return tg__session_take_over(s, NULL, NULL);
}

static tg_status load(tg_session *s, const char *dir)
{
    uint64_t hash = 0;
    TG_TRY(tg__session_handshake(s, "load_memory", dir));
    TG_TRY(tg__agree(s->engine, read_images(s)));
    TG_TRY(tg_session_params_hash(s, &hash));
    TG_TRY(tg__session_same_weights(s, hash));
    TG_TRY(tg__session_taken_over(s) ? tg__session_settle_takeover(s) : TG_OK);
    return tg__session_give_states(s);
}

/* The reader needs the bytes aligned. */
static tg_status align(tg__owned *owned, struct tg__image *image)
{
    uint64_t *copy;
    if ((uintptr_t)image->bytes % sizeof *copy == 0)
        return TG_OK;
    TG_TRY(tg__owned_alloc(owned, image->len / sizeof *copy + 1, sizeof *copy, &copy));
    memcpy(copy, image->bytes, image->len);
    image->bytes = copy;
    return TG_OK;
}

static tg_status align_all(tg__owned *owned, const void *const *bytes, const size_t *len,
                           size_t count, struct tg__image **image_p)
{
    TG_TRY(tg__owned_alloc(owned, count, sizeof **image_p, image_p));
    for (size_t i = 0; i < count; i++) {
        (*image_p)[i] = (struct tg__image){bytes[i], len[i]};
        TG_TRY(align(owned, &(*image_p)[i]));
    }
    return TG_OK;
}

/* ranks 0: bytes and len are this rank's alone. */
static tg_status load_from(tg_session *s, const char *call, const void *const *bytes,
                           const size_t *len, size_t ranks)
{
    tg__owned owned = {0};
    struct tg__image *image = NULL;
    tg_status status =
        tg__session_failed(s, align_all(&owned, bytes, len, TG__MAX(ranks, 1), &image));
    s->from.image = image;
    s->from.nimages = (int)ranks;
    if (status == TG_OK)
        status = tg__session_start(s, call, NULL, load);
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    s->from.image = NULL;
    tg__owned_free(&owned);
    return status;
}

tg_status tg_session_load_memory(tg_session *s, const void *bytes, size_t len)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, bytes);
    return load_from(s, "tg_session_load_memory", &bytes, &len, 0);
}

tg_status tg_session_take_memory(tg_session *s, const void *const *bytes, const size_t *len,
                                 size_t ranks)
{
    TG__ARGS(s, bytes, len);
    if (ranks < 1 || ranks > TG_RANKS_MAX)
        return tg_fail(TG_E_ARG, "tg_session_take_memory: ranks=%zu: allowed: 1 to %d", ranks,
                       TG_RANKS_MAX);
    for (size_t i = 0; i < ranks; i++)
        if (bytes[i] == NULL)
            return tg_fail(TG_E_ARG, "tg_session_take_memory: bytes[%zu] is NULL", i);
    return load_from(s, "tg_session_take_memory", bytes, len, ranks);
}
