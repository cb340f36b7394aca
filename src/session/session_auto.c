/* Buckets whose method says exchange=auto. Rank 0 chooses from measurements or takes the choice
 * from the checkpoint; all ranks use it. */
#include "session/session_impl.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "method/auto_exchange.h"
#include "engine/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a checkpoint's section: one exchange name per line, one line per bucket */
static const char section[] = "exchanges";

static bool is_auto(const tg_session *s, const bucket *b)
{
    return tg__method_is_auto(s->rules.rule[b->rule].spec);
}

/* A single rank has nothing to choose. */
static bool any_auto(const tg_session *s)
{
    bool any = false;
    for (size_t b = 0; b < s->nbuckets; b++)
        any = any || is_auto(s, &s->bucket[b]);
    return any && tg__nodes_talkers(s->nodes, s->transport->size) > 1;
}

typedef struct choosing {
    const tg_session *s;
    const tg__network *net;
    uint8_t *number_p;
} choosing;

static tg_status choose(void *arg, const char *text, const tg__method_setup *setup)
{
    const choosing *c = arg;
    const tg__exchange_ops *choice;
    TG_TRY(tg__auto_exchange(text, setup, c->s->lr, c->net, &choice));
    *c->number_p = tg__exchange_number(choice);
    return TG_OK;
}

/* Rank 0 measures and chooses. It reports to the waiting ranks after at most TG__AUTO_ELEMENTS
 * elements, because a rank that is silent for too long counts as dead. */
static tg_status choose_all(tg_session *s, uint8_t *number)
{
    tg__network net;
    tg_status status = TG_OK;
    size_t silent = 0;
    TG_TRY(tg__network_measure(s->engine, s->nodes, &net));
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        if (!is_auto(s, &s->bucket[b]))
            continue;
        const size_t elements = TG__MIN(s->bucket[b].n, TG__AUTO_ELEMENTS);
        if (silent + elements > TG__AUTO_ELEMENTS) {
            TG_TRY(tg__agree(s->engine, status));
            silent = 0;
        }
        silent += elements;
        if (s->transport->rank == 0 && status == TG_OK) {
            const tg__method_setup setup = {.size = tg__nodes_talkers(s->nodes, s->transport->size),
                                            .lanes = 1};
            choosing c = {.s = s, .net = &net, .number_p = &number[b]};
            status = tg__session_with_setup(s, &s->bucket[b], b, setup, choose, &c);
        }
    }
    return tg__agree(s->engine, status);
}

/* Read the line of each bucket from text (len). */
static tg_status read_lines(const tg_session *s, const char *text, size_t len, uint8_t *number)
{
    for (size_t b = 0; b < s->nbuckets; b++) {
        char name[32];
        const char *end = memchr(text, '\n', len);
        const size_t line = end == NULL ? len : (size_t)(end - text);
        snprintf(name, sizeof name, "%.*s", (int)TG__MIN(line, sizeof name - 1), text);
        const tg__exchange_ops *x = tg__exchange_find(name);
        number[b] = x == NULL ? TG__NO_CHOICE : tg__exchange_number(x);
        if (end == NULL || is_auto(s, &s->bucket[b]) != (tg__exchange_numbered(number[b]) != NULL))
            return tg_fail(TG_E_CORRUPT,
                           "checkpoint section %s: bucket %zu has an unknown exchange, \"%s\"",
                           section, b, name);
        text = end + 1;
        len -= line + 1;
    }
    return TG_OK;
}

static tg_status read_saved(tg_session *s, uint8_t *number)
{
    const void *bytes;
    size_t len;
    TG_TRY(tg__ckpt_get(s->from.own, section, SIZE_MAX, &bytes, &len));
    return read_lines(s, bytes, len, number);
}

/* A saved choice holds only for the same number of ranks; otherwise choose again. */
static tg_status agree_on_choices(tg_session *s, uint8_t *number)
{
    if (s->from.ranks != s->transport->size)
        TG_TRY(choose_all(s, number));
    else
        TG_TRY(tg__agree(s->engine, s->transport->rank == 0 ? read_saved(s, number) : TG_OK));
    TG_TRY(tg__share(s->engine, "the exchanges chosen", number, s->nbuckets));
    for (size_t b = 0; b < s->nbuckets; b++) {
        const tg__exchange_ops *x = tg__exchange_numbered(number[b]);
        if (is_auto(s, &s->bucket[b]) != (x != NULL)) {
            const tg_status status =
                tg_fail(TG_E_CORRUPT, "bucket %zu: rank 0 chose exchange number %u", b, number[b]);
            tg__engine_give_up(s->engine, status, 0);
            return status;
        }
        s->bucket[b].exchange = x == NULL ? NULL : x->entry.name;
    }
    return TG_OK;
}

tg_status tg__session_choose_exchanges(tg_session *s)
{
    TG__FREED uint8_t *number = NULL;
    if (!any_auto(s))
        return TG_OK;
    TG_TRY(tg_alloc(s->nbuckets, 1, &number));
    memset(number, TG__NO_CHOICE, s->nbuckets);
    return agree_on_choices(s, number);
}

tg_status tg__session_put_exchanges(const tg_session *s, tg__ckpt_writer *w)
{
    TG__FREED char *text = NULL;
    size_t len;
    if (!any_auto(s))
        return TG_OK;
    FILE *f = tg__memstream_open(&text, &len);
    for (size_t b = 0; f != NULL && b < s->nbuckets; b++)
        fprintf(f, "%s\n", s->bucket[b].exchange == NULL ? "" : s->bucket[b].exchange);
    return tg__memstream_close(f, &text) == TG_OK
               ? tg__ckpt_put(w, section, text, len)
               : tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
}
