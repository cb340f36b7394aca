/* What servers have between steps, in a checkpoint: rank 0 gets it from them, and gives it to those
 * of the job that resumes (exchange/star_state.h). The other ranks leave these exchanges out. */
#include "base/mem.h"
#include "base/printable.h"
#include "exchange/star.h"
#include "exchange/star_state.h"
#include "session/session_ckpt.h"
#include "transport/endpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking servers -------------------------------------------------------------------------- */

/* After so many messages rank 0 meets the others, who would otherwise wait for too long. */
#define TOGETHER 64

typedef struct talk {
    tg_session *s;
    int servers;
    uint64_t sent;   /* messages to each server */
    size_t each;     /* bytes of each server's part: a multiple of 64, as vectors are cut */
    uint8_t *vector; /* (servers * each) */
    tg_codec *codec;
} talk;

static void hang_up(talk *t)
{
    free(t->vector);
    tg_codec_destroy(t->codec);
}

/* most: bytes of the longest state that the messages must carry; 0: none */
static tg_status call(tg_session *s, size_t most, talk *t)
{
    const size_t wanted = (TG__ASK_HEAD + most + 63) / 64 * 64;
    *t = (talk){.s = s, .servers = tg__servers_of(s->transport)};
    t->each = TG__MAX(TG__ASK_LEAST, TG__MIN(TG__ASK_MOST, wanted));
    TG_TRY(tg_alloc((size_t)t->servers, t->each, &t->vector));
    return tg_codec_create("f32", &t->codec);
}

static uint8_t *part_of(const talk *t, int server)
{
    return t->vector + (size_t)server * t->each;
}

/* Bytes that a message carries to or from each server. */
static size_t room_of(const talk *t)
{
    return t->each - TG__ASK_HEAD;
}

static size_t messages_for(const talk *t, size_t len)
{
    return (len + room_of(t) - 1) / room_of(t);
}

static float *numbers(const talk *t)
{
    return (float *)(void *)t->vector;
}

static tg_status make_exchange(const talk *t, tg__op *op)
{
    const tg_session *s = t->s;
    const size_t n = (size_t)t->servers * t->each / sizeof(float);
    TG_TRY(tg__exchange_create_served(tg__exchange_find("star"), s->transport->rank,
                                      s->transport->size, t->servers, n, t->codec,
                                      &tg__combine_state, &op->x));
    op->task.step = s->t;
    return tg__codec_encode(t->codec, NULL, numbers(t), n, op->x->parts, op->x->nparts, NULL);
}

static tg_status run_exchange(const talk *t, tg__op *op)
{
    TG_TRY(tg__engine_submit(t->s->engine, op));
    TG_TRY(tg__engine_wait(t->s->engine, op));
    op->x->ops->result(op->x, numbers(t));
    return TG_OK;
}

static bool is_expected(tg_status status)
{
    return status == TG_E_UNSUPPORTED || status == TG_E_STATE || status == TG_E_MISMATCH ||
           status == TG_E_VERSION || status == TG_E_NOMEM;
}

static tg_status check_answer(const talk *t, int server)
{
    char text[600];
    const tg__state_head head = tg__state_head_read(part_of(t, server));
    if (head.len > room_of(t))
        return tg_fail(TG_E_CORRUPT, "server %d: %u bytes of its state in a message of %zu", server,
                       head.len, t->each);
    const tg_status status = (tg_status)head.what;
    if (status == TG_OK)
        return TG_OK;
    snprintf(text, sizeof text, "%.*s", (int)head.len,
             (const char *)part_of(t, server) + TG__ASK_HEAD);
    tg__make_printable(text);
    return tg_fail(is_expected(status) ? status : TG_E_CORRUPT, "server %d: %s", server, text);
}

/* Send the requests, and get the answers in their place. The other ranks leave out as many
 * exchanges, also if this one fails. */
static tg_status ask(talk *t)
{
    tg__op *op = NULL;
    tg_status status = tg_alloc(1, sizeof *op, &op);
    if (status == TG_OK)
        status = make_exchange(t, op);
    if (status == TG_OK)
        status = run_exchange(t, op);
    else
        tg__engine_skip(t->s->engine, 1);
    if (op != NULL)
        tg__op_release(t->s->engine, op);
    for (int q = 0; status == TG_OK && q < t->servers; q++)
        status = check_answer(t, q);
    if (++t->sent % TOGETHER != 0)
        return status;
    tg__latch failure = {0};
    tg__latch_set(&failure, status);
    tg__latch_set(&failure, tg__agree(t->s->engine, TG_OK));
    return tg__latch_get(&failure);
}

/* What another rank does while rank 0 sends so many messages. */
static tg_status leave_out(tg_session *s, uint64_t messages)
{
    for (; messages >= TOGETHER; messages -= TOGETHER) {
        tg__engine_skip(s->engine, TOGETHER);
        TG_TRY(tg__agree(s->engine, TG_OK));
    }
    tg__engine_skip(s->engine, messages);
    return TG_OK;
}

/* The same request to all. */
static tg_status ask_all(talk *t, enum tg__state_request what)
{
    for (int q = 0; q < t->servers; q++)
        tg__state_head_write(part_of(t, q), (tg__state_head){.what = what});
    return ask(t);
}

/* ---- getting --------------------------------------------------------------------------------- */

void tg__session_drop_states(tg_session *s)
{
    for (int q = 0; q < s->states.count; q++)
        free(s->states.of[q].bytes);
    free(s->states.of);
    s->states.of = NULL;
    s->states.count = 0;
}

static tg_status make_states(tg_session *s, int count)
{
    tg__session_drop_states(s);
    TG_TRY(tg_alloc((size_t)count, sizeof *s->states.of, &s->states.of));
    s->states.count = count;
    return TG_OK;
}

static size_t longest(const tg_session *s)
{
    size_t most = 0;
    for (int q = 0; q < s->states.count; q++)
        most = TG__MAX(most, s->states.of[q].len);
    return most;
}

static tg__state_of own_elements(const tg_session *s)
{
    tg__state_of of = {.tensors = s->ntensors};
    for (size_t b = 0; b < s->nbuckets; b++)
        of.elements += s->bucket[b].n;
    return of;
}

static tg_status make_room(tg_session *s, const talk *t, int server)
{
    struct tg__server_state *state = &s->states.of[server];
    const uint64_t len = tg__state_head_read(part_of(t, server)).at;
    if (tg__state_check(own_elements(s), len) != TG_OK)
        return tg_fail(TG_E_CORRUPT, "server %d: %s", server, tg_error());
    state->len = (size_t)len;
    return tg_alloc(state->len, 1, &state->bytes);
}

/* Find how long the states are, and make room for them. */
static tg_status prepare(tg_session *s, talk *t)
{
    talk first;
    tg_status status = call(s, 0, &first);
    if (status == TG_OK)
        status = ask_all(&first, TG__ASK_COLLECT);
    else
        tg__engine_skip(s->engine, 1);
    if (status == TG_OK)
        status = make_states(s, first.servers);
    for (int q = 0; status == TG_OK && q < first.servers; q++)
        status = make_room(s, &first, q);
    hang_up(&first);
    return status == TG_OK ? call(s, longest(s), t) : status;
}

static tg_status read_some(tg_session *s, talk *t, size_t at)
{
    for (int q = 0; q < t->servers; q++)
        tg__state_head_write(
            part_of(t, q),
            (tg__state_head){.what = TG__ASK_READ, .at = TG__MIN(at, s->states.of[q].len)});
    TG_TRY(ask(t));
    for (int q = 0; q < t->servers; q++) {
        const struct tg__server_state *state = &s->states.of[q];
        const size_t from = TG__MIN(at, state->len), len = TG__MIN(room_of(t), state->len - from);
        const uint8_t *part = part_of(t, q);
        if (tg__state_head_read(part).len != len)
            return tg_fail(TG_E_CORRUPT, "server %d: %u bytes of its state: expected %zu", q,
                           tg__state_head_read(part).len, len);
        memcpy((uint8_t *)state->bytes + from, part + TG__ASK_HEAD, len);
    }
    return TG_OK;
}

/* All messages that the other ranks leave out are sent, also after an error. */
static tg_status read_all(tg_session *s, talk *t, uint64_t messages)
{
    tg__latch failure = {0};
    for (uint64_t i = 0; i < messages; i++)
        tg__latch_set(&failure, read_some(s, t, (size_t)i * room_of(t)));
    return tg__latch_get(&failure);
}

/* Where ranks make steps one by one, those that are here first wait for the others. Then all have
 * the parameters of that moment, which are those that are saved. */
static tg_status meet(tg_session *s)
{
    TG_TRY(tg__agree(s->engine, TG_OK));
    return tg__session_share_parameters(s);
}

tg_status tg__session_fetch_states(tg_session *s)
{
    const bool first = s->transport->rank == 0;
    talk t = {0};
    uint64_t messages = 0;
    tg_status status = TG_OK;
    if (tg__servers_of(s->transport) == 0)
        return TG_OK;
    if (s->strategy->ops->served)
        TG_TRY(meet(s));
    if (first)
        status = prepare(s, &t);
    else
        tg__engine_skip(s->engine, 1);
    if (first && status == TG_OK)
        messages = messages_for(&t, longest(s));
    status = tg__agree(s->engine, status);
    if (status == TG_OK)
        status = tg__share(s->engine, NULL, &messages, sizeof messages);
    if (status == TG_OK && first)
        status = read_all(s, &t, messages);
    else if (status == TG_OK)
        status = leave_out(s, messages);
    hang_up(&t);
    return status == TG_OK || messages > 0 ? tg__agree(s->engine, status) : status;
}

/* ---- giving ---------------------------------------------------------------------------------- */

static tg_status announce(const tg_session *s, talk *t, int only)
{
    const tg__state_of of = own_elements(s);
    for (int q = 0; q < t->servers; q++) {
        const struct tg__server_state *state = &s->states.of[only < 0 ? q : only];
        uint8_t *body = part_of(t, q) + TG__ASK_HEAD;
        tg__put64(body, of.elements);
        tg__put64(body + 8, of.tensors);
        tg__state_head_write(
            part_of(t, q),
            (tg__state_head){.what = TG__ASK_EXPECT, .len = sizeof of, .at = state->len});
    }
    return ask(t);
}

/* Send the state of each server, or one of them to all, from byte `at` on. */
static tg_status write_some(const tg_session *s, talk *t, int only, size_t at)
{
    for (int q = 0; q < t->servers; q++) {
        const struct tg__server_state *state = &s->states.of[only < 0 ? q : only];
        const size_t from = TG__MIN(at, state->len), len = TG__MIN(room_of(t), state->len - from);
        tg__state_head_write(
            part_of(t, q),
            (tg__state_head){.what = TG__ASK_WRITE, .len = (uint32_t)len, .at = from});
        memcpy(part_of(t, q) + TG__ASK_HEAD, (const uint8_t *)state->bytes + from, len);
    }
    return ask(t);
}

/* EXPECT, WRITE, TAKE */
static size_t messages_of(const tg_session *s, const talk *t, int only)
{
    return messages_for(t, only < 0 ? longest(s) : s->states.of[only].len) + 2;
}

static tg_status write_state(const tg_session *s, talk *t, int only)
{
    tg__latch failure = {0};
    tg__latch_set(&failure, announce(s, t, only));
    for (size_t i = 0; i + 2 < messages_of(s, t, only); i++)
        tg__latch_set(&failure, write_some(s, t, only, i * room_of(t)));
    tg__latch_set(&failure, ask_all(t, TG__ASK_TAKE));
    return tg__latch_get(&failure);
}

static bool same_servers(const tg_session *s)
{
    return s->states.count == tg__servers_of(s->transport);
}

/* As many servers as before take their own states. Otherwise each gets all, and keeps its part. */
static tg_status write_all(const tg_session *s, talk *t)
{
    tg__latch failure = {0};
    if (same_servers(s))
        return write_state(s, t, -1);
    for (int q = 0; q < s->states.count; q++)
        tg__latch_set(&failure, write_state(s, t, q));
    tg__latch_set(&failure, ask_all(t, TG__ASK_CUT));
    return tg__latch_get(&failure);
}

/* What rank 0 tells the others. */
typedef struct plan {
    uint64_t any, messages;
} plan;

static tg_status plan_all(tg_session *s, talk *t, plan *p)
{
    TG_TRY(call(s, longest(s), t));
    uint64_t messages = same_servers(s) ? messages_of(s, t, -1) : 1; /* CUT */
    for (int q = 0; !same_servers(s) && q < s->states.count; q++)
        messages += messages_of(s, t, q);
    *p = (plan){.any = 1, .messages = messages};
    return TG_OK;
}

/* In the past, checkpoints had nothing of servers. */
static tg_status note_none(tg_session *s)
{
    bool codes = false;
    if (s->strategy->ops->served)
        return tg_fail(TG_E_VERSION, "the checkpoint has no state of servers, which keep the "
                                     "optimizer's memory");
    for (size_t i = 0; i < s->rules.count; i++)
        codes = codes || tg__method_is_two_way(s->rules.rule[i].spec);
    if (!codes)
        return TG_OK;
    const size_t len = strlen(s->from.anew);
    snprintf(s->from.anew + len, sizeof s->from.anew - len, "%sresiduals of servers",
             len > 0 ? ", " : "");
    if (s->transport->rank == 0)
        tg_log(TG_LOG_WARN, "resumed: the checkpoint was saved without the residuals of servers "
                            "(exchange=twoway): they start again at 0");
    return TG_OK;
}

static tg_status give(tg_session *s, talk *t)
{
    const bool first = s->transport->rank == 0;
    plan p = {0};
    TG_TRY(tg__agree(s->engine, first && s->states.count > 0 ? plan_all(s, t, &p) : TG_OK));
    TG_TRY(tg__share(s->engine, NULL, &p, sizeof p));
    if (!p.any)
        return note_none(s);
    return tg__agree(s->engine, first ? write_all(s, t) : leave_out(s, p.messages));
}

tg_status tg__session_give_states(tg_session *s)
{
    talk t = {0};
    if (tg__servers_of(s->transport) == 0)
        return TG_OK;
    const tg_status status = give(s, &t);
    hang_up(&t);
    tg__session_drop_states(s);
    return status == TG_OK ? tg__session_share_parameters(s) : status;
}

/* ---- in the ranks' files --------------------------------------------------------------------- */

#define SECTION_SERVERS "servers"   /* uint64_t: how many; each has a section of its own */
#define SECTION_TELLS "servers ask" /* (nbuckets) tg__tells: what methods tell servers next */

static const char *section_of(char text[64], int server)
{
    snprintf(text, 64, "server %d", server);
    return text;
}

static tg__tells *told_by(const bucket *b)
{
    const tg__program_ops *program = b->method->def->program;
    return program->tells != NULL ? program->tells(b->method) : NULL;
}

tg_status tg__session_put_states(tg_session *s, tg__ckpt_writer *w)
{
    TG__FREED tg__tells *tells = NULL;
    const uint64_t count = (uint64_t)s->states.count;
    bool any = false;
    char name[64];
    TG_TRY(tg_alloc(s->nbuckets, sizeof *tells, &tells));
    for (size_t b = 0; b < s->nbuckets; b++) {
        const tg__tells *told = told_by(&s->bucket[b]);
        tells[b] = told != NULL ? *told : (tg__tells){.factor = 1};
        any = any || told != NULL;
    }
    if (any)
        TG_TRY(tg__ckpt_put(w, SECTION_TELLS, tells, s->nbuckets * sizeof *tells));
    if (count > 0)
        TG_TRY(tg__ckpt_put(w, SECTION_SERVERS, &count, sizeof count));
    for (int q = 0; q < s->states.count; q++)
        TG_TRY(tg__ckpt_put(w, section_of(name, q), s->states.of[q].bytes, s->states.of[q].len));
    return TG_OK;
}

static tg_status get_tells(tg_session *s, tg__ckpt_reader *r)
{
    const void *bytes;
    if (!tg__ckpt_has(r, SECTION_TELLS))
        return TG_OK;
    TG_TRY(tg__ckpt_get(r, SECTION_TELLS, s->nbuckets * sizeof(tg__tells), &bytes, NULL));
    for (size_t b = 0; b < s->nbuckets; b++) {
        const tg__tells *saved = (const tg__tells *)bytes + b;
        tg__tells *told = told_by(&s->bucket[b]);
        if (!(saved->eta >= 0 && saved->eta <= 1e30) || !(saved->factor >= 0) ||
            saved->factor > 1e300)
            return tg_fail(TG_E_CORRUPT,
                           "checkpoint section " SECTION_TELLS ": bucket %zu: rate %g, factor %g: "
                           "allowed: finite numbers >= 0",
                           b, saved->eta, saved->factor);
        if (told != NULL)
            *told = *saved;
    }
    return TG_OK;
}

tg_status tg__session_get_states(tg_session *s, tg__ckpt_reader *r, bool first)
{
    uint64_t count;
    char name[64];
    TG_TRY(get_tells(s, r));
    if (!first || !tg__ckpt_has(r, SECTION_SERVERS))
        return TG_OK;
    TG_TRY(tg__ckpt_read(r, SECTION_SERVERS, &count, sizeof count));
    if (count < 1 || count > TG_SERVERS_MAX)
        return tg_fail(TG_E_CORRUPT, "the checkpoint has %llu servers: allowed: 1 to %d",
                       (unsigned long long)count, TG_SERVERS_MAX);
    TG_TRY(make_states(s, (int)count));
    for (int q = 0; q < s->states.count; q++) {
        struct tg__server_state *state = &s->states.of[q];
        const void *bytes;
        size_t len;
        TG_TRY(tg__ckpt_get(r, section_of(name, q), SIZE_MAX, &bytes, &len));
        TG_TRY(tg_alloc(TG__MAX(len, (size_t)1), 1, &state->bytes));
        memcpy(state->bytes, bytes, len);
        state->len = len;
    }
    return TG_OK;
}
