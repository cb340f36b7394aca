/* Calling a server, for the first time or again. */
#ifndef TG_NET_ATTACH_H
#define TG_NET_ATTACH_H

#include "net/membership.h"

/* What a worker needs to call its servers again (tcp_renew.c). */
struct tg__renewal {
    tg_net_config config; /* for tg__net_patience */
    char job[TG__JOB_MAX];
    int count; /* servers */
    int64_t limit_ns;
    struct tg__away {
        int64_t since_ns; /* when the server was lost */
        int64_t next_ns;  /* when to call again */
        int64_t spent_ns; /* on calling it, since its last answer */
        int turn;         /* calls since that answer */
        int losses;       /* of its connection so far */
        char why[TG__TEXT_MAX];
        char last[TG__TEXT_MAX]; /* why the last call failed */
    } server[];                  /* (count) */
};

typedef enum tg__called {
    TG__CALL_FAILED,  /* another call would fail, too */
    TG__CALL_AGAIN,   /* another call may succeed */
    TG__CALL_REFUSED, /* likewise, but the server answers: it has no seat, or not this one */
    TG__CALL_TAKEN,   /* likewise: another worker uses this seat */
} tg__called;

/* Call a server once, until it answers, the call fails, or tg__net_patience ends it. On success
 * n->stream[server + 1] is the connection.
 * last   why the previous call failed; "": there was none
 * turn   number of this call, which selects one of the server's addresses
 * patience_ns  how long it takes at most once the server's name is looked up (n->deadline_ns is
 *        made earlier then); 0: as long as tg__net_patience allows
 * how_p  [out] set after an error
 * Errors as tg_net_attach */
TG_NODISCARD tg_status tg__net_call_server(tg_net *n, const char *job, int count, int server,
                                           const char *last, int turn, int64_t patience_ns,
                                           tg__called *how_p);
/* How long to wait after so many calls in vain: up to 1 s, and up to half of that more by chance,
 * so that many workers do not call at the same time. */
int64_t tg__call_pause_ns(int calls);

#endif
