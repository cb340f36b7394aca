/* The inside of the MPI transport, shared by mpi.c (messages) and mpi_leave.c (leaving). */
#ifndef TG_MPI_IMPL_H
#define TG_MPI_IMPL_H

#include "transport/mpi_posts.h"
#include "transport/endpoint.h"
#include <stdatomic.h>

#define TG__GOODBYE_TAG ((int)TG__TAG_CARRIED - 1) /* 2^26 - 1 */

typedef enum mpi_left {
    STAYS = 0,
    IS_DONE, /* destroyed its transport with nothing in flight: what it sent before still arrives */
    GAVE_UP
} mpi_left;

typedef struct mpi_peer {
    mpi_left left;
    int blamed;           /* the rank that it blamed when it left */
    MPI_Request farewell; /* our goodbye to it; MPI_REQUEST_NULL: not sent, or complete */
} mpi_peer;

typedef struct mpi_impl {
    tg_transport base; /* first member: its address is the transport's */
    MPI_Comm comm;
    tg_request **pending; /* (count of cap) the caller's, until they are over */
    size_t count, cap;
    wait_list waiting; /* receives without a message */
    /* operations and messages, including failed ones, that MPI may still use */
    size_t held;
    mpi_peer *peer; /* (size) */
    /* ours: a number of this transport that the ranks agreed on, because goodbyes for an earlier
     * transport must be ignored; then the reason, see mpi_leave.c */
    uint64_t goodbye[2];
    _Atomic bool
        is_shut;    /* MPI_Finalize sets it too, perhaps on another thread than the driving one */
    bool finalized; /* ... with this */
    _Atomic bool woken;
    struct mpi_impl *next; /* in the list of all that exist, then of those destroyed */
} mpi_impl;

static inline mpi_impl *impl_of(tg_transport *t)
{
    return t->impl;
}

/* True if MPI is initialised and not finalised. */
bool tg__mpi_is_up(void);
/* Report a failed MPI call.
 * peer  the peer of the call; -1: no particular one */
tg_status tg__mpi_fail(const char *call, int peer, int error);

/* Wait for all ranks of a communicator. MPI's own waiting keeps the processor busy; this sleeps. */
tg_status tg__mpi_await_all(MPI_Comm comm);

/* Receive goodbyes. *heard_p: one arrived. */
tg_status tg__mpi_hear_goodbyes(mpi_impl *m, bool *heard_p);
/* Free transports that were destroyed earlier and waited for the goodbyes of others. */
void tg__mpi_sweep(void);
/* From now on, MPI_Finalize leaves the transports that still exist, and sweeps. */
void tg__mpi_watch_finalize(void);
/* Add a transport to those that exist, until it is destroyed. */
void tg__mpi_enlist(mpi_impl *m);

/* Members of the table. */
bool tg__mpi_shut(tg_transport *t);
void tg__mpi_blame(tg_transport *t, int rank);
int tg__mpi_blamed(tg_transport *t, int peer);
void tg__mpi_destroy(tg_transport *t);

#endif
