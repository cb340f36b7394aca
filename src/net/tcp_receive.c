#include "net/fields.h"
#include "net/tcp_impl.h"
#include <stdlib.h>
#include <string.h>

/* A peer that sends all the time must not keep this rank from others. */
#define PULL_MAX ((size_t)4 << 20)
#define READ_COST ((size_t)1 << 10) /* bytes could come one by one, each in a record of its own */

static const char foreign[] = "sent bytes that are not telegrad's";

static tg__tcp_post *find(const tg__tcp_posts *l, uint32_t tag, bool granted)
{
    tg__tcp_post *p = l->first;
    while (p && (p->tag != tag || p->granted != granted))
        p = p->next;
    return p;
}

static void append_early(tg__earlies *l, tg__early *e)
{
    e->next = NULL;
    *l->end = e;
    l->end = &e->next;
}

/* kept  room for its bytes: len, or 0 if it only asks */
static tg__early *make_early(tg__tcp *t, tg__peer *p, uint32_t tag, size_t len, size_t kept)
{
    tg__early *e = malloc(sizeof *e + kept);
    if (e)
        *e = (tg__early){.tag = tag, .len = len};
    else
        tg__peer_lose(t, p, "this rank is out of memory");
    return e;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* A message begins: find its place. Returns false if the peer broke the rules. */
static bool begin(tg__tcp *t, tg__peer *p, uint32_t tag, uint64_t len, bool granted)
{
    p->arriving = true;
    p->arriving_granted = granted;
    p->arriving_tag = tag;
    p->arriving_len = (size_t)len;
    p->arriving_at = 0;
    p->aside = NULL;
    p->into = NULL;
    if (!granted && (len > TG__WINDOW || tg__message_cost(len) > TG__WINDOW - p->unreturned))
        return false;
    p->unreturned += granted ? 0 : tg__message_cost(len);
    p->into = find(&p->receives, tag, granted);
    if (p->into)
        tg__tcp_posts_remove(&p->receives, p->into);
    else if (!granted)
        p->aside = make_early(t, p, tag, (size_t)len, (size_t)len);
    return p->into || p->aside;
}

/* Promise the message that `asks` is about to the receive. */
static void grant(tg__tcp *t, tg__peer *p, tg__tcp_post *receive)
{
    receive->granted = true;
    (void)tg__peer_control(t, p, TG__FRAME_GRANT, receive->tag, 0, 0);
}

/* A message of this tag waits to be granted, or was granted and has not come. */
static bool is_wanted(const tg__peer *p, uint32_t tag)
{
    for (const tg__early *e = p->asking.first; e; e = e->next)
        if (e->tag == tag)
            return true;
    return find(&p->receives, tag, true) != NULL;
}

/* Returns false if the peer broke the rules. */
static bool take_bye(tg__tcp *t, tg__peer *p, uint32_t tag, uint64_t number)
{
    const int rank = number > 0 && number <= (uint64_t)t->base.size ? (int)number - 1 : -1;
    if (t->net->hosts || t->net->attached) { /* they number each other in their own ways */
        p->said_bye = true;
        p->dismisses = number > 0;
        return tag == 0 && number <= (t->net->attached ? 1 : 0);
    }
    if (number > 0 && rank < 0)
        return false;
    const bool may_expel = rank > 0 && (p->rank == 0 || p->rank == rank || t->base.rank == rank);
    if (tag > (!may_expel ? 0 : p->rank == 0 ? 1 : (uint32_t)t->base.size))
        return false;
    p->said_bye = true;
    p->blamed = rank < 0 || (tag > 0 && rank == p->rank) ? TG_BLAMED_NOBODY : rank;
    if (tag > 0 && t->base.rank > 0 && t->expelled == 0) { /* rank 0 knows its list */
        t->expelled = rank;
        t->told_by = p->rank;
        t->heard_from = (int)tag - 1;
    }
    return true;
}

/* A frame without a segment. Returns false if the peer broke the rules. */
static bool take_control(tg__tcp *t, tg__peer *p, int kind, uint32_t tag, uint64_t number)
{
    tg__tcp_post *receive;
    tg__early *asks;
    switch (kind) {
    case TG__FRAME_CREDIT:
        if (number > p->in_flight)
            return false;
        p->in_flight -= number;
        return true;
    case TG__FRAME_WANT:
        if (number > SIZE_MAX / 2 || p->wants == TG__WANTS_MAX || is_wanted(p, tag))
            return false;
        /* A receive that still waits has taken what came or asked before. */
        if ((receive = find(&p->receives, tag, false)))
            grant(t, p, receive);
        else if ((asks = make_early(t, p, tag, (size_t)number, 0))) {
            append_early(&p->asking, asks);
            p->wants++;
        }
        return true;
    case TG__FRAME_GRANT:
        for (tg__tcp_post *s = p->sends.first; s; s = s->next)
            if (s->tag == tag && s->wanted && !s->granted) {
                p->asks--;
                return s->granted = true;
            }
        return false;
    case TG__FRAME_LOCAL:
        return tg__peer_take_local(t, p, number);
    case TG__FRAME_BYE:
        return take_bye(t, p, tag, number);
    default:
        return false;
    }
}

/* The head is complete. Returns false if the peer broke the rules. */
static bool take_head(tg__tcp *t, tg__peer *p)
{
    tg__unpack u = {.at = p->head, .end = p->head + TG__HEAD};
    const uint64_t word = tg__unpack_number(&u, 4), len = tg__unpack_number(&u, 4),
                   number = tg__unpack_number(&u, 8);
    const int kind = (int)(word >> 28);
    const uint32_t tag = (uint32_t)word & 0xfffffff;
    p->head_got = 0;
    if (tag >= TG__TAG_CARRIED || p->said_bye)
        return false;
    if (kind == TG__FRAME_FIRST || kind == TG__FRAME_GRANTED) {
        if (p->arriving || number > SIZE_MAX / 2 ||
            !begin(t, p, tag, number, kind == TG__FRAME_GRANTED))
            return false;
    } else if (kind == TG__FRAME_OFFER) {
        const tg__local_offer offer = {.pid = tag, .fd = (uint32_t)len, .number = number};
        return tg__peer_take_offer(t, p, &offer);
    } else if (kind != TG__FRAME_MORE)
        return len == 0 && take_control(t, p, kind, tag, number);
    const size_t left = p->arriving_len - p->arriving_at;
    if (!p->arriving || tag != p->arriving_tag || len > left || len > TG__SEGMENT ||
        (len == 0 && (left > 0 || kind == TG__FRAME_MORE)))
        return false;
    p->segment_due = (size_t)len;
    return true;
}

/* The message that arrives is complete. */
static void finish(tg__tcp *t, tg__peer *p)
{
    p->arriving = false;
    if (p->into) {
        p->into->state = p->arriving_len <= p->into->done ? TG__POST_DONE : TG__POST_TOO_LONG;
        p->into->len = p->arriving_len;
        p->owed += p->arriving_granted ? 0 : tg__message_cost(p->arriving_len);
        p->into = NULL;
        p->answers = t->changed = true;
        t->net->member[p->rank].settled = true;
    } else if (p->aside) { /* or this rank has left meanwhile */
        append_early(&p->early, p->aside);
        p->aside = NULL;
    }
}

/* Read bytes of a segment to where they belong. Returns as tg__stream_read. */
static ptrdiff_t read_segment(tg__peer *p)
{
    uint8_t waste[4096];
    uint8_t *to = p->aside ? p->aside->bytes + p->arriving_at : waste;
    size_t want = p->segment_due;
    if (p->into && p->arriving_len <= p->into->done)
        to = p->into->buf + p->arriving_at;
    if (to == waste && want > sizeof waste)
        want = sizeof waste;
    const ptrdiff_t n = tg__stream_read(p->stream, to, want);
    if (n > 0) {
        p->arriving_at += (size_t)n;
        p->segment_due -= (size_t)n;
    }
    return n;
}

/* Read bytes of a head. Returns as tg__stream_read; 1 if it was complete before. */
static ptrdiff_t read_head(tg__peer *p)
{
    if (p->head_got == TG__HEAD)
        return 1;
    const ptrdiff_t n = tg__stream_read(p->stream, p->head + p->head_got, TG__HEAD - p->head_got);
    p->head_got += n > 0 ? (size_t)n : 0;
    return n;
}

/* A message begins that nobody has asked for, while the caller of poll has news that may lead him
 * to ask: it need not be kept aside, and copied, if it is read in the next poll. */
static bool may_wait(const tg__tcp *t, const tg__peer *p)
{
    tg__unpack u = {.at = p->head, .end = p->head + TG__HEAD};
    const uint64_t word = tg__unpack_number(&u, 4);
    return t->polls && t->changed && word >> 28 == TG__FRAME_FIRST &&
           !find(&p->receives, (uint32_t)word & 0xfffffff, false);
}

void tg__peer_pull(tg__tcp *t, tg__peer *p)
{
    size_t pulled = 0;
    bool moved = false;
    p->has_more = false;
    while (!p->gone) {
        ptrdiff_t n;
        if (pulled >= PULL_MAX) {
            p->has_more = true;
            break;
        }
        if (p->segment_due > 0) {
            n = read_segment(p);
            moved |= n > 0;
        } else {
            n = read_head(p);
            if (p->head_got == TG__HEAD && may_wait(t, p)) {
                p->has_more = true;
                break;
            }
            if (p->head_got == TG__HEAD && !take_head(t, p)) {
                tg__peer_lose(t, p, foreign);
                return;
            }
        }
        if (n < 0)
            tg__peer_lose(t, p, p->stream->why);
        if (n <= 0)
            break;
        pulled += (size_t)n + READ_COST;
        if (p->arriving && p->segment_due == 0 && p->arriving_at == p->arriving_len &&
            p->head_got == 0)
            finish(t, p);
        if (p->said_bye)
            tg__peer_lose(t, p, "left");
        if (p->said_bye && t->base.rank > 0 && t->expelled > 0 && t->expelled != t->base.rank)
            tg__peer_expel(t, &t->peer[t->expelled]);
    }
    if (moved)
        p->came_ns = tg_now_ns(t->base.clock);
    if (!p->gone && (p->moves || p->control_len > 0 || p->owed >= TG__WINDOW / 8 || p->sends.first))
        tg__peer_push(t, p); /* what came may have asked for an answer */
}

/* ---- receives -------------------------------------------------------------------------------- */

/* Take the oldest one of this tag off its list; NULL: none. */
static tg__early *take_early(tg__earlies *l, uint32_t tag)
{
    tg__early **link = &l->first;
    while (*link && (*link)->tag != tag)
        link = &(*link)->next;
    tg__early *e = *link;
    if (!e)
        return NULL;
    *link = e->next;
    if (!e->next)
        l->end = link;
    return e;
}

void tg__peer_match(tg__tcp *t, tg__peer *p, tg__tcp_post *receive)
{
    const bool first = !find(&p->receives, receive->tag, false);
    tg__early *e = first ? take_early(&p->early, receive->tag) : NULL;
    if (e) {
        receive->state = e->len <= receive->done ? TG__POST_DONE : TG__POST_TOO_LONG;
        receive->len = e->len;
        if (receive->state == TG__POST_DONE && e->len > 0)
            memcpy(receive->buf, e->bytes, e->len);
        p->owed += tg__message_cost(e->len);
        t->changed = true;
    } else if (first && p->aside && p->arriving_tag == receive->tag) {
        if (p->arriving_len <= receive->done && p->arriving_at > 0)
            memcpy(receive->buf, p->aside->bytes, p->arriving_at);
        free(p->aside);
        p->aside = NULL;
        p->into = receive;
    } else {
        e = first ? take_early(&p->asking, receive->tag) : NULL;
        tg__tcp_posts_add(&p->receives, receive);
        p->wants -= e != NULL;
        if (e && !p->gone)
            grant(t, p, receive);
    }
    free(e);
    if (p->control_len > 0 || p->owed >= TG__WINDOW / 8)
        tg__peer_push(t, p);
}

static void forget(tg__earlies *l)
{
    while (l->first) {
        tg__early *e = l->first;
        l->first = e->next;
        free(e);
    }
    l->end = &l->first;
}

void tg__peer_release(tg__peer *p)
{
    forget(&p->early);
    forget(&p->asking);
    free(p->aside);
    free(p->stage);
    free(p->control);
    p->aside = NULL;
    p->stage = p->control = NULL;
}
