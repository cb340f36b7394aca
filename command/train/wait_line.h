/* Whom a run waits for, on stderr while it does: on a terminal in the place of the progress bar,
 * else a line after ten seconds, twenty, forty, ... */
#ifndef TG_CLI_WAIT_LINE_H
#define TG_CLI_WAIT_LINE_H

#include <pthread.h>
#include "trainer/loop/train.h"

enum { WAIT_LINE_RANKS = 64 }; /* whose word is kept */

struct wait_line {
    const char *title; /* "" for none; borrowed */
    int world;
    bool together;         /* all ranks are of this process */
    pthread_mutex_t mutex; /* guards what follows */
    struct {
        int of;        /* whom this rank waits for ... */
        int64_t at_ns; /* ... said when; 0: nobody */
    } word[WAIT_LINE_RANKS];
    int64_t told_ns;  /* when rank 0 has last said that it waits; 0: never */
    int64_t begin_ns; /* of the wait that lines are about */
    double next;      /* its length at the next line, in seconds */
};

void wait_line_init(struct wait_line *w, const char *title, int world, bool together);
/* Rank `rank` of this process waits. Rank 0 speaks for all, and names who is at the end of those
 * who wait for each other, as far as they are of this process. If it is itself late, or a process
 * of its own that hears of the late one over others only, the rank after the late one speaks. */
void wait_line_tell(struct wait_line *w, int rank, const tg_wait *wait);

#endif
