#include "net/fields.h"
#include "net/tcp_impl.h"
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

void tg__tcp_head(uint8_t at[TG__HEAD], enum tg__tcp_frame kind, uint32_t tag, size_t len,
                  uint64_t number)
{
    tg__pack p = {.at = at, .end = at + TG__HEAD};
    tg__pack_number(&p, 4, (uint64_t)kind << 28 | tag);
    tg__pack_number(&p, 4, len);
    tg__pack_number(&p, 8, number);
}

bool tg__peer_control(tg__tcp *t, tg__peer *p, enum tg__tcp_frame kind, uint32_t tag, uint32_t len,
                      uint64_t number)
{
    if (p->control_len + TG__HEAD > p->control_cap) {
        const size_t cap = p->control_cap ? 2 * p->control_cap : 16 * TG__HEAD;
        uint8_t *grown = realloc(p->control, cap);
        if (!grown) {
            tg__peer_lose(t, p, "this rank is out of memory");
            return false;
        }
        p->control = grown;
        p->control_cap = cap;
    }
    tg__tcp_head(p->control + p->control_len, kind, tag, len, number);
    p->control_len += TG__HEAD;
    return true;
}

/* Whether a message of the same tag that was posted before p still waits. */
static bool is_overtaking(const tg__tcp_posts *sends, const tg__tcp_post *p)
{
    const tg__tcp_post *before = sends->first;
    while (before != p && before->tag != p->tag)
        before = before->next;
    return before != p;
}

/* The next message that may be sent; NULL: none. Those that must ask do. */
static tg__tcp_post *choose(tg__tcp *t, tg__peer *p)
{
    for (tg__tcp_post *s = p->sends.first; s; s = s->next) {
        if (s->wanted && !s->granted)
            continue;
        if (p->sends.first != s && is_overtaking(&p->sends, s))
            continue;
        if (s->granted || p->in_flight + tg__message_cost(s->len) <= TG__WINDOW)
            return s;
        if (p->asks == TG__WANTS_MAX)
            continue;
        s->wanted = true;
        p->asks++;
        if (!tg__peer_control(t, p, TG__FRAME_WANT, s->tag, 0, s->len))
            return NULL;
    }
    return NULL;
}

/* Begin the next segment of p->sending: its head, and a short one as a whole, go to the stage. */
static void stage_segment(tg__peer *p, enum tg__tcp_frame kind)
{
    tg__tcp_post *s = p->sending;
    const size_t left = s->len - s->done, most = p->paced.far ? TG__SEGMENT_FAR : TG__SEGMENT;
    const size_t len = left < most ? left : most;
    tg__tcp_head(p->stage, kind, s->tag, len, kind == TG__FRAME_MORE ? 0 : s->len);
    p->stage_len = TG__HEAD;
    p->segment_left = len;
    if (len > 0 && len <= TG__STAGE - TG__HEAD) {
        memcpy(p->stage + TG__HEAD, s->buf + s->done, len);
        p->stage_len += len;
        s->done += len;
        p->segment_left = 0;
    }
}

/* Put the next bytes to send on the stage. Returns false if there are none. */
static bool stage_next(tg__tcp *t, tg__peer *p)
{
    p->stage_at = p->stage_len = 0;
    if (t->is_shut || (p->moves && !tg__peer_move(p)))
        return false;
    if (p->owed >= TG__WINDOW / 8) {
        p->unreturned -= p->owed;
        tg__tcp_head(p->stage, TG__FRAME_CREDIT, 0, 0, p->owed);
        p->stage_len = TG__HEAD;
        p->owed = 0;
        return true;
    }
    if (p->sending && p->sending->done < p->sending->len && p->control_len == 0) {
        stage_segment(p, TG__FRAME_MORE);
        return true;
    }
    tg__tcp_post *next = p->sending || p->said_bye ? NULL : choose(t, p);
    if (p->control_len > 0) {
        const size_t len = p->control_len < TG__STAGE ? p->control_len : TG__STAGE;
        memcpy(p->stage, p->control, len);
        memmove(p->control, p->control + len, p->control_len - len);
        p->control_len -= len;
        p->stage_len = len;
        return true;
    }
    if (!next)
        return false;
    p->sending = next;
    if (!next->granted)
        p->in_flight += tg__message_cost(next->len);
    stage_segment(p, next->granted ? TG__FRAME_GRANTED : TG__FRAME_FIRST);
    return true;
}

/* The peer takes nothing any more. It may have left in order: what it sent before, and its BYE, are
 * still to be read. */
static void hear_last_words(tg__tcp *t, tg__peer *p)
{
    char why[TG__STREAM_WHY];
    const bool lost = p->stream->lost;
    memcpy(why, p->stream->why, sizeof why);
    p->deaf = true;
    t->polls = false; /* nothing may wait */
    if (lost) {
        p->stream->failed = p->stream->lost = false;
        if (p->stream->local) /* it must not go on for ever */
            tg__local_end(p->stream->local);
        do
            tg__peer_pull(t, p);
        while (p->has_more && !p->gone);
    }
    if (!p->gone) {
        p->stream->failed = false;
        tg__peer_lose(t, p, why);
    }
}

/* Write bytes that must all go. Returns how many of them went; less: try again, or it failed. */
static size_t write_some(tg__tcp *t, tg__peer *p, const uint8_t *bytes, size_t len)
{
    size_t at = 0;
    while (at < len) {
        const ptrdiff_t n = tg__stream_write(p->stream, bytes + at, len - at);
        if (n < 0)
            hear_last_words(t, p);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (at > 0 && p->stream->writes_local) /* else tg__stream.sent tells */
        p->went_ns = tg_now_ns(t->base.clock);
    tg__pace_gave(&t->pace, &p->paced, at);
    return at;
}

/* Bytes of a segment that may go now; 0: later. */
static size_t room_now(tg__tcp *t, tg__peer *p)
{
    if (!p->paced.far || t->is_shut)
        return SIZE_MAX;
    const size_t room = tg__pace_room(&t->pace, &p->paced, tg_now_ns(t->base.clock));
    p->held = room == 0;
    return room;
}

/* The stream has all of p->sending. */
static void give(tg__peer *p)
{
    tg__tcp_post *s = p->sending;
    tg__tcp_posts_remove(&p->sends, s);
    s->state = TG__POST_GIVEN;
    s->done = (size_t)(p->stream->sent + p->stream->out_len - p->stream->out_at);
    tg__tcp_posts_add(&p->given, s);
    p->sending = NULL;
}

static void settle_given(tg__tcp *t, tg__peer *p)
{
    tg__tcp_post *s;
    while ((s = p->given.first) && s->done <= p->stream->sent) {
        tg__tcp_posts_remove(&p->given, s);
        s->state = TG__POST_DONE;
        t->changed = true;
    }
}

/* Send until the connection takes no more, or nothing is left. */
static void send_all(tg__tcp *t, tg__peer *p)
{
    p->held = false;
    do {
        p->stage_at += write_some(t, p, p->stage + p->stage_at, p->stage_len - p->stage_at);
        if (p->gone || p->stage_at < p->stage_len)
            return;
        if (p->segment_left > 0) {
            const size_t room = room_now(t, p);
            const size_t want = room < p->segment_left ? room : p->segment_left;
            const size_t n = write_some(t, p, p->sending->buf + p->sending->done, want);
            if (p->gone)
                return;
            p->sending->done += n;
            p->segment_left -= n;
            if (n < want || want == 0)
                return;
            if (p->segment_left > 0)
                continue;
        }
        if (p->sending && p->sending->done == p->sending->len)
            give(p);
    } while (p->segment_left > 0 || stage_next(t, p));
}

void tg__peer_push(tg__tcp *t, tg__peer *p)
{
    if (p->gone || p->deaf)
        return;
    const uint64_t sent = p->stream->sent;
    send_all(t, p);
    if (!p->gone && tg__stream_flush(p->stream) < 0)
        hear_last_words(t, p);
    if (p->gone)
        return;
    if (p->stream->sent != sent)
        p->went_ns = tg_now_ns(t->base.clock);
    settle_given(t, p);
}

/* What the system has taken may take long to arrive: it says how much is not acknowledged. */
int64_t tg__tcp_moved_ns(tg_transport *base, int peer, bool send)
{
    tg__tcp *t = base->impl;
    tg__peer *p = &t->peer[peer];
    int waiting = 0;
    if (!send || !p->stream || p->gone)
        return send ? p->went_ns : p->came_ns;
    const int64_t now = tg_now_ns(base->clock);
    const bool known = ioctl(p->stream->fd, SIOCOUTQ, &waiting) == 0 && waiting >= 0;
    const uint64_t acknowledged = known ? p->stream->sent - (uint64_t)waiting : 0;
    if (known && acknowledged != p->acknowledged && p->asked_ns > p->went_ns)
        p->went_ns = p->asked_ns; /* or later */
    p->acknowledged = acknowledged;
    p->asked_ns = now;
    return p->went_ns;
}

void tg__peer_say_bye(tg__tcp *t, tg__peer *p)
{
    if (p->gone)
        return;
    const size_t rest = p->stage_len - p->stage_at, more = p->segment_left;
    uint8_t *aside = malloc(rest + more + TG__HEAD);
    if (!aside) {
        tg__peer_lose(t, p, "this rank is out of memory");
        return;
    }
    memcpy(aside, p->stage + p->stage_at, rest);
    if (more > 0)
        memcpy(aside + rest, p->sending->buf + p->sending->done, more);
    const int out = t->expelled, self = t->base.rank;
    const bool expels = out > 0 && (self == 0 || self == out || p->rank == out);
    tg__tcp_head(aside + rest + more, TG__FRAME_BYE, expels ? 1 + (uint32_t)t->told_by : 0, 0,
                 (uint64_t)((expels             ? out
                             : t->net->attached ? -1
                                                : t->blames) +
                            1));
    free(p->stage);
    p->stage = aside;
    p->stage_at = 0;
    p->stage_len = rest + more + TG__HEAD;
    p->segment_left = 0;
    p->control_len = 0;
    p->moves = false;
    p->owed = 0;
    p->sending = NULL;
    p->sends = (tg__tcp_posts){.first = NULL, .end = &p->sends.first};
    p->given = (tg__tcp_posts){.first = NULL, .end = &p->given.first};
    p->receives = (tg__tcp_posts){.first = NULL, .end = &p->receives.first};
    p->into = NULL;
}
