#include "net/pace.h"
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define FAR_US 3000U             /* a round trip from which a peer is far away */
#define TICK_NS INT64_C(3000000) /* between looks at the sockets */
#define QUEUE_US 70e3            /* queueing time aimed at: 35 ms each way */
#define SLOWNESS_US 400e3        /* see pace.h */
#define WAITING_NS 100e6         /* at most so much more is on its way than in a round trip */
#define FIRST_BYTES (192e3)      /* a round trip, until more is known */
#define RATE_LEAST 62.5e-6       /* 0.5 Mbit/s */
#define BURST_NS 40e6            /* tokens are kept for so long */
#define PIECE_NS 4e6             /* bytes are given out for so long at a time, ... */
#define PIECE_LEAST 4096.0       /* ... but at least and at most so many */
#define PIECE_MOST 65536.0
#define UNSENT_MOST ((uint32_t)16 << 10) /* more: congestion control is the limit */
#define LOST_MOST 0.02                   /* a link loses less by itself */

static double clamp(double v, double least, double most)
{
    return v < least ? least : v > most ? most : v;
}

/* ---- the sockets ----------------------------------------------------------------------------- */

uint64_t tg__pace_under_way(const struct tcp_info *i, uint64_t unacked)
{
    const uint64_t lost = i->tcpi_lost > i->tcpi_retrans ? i->tcpi_lost - i->tcpi_retrans : 0;
    const uint64_t absent = (i->tcpi_sacked + lost) * i->tcpi_snd_mss;
    return unacked > absent ? unacked - absent : 0;
}

static void read_socket(tg__paced *c)
{
    struct tcp_info i = {.tcpi_min_rtt = 0};
    socklen_t len = sizeof i;
    int unacked = 0;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &len) != 0 || i.tcpi_min_rtt == 0 ||
        i.tcpi_min_rtt == UINT32_MAX || ioctl(c->fd, SIOCOUTQ, &unacked) != 0)
        return;
    c->shortest_us = i.tcpi_min_rtt;
    c->usual_us = i.tcpi_rtt > i.tcpi_min_rtt ? i.tcpi_rtt : i.tcpi_min_rtt;
    c->arrived = i.tcpi_bytes_acked + (uint64_t)i.tcpi_sacked * i.tcpi_snd_mss;
    c->resent = i.tcpi_bytes_retrans;
    c->out = tg__pace_under_way(&i, (uint64_t)unacked);
    c->full = i.tcpi_notsent_bytes >= UNSENT_MOST;
}

void tg__pace_init(tg__pace *pace)
{
    *pace = (tg__pace){.read = read_socket, .gain = 1};
}

void tg__pace_connect(tg__pace *pace, tg__paced *c, int fd)
{
    static const char bbr[] = "bbr";
    *c = (tg__paced){.fd = fd};
    read_socket(c);
    if (c->shortest_us < FAR_US)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, bbr, sizeof bbr - 1);
    tg__pace_add(pace, c);
}

void tg__pace_add(tg__pace *pace, tg__paced *c)
{
    c->far = true;
    c->arrived_before = c->arrived;
    c->resent_before = c->resent;
    c->next = pace->first;
    pace->first = c;
    if (pace->rate == 0)
        pace->rate = FIRST_BYTES / (1e3 * c->shortest_us);
}

void tg__pace_remove(tg__pace *pace, tg__paced *c)
{
    tg__paced **link = &pace->first;
    while (*link && *link != c)
        link = &(*link)->next;
    if (*link)
        *link = c->next;
    c->far = false;
}

/* ---- the rate -------------------------------------------------------------------------------- */

/* What happened in an interval, over all connections. Times are weighted by bytes. */
typedef struct interval {
    double arrived, resent, shortest_us, usual_us;
    double arrival_rate; /* bytes a nanosecond that have arrived */
    double link_rate;    /* ... that were on their way, by the round trip */
} interval;

static interval measure(tg__pace *pace, int64_t now_ns)
{
    interval m = {.arrived = 0};
    for (tg__paced *c = pace->first; c; c = c->next) {
        /* Counted in packets behind a loss, it can have been too much. */
        const uint64_t more = c->arrived > c->arrived_before ? c->arrived - c->arrived_before : 0;
        const double arrived = (double)more;
        m.arrived += arrived;
        m.resent += (double)(c->resent - c->resent_before);
        m.shortest_us += arrived * c->shortest_us;
        m.usual_us += arrived * c->usual_us;
        c->arrived_before += more;
        c->resent_before = c->resent;
    }
    if (m.arrived <= 0 || pace->looked <= 0)
        return (interval){.arrived = 0};
    m.shortest_us /= m.arrived;
    m.usual_us /= m.arrived;
    m.arrival_rate = m.arrived / (double)(now_ns - pace->begun_ns);
    m.link_rate = pace->out / pace->looked / (1e3 * m.usual_us);
    return m;
}

/* The rate after an interval. */
static double next_rate(tg__pace *pace, const interval *m)
{
    const double rate = pace->rate, queued_us = m->usual_us - m->shortest_us;
    const double factor = 1 + clamp((QUEUE_US - queued_us) / SLOWNESS_US, -0.1, 1);
    const double first = pace->found ? 0 : FIRST_BYTES / (1e3 * m->shortest_us);
    const double least = first > RATE_LEAST ? first : RATE_LEAST;
    pace->found |= queued_us > 0.3 * m->shortest_us;
    if (m->resent > LOST_MOST * m->arrived || queued_us > 2 * QUEUE_US) {
        pace->found = true;
        const double less = m->arrival_rate < m->link_rate ? m->arrival_rate : m->link_rate;
        return clamp(0.9 * less, clamp(rate / 2, RATE_LEAST, rate), rate);
    }
    if (pace->lacked < 0.9 * pace->looked) /* the rate was not the limit all the time */
        return factor > 1 && rate < 1.5 * m->arrival_rate ? 1.1 * rate : rate;
    double aim = m->link_rate;
    if (!pace->found) /* the round trips do not show yet what the rate has become */
        aim = clamp(aim, 0, 1.5 * m->arrival_rate > rate ? 1.5 * m->arrival_rate : rate);
    aim = clamp(aim * factor, least, (pace->found ? 1.1 : 2) * rate);
    return aim > rate ? aim : (aim + rate) / 2;
}

static void learn(tg__pace *pace, int64_t now_ns)
{
    const interval m = measure(pace, now_ns);
    if (m.arrived > 0 && pace->lacked > 0 && !pace->begins)
        pace->rate = next_rate(pace, &m);
    pace->begins = false;
    pace->looked = pace->lacked = pace->out = 0;
    pace->begun_ns = now_ns;
    pace->ends_ns = now_ns + (int64_t)(1e3 * (m.arrived > 0 ? m.usual_us : FAR_US));
}

/* Ask the sockets. An interval ends after a usual round trip. */
static void look(tg__pace *pace, int64_t now_ns)
{
    const double since = (double)(now_ns - pace->looked_ns);
    double out = 0, queued = 0, longest_us = 0;
    for (tg__paced *c = pace->first; c; c = c->next) {
        pace->read(c);
        out += (double)c->out;
        queued += (double)c->out * (c->usual_us - c->shortest_us);
        if (longest_us < c->shortest_us)
            longest_us = c->shortest_us;
    }
    pace->gain = 1 + 0.25 * clamp(1 - (out > 0 ? queued / out / QUEUE_US : 0), -0.4, 1);
    if (out <= 0 || since > 30e6 + 200 * longest_us) { /* what comes first says nothing */
        pace->begins = true;
        pace->begun_ns = now_ns;
        pace->ends_ns = now_ns + (int64_t)(1500 * longest_us);
    } else if (now_ns >= pace->ends_ns)
        learn(pace, now_ns);
    pace->looked += since;
    pace->lacked += pace->short_of ? clamp(since, 0, 3.0 * TICK_NS) : 0;
    pace->out += out * since;
    pace->short_of = false;
    pace->looked_ns = now_ns;
}

size_t tg__pace_room(tg__pace *pace, tg__paced *c, int64_t now_ns)
{
    if (!c->far)
        return SIZE_MAX;
    if (now_ns >= pace->looked_ns + TICK_NS)
        look(pace, now_ns);
    const double piece = clamp(pace->rate * PIECE_NS, PIECE_LEAST, PIECE_MOST);
    pace->tokens += pace->gain * pace->rate * (double)(now_ns - pace->filled_ns);
    pace->tokens = clamp(pace->tokens, pace->tokens, pace->rate * BURST_NS + PIECE_LEAST);
    pace->filled_ns = now_ns;
    double room = pace->rate * (1e3 * c->shortest_us + WAITING_NS);
    for (const tg__paced *k = pace->first; k; k = k->next)
        room -= (double)k->out;
    if (!c->full && room >= piece && pace->tokens >= piece)
        return (size_t)piece;
    pace->short_of |= !c->full;
    if (pace->tick_ns <= now_ns) /* who asks early must not keep others waiting */
        pace->tick_ns = now_ns + TICK_NS;
    return 0;
}
