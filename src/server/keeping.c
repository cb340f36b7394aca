/* Checkpoints: a rank asks for what this server has between steps, and gives it back to the server
 * of the job that resumes (exchange/star_state.h). All ranks are between two steps then. */
#include "base/mem.h"
#include "exchange/star_cost.h"
#include "exchange/star_state.h"
#include "server/server_impl.h"
#include "strategy/optimizers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What must be the same when it is taken. The learning rate comes with each gradient. */
static void write_identity(const tg_server *s, char *text, size_t room)
{
    if (!s->mode.keeps) {
        snprintf(text, room, "server mode=sum\n");
        return;
    }
    const char *optimizer = tg_spec_text(tg_optimizer_spec(s->mode.optimizer));
    const char *lr = strstr(optimizer, "lr=");
    const size_t before = lr == NULL ? strlen(optimizer) : (size_t)(lr - optimizer),
                 rate = lr == NULL ? 0 : strcspn(lr, ",") + (strchr(lr, ',') != NULL);
    snprintf(text, room, "server mode=keeps\nserver optimizer=%.*s%s\n", (int)before, optimizer,
             optimizer + before + rate);
}

/* ---- regions --------------------------------------------------------------------------------- */

/* In how many slices gradients come, if they do. Ranks know the length of the bucket; a server
 * knows that its block is an S-th of it, to 16 elements. Where that leaves two numbers, the last
 * slice of the larger one has been updated as often as the first, or there is no such slice. */
static uint32_t slices_of(const tg_server *s, const tg__region *r)
{
    const int servers = s->t->size - s->first_server;
    const size_t less = r->n - TG__MIN(r->n, (size_t)16), more = r->n + 16;
    const uint32_t least = tg__star_slices(less * (size_t)servers, servers),
                   most = tg__star_slices(more * (size_t)servers, servers);
    return r->updates[most - 1] == r->updates[0] ? most : least;
}

/* Where slice i of them begins. */
static size_t slice_begin(const tg__region *r, uint32_t slices, size_t i)
{
    return tg__block_begin(r->n, (int)slices, (int)TG__MIN(i, (size_t)slices));
}

/* Slices may have been updated more or less often. */
static tg_status put_updates(const tg_server *s, const tg__region *r, tg__kept_key key,
                             tg__kept_writer *w)
{
    const uint32_t slices = slices_of(s, r);
    uint32_t run[TG__REGION_SLICES];
    for (size_t i = 0; i < TG__REGION_SLICES; i++)
        run[i] = (uint32_t)(slice_begin(r, slices, i + 1) - slice_begin(r, slices, i));
    key.kind = TG__KEPT_UPDATES;
    return tg__kept_put(w, &(tg__piece){key, r->lo, r->n, 2, TG__REGION_SLICES, run, r->updates});
}

static tg__kept_key sent_memory(const tg__region *r)
{
    return (tg__kept_key){r->channel, r->bucket, TG__KEPT_MEMORY, 0};
}

static tg_status put_sent(const tg__region *r, tg__kept_writer *w)
{
    const tg__kept_key key = {r->channel, r->bucket, TG__KEPT_SENT, 0};
    if (r->sent == NULL)
        return TG_OK;
    TG_TRY(tg__kept_put(w, &(tg__piece){key, r->lo, r->n, 1, 0, NULL, r->sent->v}));
    return tg__coder_keep(&r->sent->coder, sent_memory(r), r->lo, w);
}

static tg_status put_region(const tg_server *s, const tg__region *r, tg__kept_writer *w)
{
    tg__kept_key key = {.channel = r->channel, .bucket = r->bucket, .kind = TG__KEPT_W};
    TG_TRY(tg__kept_put(w, &(tg__piece){key, r->lo, r->n, 1, 0, NULL, r->w}));
    TG_TRY(put_updates(s, r, key, w));
    key.kind = TG__KEPT_SLOT;
    for (; key.number < TG__REGION_SLOTS; key.number++)
        if (r->slot[key.number] != NULL)
            TG_TRY(
                tg__kept_put(w, &(tg__piece){key, r->lo, r->n, 1, 0, NULL, r->slot[key.number]}));
    return put_sent(r, w);
}

static tg_status restore_sent(tg_server *s, tg__region *r)
{
    const tg__kept_key key = {r->channel, r->bucket, TG__KEPT_SENT, 0};
    if (!tg__kept_any(&s->kept, r->channel))
        return TG_OK;
    TG_TRY(tg__sent_create(r->w, r->n, &r->sent));
    r->told = tg__kept_take(&s->kept, key, r->lo, r->n, r->sent->v);
    r->told = r->told && s->mode.gathers; /* else all get w, which then is what each has */
    if (r->told)
        return TG_OK;
    tg__sent_destroy(r->sent);
    r->sent = NULL;
    return TG_OK;
}

void tg__keeping_restore_coder(tg_server *s, tg__region *r)
{
    if (!r->told || r->sent->coder.codec == NULL)
        return;
    r->told = false;
    tg__coder_restore(&r->sent->coder, &s->kept, sent_memory(r), r->lo);
}

tg_status tg__keeping_restore(tg_server *s, tg__region *r)
{
    tg__kept_key key = {.channel = r->channel, .bucket = r->bucket, .kind = TG__KEPT_W};
    (void)tg__kept_take(&s->kept, key, r->lo, r->n, r->w);
    const uint32_t slices = slices_of(s, r);
    key.kind = TG__KEPT_UPDATES;
    for (size_t i = 0; i < TG__REGION_SLICES; i++) {
        const size_t at = TG__MIN(slice_begin(r, slices, i), r->n - TG__MIN(r->n, (size_t)1));
        const uint32_t *words = tg__kept_at(&s->kept, key, r->lo + at, 2);
        if (words != NULL)
            memcpy(&r->updates[i], words, sizeof r->updates[i]);
    }
    key.kind = TG__KEPT_SLOT;
    for (; key.number < TG__REGION_SLOTS; key.number++)
        if (r->slot[key.number] != NULL)
            (void)tg__kept_take(&s->kept, key, r->lo, r->n, r->slot[key.number]);
    return restore_sent(s, r);
}

/* ---- requests -------------------------------------------------------------------------------- */

static tg_status copy_of(tg_server *s, uint16_t channel, tg__state_copy **c_p)
{
    tg__state_copy *c = s->copies;
    while (c != NULL && c->channel != channel)
        c = c->next;
    if (c == NULL) {
        TG_TRY(tg_alloc(1, sizeof *c, &c));
        *c = (tg__state_copy){.next = s->copies, .channel = channel};
        s->copies = c;
    }
    *c_p = c;
    return TG_OK;
}

static void free_saved(tg__state_copy *c)
{
    free(c->saved);
    c->saved = NULL;
}

static void free_given(tg__state_copy *c)
{
    free(c->given);
    c->given = NULL;
    c->given_len = c->given_cap = 0;
    c->expected = 0;
}

void tg__keeping_fini(tg_server *s)
{
    while (s->copies != NULL) {
        tg__state_copy *c = s->copies;
        s->copies = c->next;
        free_saved(c);
        free_given(c);
        free(c);
    }
}

/* Where a checkpoint is that of one moment. */
static tg_status can_keep(const tg_server *s)
{
    if (s->deadline_ns > 0)
        return tg_fail(TG_E_UNSUPPORTED,
                       "servers with a deadline cannot be saved: ranks that are late leave out "
                       "steps, and do not meet: allowed: deadline_ms=0");
    return TG_OK;
}

static bool is_at_work(const tg_server *s, const tg__gathering *except)
{
    for (const tg__gathering *g = s->active; g != NULL; g = g->link)
        if (g != except && g->id.channel == except->id.channel && g->next < s->ranks)
            return true;
    return false;
}

static bool is_told(const tg_server *s, tg__kept_key key)
{
    const tg__region *r = s->regions;
    while (r != NULL && !(r->told && r->channel == key.channel && r->bucket == key.bucket))
        r = r->next;
    return r != NULL;
}

/* Whether a piece waits for what it belongs to. Once that is there, it has memory of its own. */
static bool still_waits(const tg_server *s, const tg__piece *p)
{
    const tg__kept *k = &s->kept;
    if (p->key.kind == TG__KEPT_UPDATES)
        return tg__kept_waits(k, p->key, TG__KEPT_W);
    return p->key.kind != TG__KEPT_MEMORY || tg__kept_waits(k, p->key, TG__KEPT_RESIDUAL) ||
           tg__kept_waits(k, p->key, TG__KEPT_SENT) || is_told(s, p->key);
}

/* What an earlier job had, and no exchange of this one has needed yet. */
static tg_status put_waiting(const tg_server *s, tg__kept_writer *w)
{
    for (const tg__piece *p = tg__kept_next(&s->kept, NULL); p != NULL;
         p = tg__kept_next(&s->kept, p))
        if (still_waits(s, p))
            TG_TRY(tg__kept_put(w, p));
    return TG_OK;
}

static tg_status put_all(const tg_server *s, tg__kept_writer *w)
{
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        TG_TRY(put_region(s, r, w));
    TG_TRY(tg__robust_keep(&s->robust, w));
    TG_TRY(tg__recoders_keep(s->recoders, w));
    return put_waiting(s, w);
}

static tg_status collect(tg_server *s, const tg__gathering *g, tg__state_copy *c,
                         tg__state_head *head)
{
    char identity[1024];
    tg__kept_writer w;
    TG_TRY(can_keep(s));
    if (is_at_work(s, g))
        return tg_fail(TG_E_STATE, "a checkpoint is asked for while a step is under way");
    free_saved(c);
    write_identity(s, identity, sizeof identity);
    TG_TRY(tg__kept_begin(&w, g->id.channel, identity));
    const tg_status status = put_all(s, &w);
    if (status != TG_OK) {
        tg__kept_abandon(&w);
        return status;
    }
    TG_TRY(tg__kept_end(&w, &c->saved, &c->saved_len));
    head->at = c->saved_len;
    return TG_OK;
}

/* The copy is needed until its last byte is read. */
static tg_status read_saved(tg__state_copy *c, uint8_t *body, size_t room, tg__state_head *head)
{
    if (head->at > c->saved_len || (c->saved == NULL && head->at < c->saved_len))
        return tg_fail(TG_E_CORRUPT, "byte %llu of a state of %zu is asked for",
                       (unsigned long long)head->at, c->saved_len);
    head->len = (uint32_t)TG__MIN(room, c->saved_len - (size_t)head->at);
    if (head->len > 0)
        memcpy(body, (const uint8_t *)c->saved + head->at, head->len);
    if (head->at + head->len == c->saved_len)
        free_saved(c);
    return TG_OK;
}

static bool has_begun(const tg_server *s, uint16_t channel)
{
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        if (r->channel == channel)
            return true;
    return tg__recoders_any(s->recoders, channel) || tg__robust_any(&s->robust, channel);
}

static tg_status can_take(const tg_server *s, uint16_t channel)
{
    TG_TRY(can_keep(s));
    return has_begun(s, channel)
               ? tg_fail(TG_E_STATE, "a state is given to a server that has begun already")
               : TG_OK;
}

static tg_status expect_given(const tg_server *s, tg__state_copy *c, const uint8_t *body,
                              const tg__state_head *head)
{
    TG_TRY(can_take(s, c->channel));
    TG_TRY(tg__state_check((tg__state_of){tg__get64(body), tg__get64(body + 8)}, head->at));
    free_given(c);
    c->expected = head->at;
    return TG_OK;
}

static tg_status write_given(tg__state_copy *c, const uint8_t *body, size_t room,
                             const tg__state_head *head)
{
    if (head->at != c->given_len || head->len > room)
        return tg_fail(TG_E_CORRUPT,
                       "%u bytes of a state from byte %llu on, in a message of %zu: "
                       "%zu have come",
                       head->len, (unsigned long long)head->at, room, c->given_len);
    if (head->len > c->expected - c->given_len)
        return tg_fail(TG_E_CORRUPT, "%u bytes of a state from byte %llu on: it has %llu bytes",
                       head->len, (unsigned long long)head->at, (unsigned long long)c->expected);
    TG_TRY(tg__grow(&c->given, &c->given_cap, c->given_len + head->len, 1,
                    "the state of a "
                    "server"));
    if (head->len > 0)
        memcpy(c->given + c->given_len, body, head->len);
    c->given_len += head->len;
    return TG_OK;
}

static tg_status add_given(tg_server *s, const tg__state_copy *c)
{
    char identity[1024];
    TG_TRY(can_take(s, c->channel));
    if (c->given_len < c->expected)
        return tg_fail(TG_E_CORRUPT, "a state of %llu bytes, of which %zu have come",
                       (unsigned long long)c->expected, c->given_len);
    write_identity(s, identity, sizeof identity);
    return tg__kept_add(&s->kept, c->given, c->given_len, c->channel, identity);
}

static tg_status take_given(tg_server *s, tg__state_copy *c)
{
    const tg_status status = add_given(s, c);
    free_given(c);
    return status;
}

static tg_status answer(tg_server *s, const tg__gathering *g, uint8_t *body, size_t room,
                        tg__state_head *head)
{
    const int servers = s->t->size - s->first_server;
    tg__state_copy *c;
    TG_TRY(copy_of(s, g->id.channel, &c));
    switch (head->what) {
    case TG__ASK_COLLECT:
        return collect(s, g, c, head);
    case TG__ASK_READ:
        return read_saved(c, body, room, head);
    case TG__ASK_EXPECT:
        return expect_given(s, c, body, head);
    case TG__ASK_WRITE:
        return write_given(c, body, room, head);
    case TG__ASK_TAKE:
        return take_given(s, c);
    case TG__ASK_CUT:
        tg__kept_cut(&s->kept, g->id.channel, s->t->rank - s->first_server, servers);
        return TG_OK;
    default:
        return tg_fail(TG_E_CORRUPT, "request %u about a state: allowed: 1 to %d", head->what,
                       TG__ASK_EXPECT);
    }
}

tg_status tg__keeping_check(const tg_server *s, const tg__gathering *g)
{
    if (s->hosts)
        return tg_fail(TG_E_MISMATCH, "it asks for the server's state, but here workers come and "
                                      "go: the server's journal has it");
    if (g->form != TG__FORM_DENSE || g->n * sizeof(float) < TG__ASK_LEAST)
        return tg_fail(TG_E_CORRUPT,
                       "a request about the server's state in %zu elements: allowed: "
                       "f32, %zu or more",
                       g->n, TG__ASK_LEAST / sizeof(float));
    return TG_OK;
}

void tg__keeping_answer(tg_server *s, tg__gathering *g)
{
    uint8_t *at = (uint8_t *)tg__gathering_values(g), *body = at + TG__ASK_HEAD;
    const size_t room = g->n * sizeof(float) - TG__ASK_HEAD;
    tg__state_head head = tg__state_head_read(at);
    const tg_status status = answer(s, g, body, room, &head);
    head.what = (uint32_t)status;
    if (status != TG_OK) {
        head.len = (uint32_t)TG__MIN(strlen(tg_error()), room);
        memcpy(body, tg_error(), head.len);
    }
    tg__state_head_write(at, head);
}
