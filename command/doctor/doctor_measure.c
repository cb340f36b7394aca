#include "command/doctor/doctor_measure.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TAG_PING = 1,
    TAG_PONG,
    TAG_FOUND,
    TAG_CHUNK,
    TAG_ACK,
    TAG_RATE,
    TAG_TEXT,
    PINGS = 15,          /* after one that warms up */
    SLOTS = 256,         /* chunks on their way */
    CHUNK_MIN = 4 << 10, /* bytes */
    CHUNK_MAX = 64 << 10,
    CONFIRM_MAX = 1 << 20,
    ROUND_TRIPS = 20, /* a sender fills a long link only after some round trips */
    TEXT_MAX = 1 << 20
};
#define LOOK_NS INT64_C(100000000)
#define DELAY_MAX_S 60.0 /* of a link to a rank that measures */

struct talk {
    tg_transport *t;
    const struct doctor_measure *m;
};

static int64_t now(const struct talk *k)
{
    return tg_now_ns(k->t->clock);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Give up: after this nothing uses the memory of requests any more. */
static tg_status give_up(const struct talk *k, tg_status status)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", tg_error());
    (void)k->t->ops->shut(k->t);
    return tg_fail(status, "%s", why);
}

/* Wait until something may have happened; by: when the silence of peer is too long. */
static tg_status wait_on(const struct talk *k, int peer, int64_t by)
{
    if (k->m->stop && k->m->stop(k->m->arg))
        return give_up(k, tg_fail(TG_E_STOPPED, "it was interrupted"));
    if (now(k) >= by)
        return give_up(
            k, tg_fail(TG_E_PEER, "rank %d has not answered for %g s", peer, k->m->timeout_s));
    const int64_t look = now(k) + LOOK_NS;
    const tg_status status = k->t->ops->poll(k->t, look < by ? look : by);
    return status == TG_OK ? TG_OK : give_up(k, status);
}

static int64_t patience(const struct talk *k)
{
    return now(k) + (int64_t)(k->m->timeout_s * 1e9);
}

static tg_status test(const struct talk *k, tg_request *req, bool *done, size_t *len)
{
    const tg_status status = k->t->ops->test(k->t, req, done, len);
    return status == TG_OK ? TG_OK : give_up(k, status);
}

static tg_status finish(const struct talk *k, int peer, tg_request *req, size_t *len)
{
    const int64_t by = patience(k);
    for (bool done = false;;) {
        TG_TRY(test(k, req, &done, len));
        if (done)
            return TG_OK;
        TG_TRY(wait_on(k, peer, by));
    }
}

static tg_status post_send(const struct talk *k, int peer, uint32_t tag, const void *buf,
                           size_t len, tg_request *req)
{
    const tg_status status = k->t->ops->post_send(k->t, peer, tag, buf, len, req);
    return status == TG_OK ? TG_OK : give_up(k, status);
}

static tg_status post_recv(const struct talk *k, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    const tg_status status = k->t->ops->post_recv(k->t, peer, tag, buf, cap, req);
    return status == TG_OK ? TG_OK : give_up(k, status);
}

static tg_status say(const struct talk *k, int peer, uint32_t tag, const void *buf, size_t len)
{
    tg_request req;
    TG_TRY(post_send(k, peer, tag, buf, len, &req));
    return finish(k, peer, &req, &len);
}

static tg_status hear(const struct talk *k, int peer, uint32_t tag, void *buf, size_t cap,
                      size_t *len)
{
    tg_request req;
    TG_TRY(post_recv(k, peer, tag, buf, cap, &req));
    return finish(k, peer, &req, len);
}

/* A message of exactly this length. */
static tg_status hear_all(const struct talk *k, int peer, uint32_t tag, void *buf, size_t len)
{
    size_t got;
    TG_TRY(hear(k, peer, tag, buf, len, &got));
    if (got != len)
        return give_up(
            k, tg_fail(TG_E_CORRUPT, "rank %d sent %zu bytes where %zu are due", peer, got, len));
    return TG_OK;
}

/* ---- delay and clocks ------------------------------------------------------------------------ */

static double wall(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the rank that asks tells the other one. */
struct found {
    double delay_s, jitter_s, ahead_s;
};

static tg_status ask(const struct talk *k, int peer, struct doctor_link *link)
{
    double trip[PINGS], best = 1e300, before, there;
    for (int i = -1; i < PINGS; i++) {
        const int64_t from = now(k);
        before = wall();
        TG_TRY(say(k, peer, TAG_PING, &before, sizeof before));
        TG_TRY(hear_all(k, peer, TAG_PONG, &there, sizeof there));
        const double took = (double)(now(k) - from) * 1e-9;
        if (i < 0)
            continue;
        trip[i] = took;
        if (took < best) {
            best = took;
            link->ahead_s = there - (before + wall()) / 2;
        }
    }
    qsort(trip, PINGS, sizeof *trip, rising);
    link->delay_s = trip[0] / 2;
    link->jitter_s = (trip[PINGS / 2] - trip[0]) / 2;
    const struct found found = {link->delay_s, link->jitter_s, link->ahead_s};
    return say(k, peer, TAG_FOUND, &found, sizeof found);
}

static tg_status answer(const struct talk *k, int peer, struct doctor_link *link)
{
    double theirs, mine;
    struct found found;
    for (int i = -1; i < PINGS; i++) {
        TG_TRY(hear_all(k, peer, TAG_PING, &theirs, sizeof theirs));
        mine = wall();
        TG_TRY(say(k, peer, TAG_PONG, &mine, sizeof mine));
    }
    TG_TRY(hear_all(k, peer, TAG_FOUND, &found, sizeof found));
    /* NaN fails all of these. The delay sets for how long send_chunks sends. */
    if (!(found.delay_s >= 0 && found.delay_s <= DELAY_MAX_S && found.jitter_s >= 0 &&
          found.jitter_s <= k->m->timeout_s && isfinite(found.ahead_s)))
        return give_up(k, tg_fail(TG_E_CORRUPT,
                                  "rank %d reports a delay of %g s, a jitter of %g s and clocks %g "
                                  "s apart: allowed: delays of 0 to %g s",
                                  peer, found.delay_s, found.jitter_s, found.ahead_s, DELAY_MAX_S));
    link->delay_s = found.delay_s;
    link->jitter_s = found.jitter_s;
    link->ahead_s = -found.ahead_s;
    return TG_OK;
}

/* ---- rate ------------------------------------------------------------------------------------ */

/* The first byte of a chunk. */
enum { CHUNK_FIRST_HALF, CHUNK_SECOND_HALF, CHUNK_LAST };

struct sending {
    tg_request req[SLOTS];
    size_t len[SLOTS];
    uint64_t posted, done; /* chunks */
    uint64_t bytes, acked;
    uint8_t chunk[3][CHUNK_MAX];
};

/* Chunks whose memory is free again. */
static tg_status retire(const struct talk *k, struct sending *s)
{
    size_t len;
    for (bool done = true; s->done < s->posted;) {
        TG_TRY(test(k, &s->req[s->done % SLOTS], &done, &len));
        if (!done)
            break;
        s->done++;
    }
    return TG_OK;
}

static tg_status push(const struct talk *k, int peer, struct sending *s, int kind, size_t len)
{
    const size_t slot = s->posted % SLOTS;
    TG_TRY(post_send(k, peer, TAG_CHUNK, s->chunk[kind], len, &s->req[slot]));
    s->posted++;
    s->bytes += len;
    return TG_OK;
}

/* Send for a while. What is on its way doubles with each round trip, so that a slow link is not
 * given more than it can take in the time. */
static tg_status send_chunks(const struct talk *k, int peer, struct sending *s,
                             struct doctor_link *link)
{
    double seconds = k->m->seconds;
    if (seconds < 2 * ROUND_TRIPS * link->delay_s)
        seconds = 2 * ROUND_TRIPS * link->delay_s;
    const int64_t start = now(k), half = start + (int64_t)(seconds * 0.5e9),
                  end = start + (int64_t)(seconds * 1e9);
    int64_t by = patience(k);
    uint64_t total;
    size_t len;
    tg_request ack;
    for (int kind = 0; kind <= CHUNK_SECOND_HALF; kind++)
        memset(s->chunk[kind], kind, CHUNK_MAX);
    s->chunk[CHUNK_LAST][0] = CHUNK_LAST;
    TG_TRY(post_recv(k, peer, TAG_ACK, &total, sizeof total, &ack));
    bool second = false, over = false, waits = true; /* for a confirmation */
    while (!over || s->acked < s->bytes || s->done < s->posted) {
        const uint64_t window = 16 * CHUNK_MIN + s->acked;
        size_t most = (size_t)(window / 16 < CHUNK_MAX ? window / 16 : CHUNK_MAX);
        bool done = false;
        TG_TRY(retire(k, s));
        while (!over && s->posted - s->done < SLOTS && s->bytes + most <= s->acked + window) {
            const bool last = second && now(k) >= end;
            TG_TRY(push(k, peer, s,
                        last     ? CHUNK_LAST
                        : second ? CHUNK_SECOND_HALF
                                 : CHUNK_FIRST_HALF,
                        last ? 1 : most));
            over = last;
            second = now(k) >= half;
            if (s->posted % 16 == 0) /* let what arrives in */
                break;
        }
        if (waits)
            TG_TRY(test(k, &ack, &done, &len));
        if (done) {
            if (len != sizeof total || total < s->acked || total > s->bytes)
                return give_up(k,
                               tg_fail(TG_E_CORRUPT, "rank %d confirms what was not sent", peer));
            s->acked = total;
            by = patience(k);
            waits = !over || s->acked < s->bytes;
            if (waits)
                TG_TRY(post_recv(k, peer, TAG_ACK, &total, sizeof total, &ack));
        } else
            TG_TRY(wait_on(k, peer, by));
    }
    TG_TRY(hear_all(k, peer, TAG_RATE, &link->rate_bps, sizeof link->rate_bps));
    return link->rate_bps >= 0 && isfinite(link->rate_bps)
               ? TG_OK
               : give_up(k, tg_fail(TG_E_CORRUPT, "rank %d reports a rate of %g bit/s", peer,
                                    link->rate_bps));
}

/* Confirmations are few: many small packets would make TCP believe that the way back is full. */
static bool is_due(uint64_t bytes, uint64_t confirmed)
{
    const uint64_t more = bytes - confirmed, share = bytes / 8;
    return more >= CHUNK_MIN && more >= (share < CONFIRM_MAX ? share : CONFIRM_MAX);
}

static tg_status take_chunks(const struct talk *k, int peer, uint8_t *buf)
{
    uint64_t bytes = 0, confirmed = 0, at_half = 0;
    int64_t half = 0, at = 0;
    size_t len;
    for (bool over = false; !over;) {
        TG_TRY(hear(k, peer, TAG_CHUNK, buf, CHUNK_MAX, &len));
        if (len == 0 || buf[0] > CHUNK_LAST)
            return give_up(k, tg_fail(TG_E_CORRUPT, "rank %d sent no chunk", peer));
        bytes += len;
        over = buf[0] == CHUNK_LAST;
        if (buf[0] == CHUNK_SECOND_HALF) {
            at = now(k);
            if (half == 0) {
                half = at;
                at_half = bytes;
            }
        }
        if (over || is_due(bytes, confirmed)) {
            confirmed = bytes;
            TG_TRY(say(k, peer, TAG_ACK, &confirmed, sizeof confirmed));
        }
    }
    const double rate = at > half ? (double)(bytes - 1 - at_half) * 8e9 / (double)(at - half) : 0;
    return say(k, peer, TAG_RATE, &rate, sizeof rate);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static tg_status measure_pair(const struct talk *k, int peer, struct sending *s,
                              struct doctor_link *link)
{
    const bool first = k->t->rank < peer;
    TG_TRY(first ? ask(k, peer, link) : answer(k, peer, link));
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == first) {
            memset(s, 0, offsetof(struct sending, chunk));
            TG_TRY(send_chunks(k, peer, s, link));
        } else
            TG_TRY(take_chunks(k, peer, s->chunk[0]));
    }
    return TG_OK;
}

/* The rank's partner in a round of a tournament in which each pair meets once; itself: none. There
 * are `even` players, an even number, and even - 1 rounds. */
static int partner_of(int rank, int round, int even)
{
    const int last = even - 1;
    if (rank == last)
        return (int)((int64_t)round * (even / 2) % last);
    const int other = (round - rank % last + last) % last;
    return other == rank ? last : other;
}

tg_status doctor_measure(tg_transport *t, const struct doctor_measure *m, struct doctor_link *links)
{
    const struct talk k = {t, m};
    const int even = t->size + t->size % 2;
    struct sending *s = malloc(sizeof *s);
    tg_status status = s ? TG_OK : give_up(&k, tg_fail(TG_E_NOMEM, "out of memory: chunks"));
    memset(links, 0, (size_t)t->size * sizeof *links);
    for (int round = 0; round < even - 1 && status == TG_OK; round++) {
        const int peer = partner_of(t->rank, round, even);
        if (peer >= t->size || peer == t->rank)
            continue;
        if (m->begin)
            m->begin(m->arg, peer);
        status = measure_pair(&k, peer, s, &links[peer]);
        if (m->end && status == TG_OK)
            m->end(m->arg, peer);
    }
    free(s);
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static tg_status hear_text(const struct talk *k, int peer, char **text_p)
{
    size_t len;
    char *text = malloc(TEXT_MAX + 1);
    if (!text)
        return give_up(k, tg_fail(TG_E_NOMEM, "out of memory: what rank %d says", peer));
    const tg_status status = hear(k, peer, TAG_TEXT, text, TEXT_MAX, &len);
    if (status == TG_OK) {
        text[len] = '\0';
        char *fits = realloc(text, len + 1);
        *text_p = fits ? fits : text;
    } else
        free(text);
    return status;
}

tg_status doctor_share(tg_transport *t, const struct doctor_measure *m, const char *text,
                       char **all)
{
    const struct talk k = {t, m};
    memset(all, 0, (size_t)t->size * sizeof *all);
    all[t->rank] = strdup(text);
    tg_status status =
        all[t->rank] ? TG_OK : give_up(&k, tg_fail(TG_E_NOMEM, "out of memory: what ranks say"));
    /* Pairs in the order of the rounds; the lower rank speaks first. */
    const int even = t->size + t->size % 2;
    for (int round = 0; round < even - 1 && status == TG_OK; round++) {
        const int peer = partner_of(t->rank, round, even);
        if (peer >= t->size || peer == t->rank)
            continue;
        if (t->rank < peer)
            status = say(&k, peer, TAG_TEXT, text, strlen(text));
        if (status == TG_OK)
            status = hear_text(&k, peer, &all[peer]);
        if (t->rank > peer && status == TG_OK)
            status = say(&k, peer, TAG_TEXT, text, strlen(text));
    }
    for (int r = 0; r < t->size && status != TG_OK; r++) {
        free(all[r]);
        all[r] = NULL;
    }
    return status;
}
