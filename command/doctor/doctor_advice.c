/* What to change, so that a job runs well on these machines and links. */
#include "command/doctor/doctor_findings.h"
#include "command/output/format.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONG_DELAY_S 0.005 /* from here on a connection must fill its link by itself */
#define LOSS 0.0005        /* from here on cubic falls behind */
#define CLOCKS_S 1.0

struct advice {
    const struct doctor_findings *f;
    void (*say)(void *arg, const char *sentence);
    void *arg;
};

static void say(const struct advice *a, const char *format, ...) TG_PRINTF(2, 3);
static void say(const struct advice *a, const char *format, ...)
{
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    a->say(a->arg, sentence);
}

static const struct doctor_way *way(const struct doctor_findings *f, int from, int to)
{
    return &f->way[from * f->size + to];
}

static void versions(const struct advice *a)
{
    const struct doctor_machine *m = a->f->machine;
    for (int r = 1; r < a->f->size; r++)
        if (strcmp(m[r].version, m[0].version) != 0)
            say(a, "rank %d (%s) runs telegrad %s, rank 0 runs %s: install the same version", r,
                m[r].host, m[r].version, m[0].version);
}

static void relays(const struct advice *a)
{
    const int n = a->f->size;
    for (int r = 0; r < n; r++)
        for (int p = r + 1; p < n; p++)
            if (way(a->f, r, p)->relayed)
                say(a,
                    "ranks %d and %d do not reach each other, so rank 0 forwards their messages: "
                    "let TCP in at one of them, with --listen tcp://0.0.0.0:PORT and, behind a "
                    "router, --advertise tcp://HOST:PORT",
                    r, p);
}

/* The worst that a rank's links show. */
struct worst {
    double delay_s, loss;      /* of those that it sends over */
    double sending, receiving; /* bytes on the way in a round trip */
};

static double round_trip_bytes(const struct doctor_way *w)
{
    return w->link.rate_bps / 8 * 2 * w->link.delay_s;
}

static struct worst worst_of(const struct doctor_findings *f, int rank)
{
    struct worst w = {0};
    for (int p = 0; p < f->size; p++) {
        const struct doctor_way *out = way(f, rank, p);
        if (p == rank || out->local) /* TCP's settings do not matter there */
            continue;
        w.delay_s = fmax(w.delay_s, out->link.delay_s);
        if (out->sent >= 100)
            w.loss = fmax(w.loss, out->resent / out->sent);
        w.sending = fmax(w.sending, round_trip_bytes(out));
        w.receiving = fmax(w.receiving, round_trip_bytes(way(f, p, rank)));
    }
    return w;
}

/* A list of ranks that share an advice. */
struct ranks {
    char text[160]; /* "rank 0 (host-a)", "ranks 0, 1, 2"; "": none */
    int count, first;
};

static void add_rank(const struct advice *a, struct ranks *l, int rank)
{
    const size_t len = strlen(l->text), room = sizeof l->text - len;
    if (l->count++ == 0) {
        l->first = rank;
        snprintf(l->text, sizeof l->text, "rank %d (%s)", rank, a->f->machine[rank].host);
    } else if (l->count == a->f->size)
        snprintf(l->text, sizeof l->text, "all ranks");
    else if (l->count == 2)
        snprintf(l->text, sizeof l->text, "ranks %d, %d", l->first, rank);
    else if (room > 24)
        snprintf(l->text + len, room, ", %d", rank);
    else if (l->text[len - 1] != '.')
        snprintf(l->text + len, room, ", ...");
}

static void systems(const struct advice *a)
{
    struct ranks slow = {.count = 0}, idle = {.count = 0};
    for (int r = 0; r < a->f->size; r++) {
        const struct doctor_machine *m = &a->f->machine[r];
        const struct worst w = worst_of(a->f, r);
        if (strcmp(m->congestion, "bbr") == 0)
            continue;
        if (w.delay_s > LONG_DELAY_S || w.loss > LOSS)
            add_rank(a, &slow, r);
        if (m->idle_restart && w.delay_s > LONG_DELAY_S)
            add_rank(a, &idle, r);
    }
    if (slow.count)
        say(a,
            "%s: without congestion control bbr, which long and lossy links need: as root, run "
            "modprobe tcp_bbr, and sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic "
            "bbr\"",
            slow.text);
    if (idle.count)
        say(a,
            "%s: TCP starts slowly after each pause: as root, run sysctl -w "
            "net.ipv4.tcp_slow_start_after_idle=0",
            idle.text);
}

/* bytes: the most that a rank buffers of what it sends, or of what it receives; 0: unknown */
static void buffer(const struct advice *a, int rank, const char *what, double bytes, double held,
                   const char *setting)
{
    if (bytes > 0 && bytes < 2 * held)
        say(a,
            "rank %d (%s) buffers at most %s %s for a connection, and its links hold %s: as root, "
            "raise the last number of net.ipv4.%s to %.0f",
            rank, a->f->machine[rank].host, format_bytes(bytes).text, what, format_bytes(held).text,
            setting, 4 * held);
}

static void buffers(const struct advice *a)
{
    for (int r = 0; r < a->f->size; r++) {
        const struct doctor_machine *m = &a->f->machine[r];
        const struct worst w = worst_of(a->f, r);
        buffer(a, r, "to send", m->send_bytes, w.sending, "tcp_wmem");
        buffer(a, r, "received", m->receive_bytes, w.receiving, "tcp_rmem");
    }
}

/* The best rate of a rank's links, out and in. */
static double best_of(const struct doctor_findings *f, int rank)
{
    double best = 0;
    for (int p = 0; p < f->size; p++)
        if (p != rank)
            best = fmax(best, fmin(way(f, rank, p)->link.rate_bps, way(f, p, rank)->link.rate_bps));
    return best;
}

static void slow_ranks(const struct advice *a)
{
    double best[2] = {0}; /* of all ranks: the highest two */
    for (int r = 0; r < a->f->size; r++) {
        const double own = best_of(a->f, r);
        if (own > best[0]) {
            best[1] = best[0];
            best[0] = own;
        } else
            best[1] = fmax(best[1], own);
    }
    for (int r = 0; r < a->f->size; r++)
        if (best_of(a->f, r) < best[1] / 2)
            say(a,
                "rank %d (%s) has a link of %.3g Mbit/s, where others have %.3g: all ranks wait "
                "for it at every step",
                r, a->f->machine[r].host, best_of(a->f, r) / 1e6, best[1] / 1e6);
}

static void clocks(const struct advice *a)
{
    for (int r = 1; r < a->f->size; r++) {
        const double ahead = way(a->f, 0, r)->link.ahead_s;
        if (fabs(ahead) > CLOCKS_S)
            say(a,
                "the clock of rank %d (%s) is %s %s rank 0's: set it (training does not need it, "
                "times in records do)",
                r, a->f->machine[r].host, format_seconds(fabs(ahead)).text,
                ahead > 0 ? "ahead of" : "behind");
    }
}

/* As --link takes it: three digits, or all before the point, and never an exponent. */
static void print_number(char text[32], double v)
{
    const int digits = v < 0.1 ? 3 : v < 10 ? 2 : v < 100 ? 1 : 0;
    snprintf(text, 32, "%.*f", digits, v);
}

/* The slowest link, for telegrad advise. */
static void methods(const struct advice *a)
{
    const struct doctor_findings *f = a->f;
    double delay_s = 0, rate = INFINITY;
    for (int i = 0; i < f->size * f->size; i++) {
        const struct doctor_link *link = &f->way[i].link;
        if (i / f->size == i % f->size)
            continue;
        delay_s = fmax(delay_s, link->delay_s);
        if (link->rate_bps >= 1) /* else too little arrived to measure it */
            rate = fmin(rate, link->rate_bps);
    }
    char mbit[32], ms[32];
    print_number(mbit, fmax(rate / 1e6, 0.001));
    print_number(ms, fmax(delay_s * 1e3, 0.001));
    if (isfinite(rate))
        say(a,
            "which method suits these links: telegrad advise --model NAME --workers %d --link "
            "%smbit,%sms",
            f->size, mbit, ms);
}

void doctor_advise(const struct doctor_findings *f, void (*each)(void *arg, const char *sentence),
                   void *arg)
{
    const struct advice a = {f, each, arg};
    versions(&a);
    relays(&a);
    slow_ranks(&a);
    systems(&a);
    buffers(&a);
    clocks(&a);
    methods(&a);
}
