/* Why a rank leaves, in words: a message before its BYE. */
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
