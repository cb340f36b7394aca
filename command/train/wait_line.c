#include "command/train/wait_line.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include <stdio.h>

#define STOP_LONG_MS 1500
#define FIRST_LINE 10                /* seconds */
#define FRESH_NS INT64_C(3000000000) /* ranks report about once a second */

void wait_line_init(struct wait_line *w, const char *title, int world, bool together, bool alone)
{
    *w = (struct wait_line){.title = title,
                            .world = world,
                            .together = together && world <= WAIT_LINE_RANKS,
                            .alone = alone,
                            .mutex = PTHREAD_MUTEX_INITIALIZER};
}

static bool is_fresh(int64_t at_ns, int64_t now)
{
    return at_ns != 0 && now - at_ns < FRESH_NS;
}

/* "rank", and "server" of those behind them. */
static const char *kind_of(const struct wait_line *w, int rank)
{
    return rank < w->world ? "rank" : "server";
}

static int number_of(const struct wait_line *w, int rank)
{
    return rank < w->world ? rank : rank - w->world;
}

/* Follow the chain of waiting ranks from `rank` to one that does not wait itself. -1: unknown (what
 * servers wait for), or they wait for each other. */
static int last_of_chain(const struct wait_line *w, int rank, int64_t now)
{
    int hops = w->together ? w->world : 0;
    while (hops > 0 && rank < w->world && is_fresh(w->word[rank].at_ns, now)) {
        rank = w->word[rank].of;
        hops--;
    }
    return hops > 0 && rank < w->world ? rank : -1;
}

/* "rank 2 and 1 other" */
static void name(const struct wait_line *w, const tg_wait *wait, int64_t now, char *who,
                 size_t room)
{
    char others[32] = "";
    const int last = last_of_chain(w, wait->rank, now);
    if (last >= 0 && last != wait->rank) {
        snprintf(who, room, "rank %d", last);
        return;
    }
    if (wait->others > 0)
        snprintf(others, sizeof others, " and %d other%s", wait->others,
                 wait->others > 1 ? "s" : "");
    snprintf(who, room, "%s %d%s%s", kind_of(w, wait->rank), number_of(w, wait->rank), others,
             wait->indirect && last < 0 ? " (which may be waiting itself)" : "");
}

/* Once a signal has come: that the run stops after the step which it waits in. */
static void say_stopping(struct wait_line *w, const char *who)
{
    if (stop_signal == 0 || w->says_stopping)
        return;
    w->says_stopping = true;
    console_say("%s: stopping after this step, which waits for %s; a second interrupt ends the run "
                "at once, without saving",
                stop_words(), who);
}

void wait_line_step(struct wait_line *w)
{
    if (!stop_came_before(STOP_LONG_MS))
        return;
    pthread_mutex_lock(&w->mutex);
    if (!w->says_stopping)
        console_say("%s: stopping once all ranks know of it, which can take some steps; a second "
                    "interrupt ends the run at once, without saving",
                    stop_words());
    w->says_stopping = true;
    pthread_mutex_unlock(&w->mutex);
}

static void show(struct wait_line *w, int rank, const tg_wait *wait, int64_t now)
{
    char who[96], line[256], speaker[32] = "";
    const double seconds = (double)wait->for_ns / 1e9;
    const int64_t begin = now - wait->for_ns;
    name(w, wait, now, who, sizeof who);
    say_stopping(w, who);
    if (begin - w->begin_ns > FRESH_NS) { /* a new wait */
        w->begin_ns = begin;
        w->next = FIRST_LINE;
    }
    if (console_terminal()) {
        snprintf(line, sizeof line, "%s%swaiting for %s, %.0f s", w->title, w->title[0] ? " " : "",
                 who, seconds);
        const int columns = console_columns() - 1;
        if (columns < (int)sizeof line)
            line[columns] = '\0';
        console_status(line);
    } else if (seconds >= w->next) {
        if (rank != 0 && !w->alone)
            snprintf(speaker, sizeof speaker, "rank %d: ", rank);
        console_say("%s%s%swaiting for %s for %.0f s (step %llu)", w->title,
                    w->title[0] ? ": " : "", speaker, who, seconds, (unsigned long long)wait->step);
        while (w->next <= seconds)
            w->next *= 2;
    }
}

void wait_line_tell(struct wait_line *w, int rank, const tg_wait *wait)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    pthread_mutex_lock(&w->mutex);
    if (rank < WAIT_LINE_RANKS) {
        w->word[rank].of = wait->rank;
        w->word[rank].at_ns = now;
    }
    const bool is_next = !wait->indirect && rank == (wait->rank + 1) % w->world;
    if (rank == 0)
        w->told_ns = now;
    if (rank == 0 || w->alone || (is_next && !is_fresh(w->told_ns, now)))
        show(w, rank, wait, now);
    pthread_mutex_unlock(&w->mutex);
}
