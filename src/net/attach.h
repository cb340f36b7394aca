/* Calling a server, for the first time or again. */
#ifndef TG_NET_ATTACH_H
#define TG_NET_ATTACH_H

#include "net/membership.h"

/* What a worker needs to call its servers again (tcp_renew.c). */
struct tg__renewal {
    tg_net_config config; /* of tg__net_patience */
    char job[TG__JOB_MAX];
    int count; /* servers */
    int64_t limit_ns;
    struct tg__away {
        int64_t since_ns; /* when the server was lost */
        int64_t next_ns;  /* when to call again */
        int64_t spent_ns; /* calling it, since it answered last */
        int turn;         /* calls since then */
        int losses;       /* so far */
        char why[TG__TEXT_MAX];
        char last[TG__TEXT_MAX]; /* why the last call failed */
    } server[];                  /* (count) */
};

/* One call, until it is answered, has failed, or tg__net_patience ends it. n->stream[server + 1] is
 * the connection then.
 * last   why the call before has failed; "": there was none
 * turn   of the calls to this server: which of its addresses is called
 * again  [out] of an error: the next call may do better
 * Errors as tg_net_attach */
TG_NODISCARD tg_status tg__net_call_server(tg_net *n, const char *job, int count, int server,
                                           const char *last, int turn, bool *again);

#endif
