/* Checkpoints in memory: what one rank needs to resume, for programs that save it beside state of
 * their own. They have the format of a rank's file, and hold all parameters. */
#include "session/session_ckpt.h"
#include "base/arg.h"
#include "base/mem.h"

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
    TG__ARGS(s, bytes_p, len_p);
    TG_TRY(tg__session_between_steps(s, "tg_session_save_memory"));
    TG_TRY(tg__session_failed(s, tg__session_settle_flight(s)));
    size_t len = 0;
    free(s->saved);
    s->saved = NULL;
    TG_TRY(save(s, &s->saved, &len));
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
               : tg_fail(TG_E_MISMATCH,
                         "the checkpoint in memory is of rank %d of %d, and this is rank %d of %d: "
                         "allowed: that of the same rank; tg_session_save and tg_session_load go "
                         "from one number of ranks to another",
                         (int)c->rank, (int)c->world, rank, size);
}

tg_status tg__session_look_memory(tg_session *s)
{
    tg__counters c;
    TG_TRY(tg__ckpt_parse(s->from.bytes, s->from.len, "in memory", NULL, &s->from.own));
    TG_TRY(tg__ckpt_read(s->from.own, "session", &c, sizeof c));
    TG_TRY(check_place(s, &c));
    s->from.step = s->from.newest = c.t;
    return tg__session_look_into(s, s->from.own);
}

static tg_status load(tg_session *s, const char *dir)
{
    uint64_t hash = 0;
    TG_TRY(tg__session_handshake(s, "load_memory", dir));
    TG_TRY(tg__agree(s->engine, tg__session_get_all(s, s->from.own, NULL)));
    TG_TRY(tg_session_params_hash(s, &hash));
    return tg__session_same_weights(s, hash);
}

/* The reader needs the bytes aligned. */
static tg_status load_aligned(tg_session *s, const void *bytes, size_t len)
{
    s->from.bytes = bytes;
    s->from.len = len;
    const tg_status status = tg__session_start(s, "tg_session_load_memory", NULL, load);
    tg__ckpt_close(s->from.own);
    s->from.own = NULL;
    s->from.bytes = NULL;
    return status;
}

tg_status tg_session_load_memory(tg_session *s, const void *bytes, size_t len)
{
    TG__ARGS(s, bytes);
    TG__FREED uint64_t *copy = NULL;
    if ((uintptr_t)bytes % sizeof *copy == 0)
        return load_aligned(s, bytes, len);
    TG_TRY(tg__session_failed(s, tg_alloc(len / sizeof *copy + 1, sizeof *copy, &copy)));
    memcpy(copy, bytes, len);
    return load_aligned(s, copy, len);
}
