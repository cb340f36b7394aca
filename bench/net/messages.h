/* Two ranks that send each other messages, over one of several transports. */
#ifndef TG_BENCH_MESSAGES_H
#define TG_BENCH_MESSAGES_H

#include "telegrad/transport.h"

enum { MESSAGES_POSTS = 4 };

typedef struct messages messages;
struct messages {
    const char *name;
    int rank;
    /* Begin to send, or to receive, a message as operation i; wait for its end. */
    tg_status (*post)(messages *m, int i, bool sends, void *bytes, size_t len);
    tg_status (*wait)(messages *m, int i);
    void (*close)(messages *m);
    tg_transport *t; /* NULL: plain sockets */
    tg_request req[MESSAGES_POSTS];
    int fd;
};

/* Connect as the arguments say. Returns the first argument that is left, or minus the exit status,
 * after a message or when all is done. */
int messages_open(messages *m, int argc, char **argv);

#endif
