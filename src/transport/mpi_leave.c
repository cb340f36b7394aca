/* Leaving an MPI transport.
 *
 * MPI does not report that a rank leaves. So a rank that shuts or destroys its transport sends a
 * goodbye of 16 bytes to all others on a tag of its own. Ranks that poll find it, and fail what
 * they still expect from that rank. A rank that dies sends nothing: then the caller's deadlines
 * decide (or mpirun ends the job first).
 *
 * A goodbye is the last message of its rank. So a communicator is freed when the goodbyes of all
 * have arrived: earlier, a message could reach a later communicator that got the same number. Until
 * then, a destroyed transport stays in a list, which is swept when a transport is created or
 * destroyed, and when MPI is finalised. If a rank gave up, the communicator is never freed.
 *
 * A rank that finalises MPI with transports that exist gives them up there, where it can still say
 * goodbye. What uses them afterwards finds them shut and calls no MPI. */
#include "transport/mpi_impl.h"
#include <pthread.h>
#include <stdlib.h>

/* The reason: 0, it gave up because of no particular rank; 1 + r, because of rank r; or: */
#define SAYS_DONE UINT64_MAX

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static mpi_impl *alive, *destroyed;

bool tg__mpi_is_up(void)
{
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    return initialized && !finalized;
}

tg_status tg__mpi_fail(const char *call, int peer, int error)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int len = 0;
    if (MPI_Error_string(error, text, &len) != MPI_SUCCESS)
        text[0] = '\0';
    if (peer < 0)
        return tg_fail(TG_E_PEER, "%s: %s", call, text);
    return tg_fail(TG_E_PEER, "rank %d: %s: %s", peer, call, text);
}

static void note(mpi_impl *m, int rank, uint64_t why)
{
    mpi_peer *p = &m->peer[rank];
    p->left = why == SAYS_DONE ? IS_DONE : GAVE_UP;
    p->blamed = why <= (uint64_t)m->base.size ? (int)why - 1 : TG_BLAMED_NOBODY;
}

tg_status tg__mpi_hear_goodbyes(mpi_impl *m, bool *heard_p)
{
    bool heard = false;
    for (;;) {
        int found = 0;
        MPI_Status status;
        int error = MPI_Iprobe(MPI_ANY_SOURCE, TG__GOODBYE_TAG, m->comm, &found, &status);
        if (error != MPI_SUCCESS)
            return tg__mpi_fail("MPI_Iprobe", -1, error);
        if (!found)
            break;
        uint64_t said[2] = {0, 0};
        error = MPI_Recv(said, 2, MPI_UINT64_T, status.MPI_SOURCE, TG__GOODBYE_TAG, m->comm,
                         MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS)
            return tg__mpi_fail("MPI_Recv", status.MPI_SOURCE, error);
        if (said[0] == m->goodbye[0]) {
            note(m, status.MPI_SOURCE, said[1]);
            heard = true;
        }
    }
    *heard_p = heard;
    return TG_OK;
}

/* Goodbyes are small enough to be sent at once. If one is not, it is in the transport's memory,
 * which stays. Errors are ignored: a rank that misses a goodbye waits until its deadline. */
static void say_goodbye(mpi_impl *m)
{
    for (int rank = 0; rank < m->base.size; rank++) {
        mpi_peer *p = &m->peer[rank];
        int gone = 0;
        if (rank == m->base.rank || p->left == GAVE_UP)
            continue;
        if (MPI_Isend(m->goodbye, 2, MPI_UINT64_T, rank, TG__GOODBYE_TAG, m->comm, &p->farewell) !=
                MPI_SUCCESS ||
            MPI_Test(&p->farewell, &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            p->farewell = MPI_REQUEST_NULL;
    }
}

bool tg__mpi_shut(tg_transport *t)
{
    mpi_impl *m = impl_of(t);
    if (!m->is_shut && tg__mpi_is_up())
        say_goodbye(m);
    m->is_shut = true;
    return m->held == 0; /* waiting receives are simply dropped */
}

void tg__mpi_blame(tg_transport *t, int rank)
{
    impl_of(t)->goodbye[1] = (uint64_t)rank + 1;
}

int tg__mpi_blamed(tg_transport *t, int peer)
{
    mpi_impl *m = impl_of(t);
    bool heard;
    if (m->peer[peer].left == STAYS && tg__mpi_is_up())
        /* fails if MPI does; then there is nothing to hear */
        (void)tg__mpi_hear_goodbyes(m, &heard);
    return m->peer[peer].left == STAYS ? TG_NOT_LEFT : m->peer[peer].blamed;
}

/* ---- destroying ------------------------------------------------------------------------------ */

/* True if MPI has sent our goodbyes. */
static bool are_gone(mpi_impl *m)
{
    bool all = true;
    for (int rank = 0; rank < m->base.size; rank++) {
        int gone = 0;
        MPI_Request *r = &m->peer[rank].farewell;
        if (*r != MPI_REQUEST_NULL && MPI_Test(r, &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            *r = MPI_REQUEST_NULL;
        all = all && *r == MPI_REQUEST_NULL;
    }
    return all;
}

/* The weakest state of all peers: STAYS before GAVE_UP before IS_DONE. */
static mpi_left all_said(const mpi_impl *m)
{
    mpi_left least = m->goodbye[1] == SAYS_DONE ? IS_DONE : GAVE_UP;
    for (int rank = 0; rank < m->base.size; rank++)
        if (rank != m->base.rank && m->peer[rank].left != IS_DONE && least != STAYS)
            least = m->peer[rank].left;
    return least;
}

/* Free m, unless it must wait. If some rank gave up, the communicator is not freed. */
static bool settle(mpi_impl *m)
{
    bool heard;
    if (!are_gone(m) || tg__mpi_hear_goodbyes(m, &heard) != TG_OK)
        return false;
    const mpi_left said = all_said(m);
    if (said == STAYS && m->goodbye[1] == SAYS_DONE)
        return false;
    if (said == IS_DONE)
        (void)MPI_Comm_free(&m->comm);
    free(m->peer);
    free(m);
    return true;
}

void tg__mpi_sweep(void)
{
    if (!tg__mpi_is_up())
        return;
    pthread_mutex_lock(&list_lock);
    for (mpi_impl **link = &destroyed; *link;) {
        mpi_impl *m = *link, *next = m->next;
        if (settle(m))
            *link = next;
        else
            link = &m->next;
    }
    pthread_mutex_unlock(&list_lock);
}

/* The last goodbyes are received in MPI_Finalize for up to this time; it waits for all ranks
 * anyway. */
#define FINAL_WAIT_NS INT64_C(1000000000)

static void leave_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (mpi_impl *m = alive; m; m = m->next) {
        m->finalized = !m->is_shut;
        (void)tg__mpi_shut(&m->base);
    }
    pthread_mutex_unlock(&list_lock);
}

static int at_finalize(MPI_Comm comm, int keyval, void *attribute, void *extra)
{
    leave_all();
    const tg_clock *clock = tg_clock_monotonic();
    const int64_t end = tg_now_ns(clock) + FINAL_WAIT_NS;
    (void)comm, (void)keyval, (void)attribute, (void)extra;
    for (tg__mpi_sweep(); destroyed != NULL && tg_now_ns(clock) < end; tg__mpi_sweep())
        clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + 100000);
    return MPI_SUCCESS;
}

/* Attributes of MPI_COMM_SELF are deleted first in MPI_Finalize. If this fails, only the goodbyes
 * are lost. */
void tg__mpi_watch_finalize(void)
{
    static bool watches;
    int keyval;
    pthread_mutex_lock(&list_lock);
    if (!watches &&
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keyval, NULL) == MPI_SUCCESS) {
        watches = MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL) == MPI_SUCCESS;
        (void)MPI_Comm_free_keyval(&keyval);
    }
    pthread_mutex_unlock(&list_lock);
}

void tg__mpi_enlist(mpi_impl *m)
{
    pthread_mutex_lock(&list_lock);
    m->next = alive;
    alive = m;
    pthread_mutex_unlock(&list_lock);
}

static void strike(const mpi_impl *m)
{
    pthread_mutex_lock(&list_lock);
    mpi_impl **link = &alive;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    pthread_mutex_unlock(&list_lock);
}

void tg__mpi_destroy(tg_transport *t)
{
    mpi_impl *m = impl_of(t);
    strike(m);
    if (!m->is_shut && m->count == 0 && m->held == 0)
        m->goodbye[1] = SAYS_DONE;
    (void)tg__mpi_shut(t);
    free(m->pending);
    m->pending = NULL;
    /* the callers' buffers must stay, and so must memory of ours that MPI may still use */
    if (m->held > 0)
        return;
    pthread_mutex_lock(&list_lock);
    m->next = destroyed;
    destroyed = m;
    pthread_mutex_unlock(&list_lock);
    tg__mpi_sweep();
}
