/* PyTorch in a process of its own, beside this one: it is asked one line and answers one, and waits
 * while nobody asks, so that both sides can be timed in turn on one machine. */
#ifndef TG_BENCH_TORCH_PEER_H
#define TG_BENCH_TORCH_PEER_H

#include <stdio.h>
#include <sys/types.h>
#include "telegrad/base.h"

typedef struct torch_peer {
    pid_t pid;
    int fd;
    FILE *in;
} torch_peer;

/* Run `python -c argument...` with its standard input and output to this process, and wait until it
 * says "ready". p is valid for torch_peer_close in any case.
 * python    path of the interpreter, or its name
 * argument  ends in NULL
 * Errors    TG_E_IO: also where there is no Python, or no PyTorch in it (says what to install) */
TG_NODISCARD tg_status torch_peer_open(torch_peer *p, const char *python,
                                       const char *const *argument);
/* Ask a line (without its end), get a line (without its end, in `room` bytes).
 * Errors    TG_E_STATE: it has ended, or says "failed REASON" */
TG_NODISCARD tg_status torch_peer_ask(torch_peer *p, const char *question, char *answer,
                                      size_t room);
void torch_peer_close(torch_peer *p); /* waits for its end */

#endif
