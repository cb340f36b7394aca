/* Why a rank leaves, in words: a message before its BYE; what those who wait for it are told. */
#include "net/fields.h"
#include "net/tcp_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t tg__reason_write(const char *why, uint8_t at[TG__REASON_MAX])
{
    char text[TG__TEXT_MAX];
    const size_t len = (size_t)snprintf(text, sizeof text, "%s", why), most = sizeof text - 1;
    tg__pack p = {.at = at, .end = at + TG__REASON_MAX};
    tg__make_printable(text);
    tg__pack_number(&p, 4, (uint64_t)TG__FRAME_FIRST << 28 | TG__REASON_TAG);
    tg__pack_number(&p, 4, len < most ? len : most);
    tg__pack_number(&p, 8, len < most ? len : most);
    tg__pack_bytes(&p, text, len < most ? len : most);
    return len > 0 ? (size_t)(p.at - at) : 0;
}

void tg__reason_insert(tg__peer *p, const char *why)
{
    uint8_t frame[TG__REASON_MAX];
    const size_t len = tg__reason_write(why, frame);
    uint8_t *grown = p->gone || len == 0 || p->in_flight + tg__message_cost(len) > TG__WINDOW
                         ? NULL
                         : realloc(p->stage, p->stage_len + len);
    if (!grown)
        return;
    uint8_t *bye = grown + p->stage_len - TG__HEAD;
    memmove(bye + len, bye, TG__HEAD);
    memcpy(bye, frame, len);
    p->stage = grown;
    p->stage_len += len;
}

void tg__reason_read(const tg__peer *p, char text[TG__TEXT_MAX])
{
    const tg__early *e = p->early.first;
    *text = '\0';
    while (e && e->tag != TG__REASON_TAG)
        e = e->next;
    if (!e || e->len >= TG__TEXT_MAX || memchr(e->bytes, '\0', e->len) ||
        !tg__is_printable((const char *)e->bytes, e->len))
        return;
    memcpy(text, e->bytes, e->len);
    text[e->len] = '\0';
}

bool tg__is_cast_out(const tg__tcp *t)
{
    return t->expelled > 0 && (t->base.rank == 0 || t->base.rank == t->expelled);
}

bool tg__is_cut_off(const tg__tcp *t, const tg__peer *p)
{
    const tg__peer *zero = &t->peer[0];
    return !p->said_bye && t->net->relayed[p->rank] && zero->gone && t->expelled != p->rank;
}

tg_status tg__fail_expelled(const tg__tcp *t)
{
    char whom[48], source[64] = "";
    if (t->base.rank == 0)
        snprintf(whom, sizeof whom, "rank %d is disconnected", t->expelled);
    else if (t->base.rank == t->expelled)
        snprintf(whom, sizeof whom, "rank 0 has disconnected this rank (%d)", t->expelled);
    else
        snprintf(whom, sizeof whom, "rank 0 has disconnected rank %d", t->expelled);
    if (t->told_by > 0)
        snprintf(source, sizeof source,
                 t->heard_from > 0 ? ", says rank %d, as told by rank %d" : ", says rank %d",
                 t->told_by, t->heard_from);
    return tg_fail(TG_E_PEER, "%s: its key was removed from the list of allowed keys%s", whom,
                   source);
}

tg_status tg__fail_gone(const tg__tcp *t, const tg__peer *p)
{
    char why[TG__TEXT_MAX], name[TG__NAME_MAX];
    if (t->expelled > 0 && (p->rank == 0 || p->rank == t->expelled))
        return tg__fail_expelled(t);
    if (tg__is_cut_off(t, p))
        return tg_fail(TG_E_PEER, "rank 0, which relayed messages to rank %d, has left", p->rank);
    tg__net_name(t->net, p->rank, name);
    if (!p->stream)
        return tg_fail(TG_E_PEER, "%s is not there", name);
    tg__reason_read(p, why);
    return p->said_bye
               ? tg_fail(TG_E_PEER, "%s has %s%s%s", name,
                         p->dismisses ? "disconnected this worker" : "left", *why ? ": " : "", why)
               : tg_fail(TG_E_PEER, "%s has left: its connection%s: %s", name,
                         t->net->relayed[p->rank] ? ", relayed by rank 0" : "", p->stream->why);
}
