/* The MPI transport's own: what mpi.c (messages) and mpi_leave.c (leaving) share. */
#ifndef TG_MPI_IMPL_H
#define TG_MPI_IMPL_H

#include "transport/mpi_posts.h"
#include "transport/endpoint.h"
#include <stdatomic.h>

#define TG__GOODBYE_TAG ((int)TG__TAG_CARRIED - 1) /* 2^26 - 1 */

typedef enum mpi_left {
    STAYS = 0,
    IS_DONE, /* destroyed its transport with nothing under way: what it sent before still comes */
    GAVE_UP
} mpi_left;

typedef struct mpi_peer {
    mpi_left left;
    int blamed;           /* the rank because of which it left */
    MPI_Request farewell; /* our goodbye to it; MPI_REQUEST_NULL: not said, or gone */
} mpi_peer;

typedef struct mpi_impl {
    tg_transport base; /* first: the address is the transport's */
    MPI_Comm comm;
    tg_request **pending; /* (count of cap): the caller's, until they are over */
    size_t count, cap;
    wait_list waiting;   /* receives without a message */
    size_t held;         /* operations and messages that MPI may still work on, failed ones too */
    mpi_peer *peer;      /* (size) */
    uint64_t goodbye[2]; /* ours: a number of this transport, agreed on, because one for an earlier
                            transport is not for us; then why, see mpi_leave.c */
    bool is_shut;
    _Atomic bool woken;
    struct mpi_impl *next; /* of those that were destroyed */
} mpi_impl;

static inline mpi_impl *impl_of(tg_transport *t)
{
    return t->impl;
}

/* MPI is initialised, and not finalised. */
bool tg__mpi_is_up(void);
/* peer  that an MPI call failed with; -1: no particular one */
tg_status tg__mpi_fail(const char *call, int peer, int error);

/* Look for goodbyes. *heard_p: whether one came. */
tg_status tg__mpi_hear_goodbyes(mpi_impl *m, bool *heard_p);
/* Free what was destroyed earlier and waited for the goodbyes of others. */
void tg__mpi_sweep(void);
/* Do so in MPI_Finalize, too. */
void tg__mpi_watch_finalize(void);

/* Members of the table. */
bool tg__mpi_shut(tg_transport *t);
void tg__mpi_blame(tg_transport *t, int rank);
int tg__mpi_blamed(tg_transport *t, int peer);
void tg__mpi_destroy(tg_transport *t);

#endif
