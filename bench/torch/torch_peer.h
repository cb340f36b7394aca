/* PyTorch in a separate process that answers one line to each line it is asked. It waits between
 * questions, so that both sides can be timed alternately on one machine. */
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

/* Run `python -c argument...` with its standard input and output connected to this process, and
 * wait until it prints "ready". After a failure, too, p is valid for torch_peer_close.
 * python    path of the interpreter, or its name
 * argument  ends in NULL
 * Errors    TG_E_IO: also without Python or PyTorch (the message says what to install) */
TG_NODISCARD tg_status torch_peer_open(torch_peer *p, const char *python,
                                       const char *const *argument);
/* Send a line and receive the answer (at most `room` bytes), both without the newline.
 * Errors    TG_E_STATE: the process has ended, or answers "failed REASON" */
TG_NODISCARD tg_status torch_peer_ask(torch_peer *p, const char *question, char *answer,
                                      size_t room);
void torch_peer_close(torch_peer *p); /* waits for its end */

#endif
