/* Prints on stderr whom a run waits for: on a terminal in place of the progress bar, else a line
 * after ten seconds, twenty, forty, ... */
#ifndef TG_CLI_WAIT_LINE_H
#define TG_CLI_WAIT_LINE_H

#include <pthread.h>
#include "trainer/loop/train.h"

enum { WAIT_LINE_RANKS = 64 }; /* ranks whose reports are kept */

struct wait_line {
    const char *title; /* "" for none; borrowed */
    int world;
    bool together;         /* all ranks are in this process */
    bool alone;            /* this process speaks for its own rank only, and to its own user */
    pthread_mutex_t mutex; /* guards the members below */
    struct {
        int of;        /* the rank that this one waits for ... */
        int64_t at_ns; /* ... time of that report; 0: none */
    } word[WAIT_LINE_RANKS];
    int64_t told_ns;    /* time when rank 0 last reported a wait; 0: never */
    int64_t begin_ns;   /* start of the wait that is being printed */
    double next;        /* length of the wait at the next line, in seconds */
    bool says_stopping; /* it has been said that the run stops */
};

void wait_line_init(struct wait_line *w, const char *title, int world, bool together, bool alone);
/* Rank `rank` of this process waits. Rank 0 prints for all ranks and names the end of the chain of
 * waiting ranks, as far as they are in this process. The rank after the late one prints instead if
 * rank 0 is itself late, or if it is a separate process that hears of the late rank only through
 * others. */
void wait_line_tell(struct wait_line *w, int rank, const tg_wait *wait);
/* Rank 0 has made a step, but not its last: if a signal came some time ago, say that the run is
 * stopping. */
void wait_line_step(struct wait_line *w);

#endif
