/* Ranks as MPI processes. Built into libtelegrad-mpi, which uses only the core's public functions.
 *
 * A posted receive waits here, not in MPI: some MPI libraries write a message that is too long past
 * the end of the buffer before they report it. So `test` and `poll` first ask for a message's
 * length (MPI_Improbe), and give MPI only a buffer that can hold the message.
 *
 * MPI cannot sleep, so `poll` asks for progress at increasing intervals. MPI also does not report
 * that a rank leaves: see mpi_leave.c. */
#include "telegrad/mpi.h"
#include "base/arg.h"
#include "transport/mpi_impl.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_MIN_NS 20000
#define NAP_MAX_NS 200000
/* A message that does not fit and is longer than this is not received at all, so that its sender
 * cannot make us allocate without limit. Its send then never completes. */
#define DISCARD_MAX ((size_t)1 << 26)

static tg_status check_live(tg_transport *t, const char *verb)
{
    if (impl_of(t)->is_shut && impl_of(t)->finalized)
        return tg_fail(TG_E_STATE,
                       "%s: this rank (%d) called MPI_Finalize before it destroyed this transport: "
                       "destroy the transport first",
                       verb, t->rank);
    if (impl_of(t)->is_shut)
        return tg_fail(TG_E_STATE, "%s: this rank (%d) has left its MPI transport", verb, t->rank);
    return TG_OK;
}

/* left: the ways of leaving of a peer that make this fail. */
static tg_status check_post(tg_transport *t, const char *verb, int peer, uint32_t tag,
                            const void *buf, size_t len, const tg_request *req, mpi_left left)
{
    mpi_impl *m = impl_of(t);
    TG_TRY(check_live(t, verb));
    TG_TRY(tg__post_check(t, verb, peer, tag, (uint32_t)TG__GOODBYE_TAG, buf, len, req));
    if (m->peer[peer].left >= left)
        return tg_fail(TG_E_PEER, "rank %d has left", peer);
    if (m->count == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        tg_request **grown = realloc(m->pending, cap * sizeof *grown);
        if (!grown)
            return tg_fail(TG_E_NOMEM, "out of memory: list of %zu requests", cap);
        m->pending = grown;
        m->cap = cap;
    }
    return TG_OK;
}

static void add_pending(mpi_impl *m, tg_request *req, int peer, uint32_t tag, uint64_t state)
{
    *req = (tg_request){0};
    req->word[W_INDEX] = m->count;
    req->word[W_KEY] = (uint64_t)peer << 32 | tag;
    req->word[W_STATE] = state;
    m->pending[m->count++] = req;
}

static void end_pending(mpi_impl *m, tg_request *req)
{
    size_t index = (size_t)req->word[W_INDEX];
    tg_request *last = m->pending[--m->count];
    m->pending[index] = last;
    last->word[W_INDEX] = index;
    req->word[W_STATE] = OVER;
}

/* ---- waiting receives ------------------------------------------------------------------------ */

/* Receive the message that req waited for, if its length allows. */
static void receive(mpi_impl *m, tg_request *req, MPI_Message message, const MPI_Status *status)
{
    MPI_Count count = 0;
    bool counted = MPI_Get_elements_x(status, MPI_BYTE, &count) == MPI_SUCCESS && count >= 0;
    size_t len = counted ? (size_t)count : SIZE_MAX;
    bool fits = len <= (size_t)req->word[W_CAP];
    void *buf = (void *)(uintptr_t)req->word[W_BUF], *scratch = NULL;
    m->held++;
    req->word[W_LEN] = len;
    if (!fits && (len > DISCARD_MAX || !(scratch = malloc(len)))) {
        req->word[W_STATE] = REFUSED;
        return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_Imrecv(fits ? buf : scratch, (int)len, MPI_BYTE, &message, &request);
    if (error != MPI_SUCCESS) {
        free(scratch);
        req->word[W_LEN] = (uint64_t)error;
        req->word[W_STATE] = BROKEN;
        return;
    }
    put_request(req, request);
    req->word[W_SCRATCH] = (uint64_t)(uintptr_t)scratch;
    req->word[W_STATE] = fits ? RECEIVING : DISCARDING;
}

/* Assign arrived messages to the receives like req, oldest first, until req has one. */
static tg_status match(mpi_impl *m, const tg_request *req)
{
    int peer = peer_of(req), tag = (int)(uint32_t)req->word[W_KEY];
    while (req->word[W_STATE] == WAITING) {
        int found = 0;
        MPI_Message message;
        MPI_Status status;
        int error = MPI_Improbe(peer, tag, m->comm, &found, &message, &status);
        if (error != MPI_SUCCESS)
            return tg__mpi_fail("MPI_Improbe", peer, error);
        if (!found)
            break;
        tg_request *first = oldest_like(&m->waiting, req);
        dequeue(&m->waiting, first);
        receive(m, first, message, &status);
    }
    return TG_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static tg_status mpi_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                               tg_request *req)
{
    mpi_impl *m = impl_of(t);
    TG_TRY(check_post(t, "post_send", peer, tag, buf, len, req, IS_DONE));
    if (len > INT_MAX)
        return tg_fail(TG_E_ARG, "post_send: len=%zu: allowed over MPI: at most %d bytes", len,
                       INT_MAX);
    MPI_Request request;
    int error = MPI_Isend(buf, (int)len, MPI_BYTE, peer, (int)tag, m->comm, &request);
    if (error != MPI_SUCCESS)
        return tg__mpi_fail("MPI_Isend", peer, error);
    add_pending(m, req, peer, tag, SENDING);
    put_request(req, request);
    req->word[W_LEN] = len;
    m->held++;
    return TG_OK;
}

static tg_status mpi_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                               tg_request *req)
{
    mpi_impl *m = impl_of(t);
    TG_TRY(check_post(t, "post_recv", peer, tag, buf, cap, req, GAVE_UP));
    if (cap > INT_MAX)
        return tg_fail(TG_E_ARG, "post_recv: cap=%zu: allowed over MPI: at most %d bytes", cap,
                       INT_MAX);
    add_pending(m, req, peer, tag, WAITING);
    req->word[W_BUF] = (uint64_t)(uintptr_t)buf;
    req->word[W_CAP] = cap;
    enqueue(&m->waiting, req);
    return TG_OK;
}

static tg_status fail_too_long(const tg_request *req)
{
    return tg_fail(TG_E_CORRUPT,
                   "a message of %zu bytes from rank %d is longer than expected: at most %zu bytes",
                   (size_t)req->word[W_LEN], peer_of(req), (size_t)req->word[W_CAP]);
}

/* Ask MPI whether it has completed an operation; if so, the operation and its scratch are
 * released. */
static tg_status test_held(mpi_impl *m, tg_request *req, bool *done_p)
{
    int done = 0;
    MPI_Request request = get_request(req);
    int error = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    put_request(req, request);
    if (request == MPI_REQUEST_NULL) {
        m->held--;
        free((void *)(uintptr_t)req->word[W_SCRATCH]);
    }
    if (error == MPI_SUCCESS) {
        *done_p = done != 0;
        return TG_OK;
    }
    if (request != MPI_REQUEST_NULL) /* some implementations keep a failed request */
        (void)MPI_Request_free(&request);
    return tg__mpi_fail("MPI_Test", peer_of(req), error);
}

/* True if the peer has left and the operation can no longer complete. A message of a peer that is
 * done may still be in flight. */
static bool has_lost(const mpi_impl *m, const tg_request *req)
{
    const mpi_left left = m->peer[peer_of(req)].left;
    const bool has_begun = req->word[W_STATE] == RECEIVING || req->word[W_STATE] == DISCARDING;
    return left == GAVE_UP || (left == IS_DONE && !has_begun);
}

/* Advance the operation. *done_p: it has completed. An error ends it as well. */
static tg_status advance(mpi_impl *m, tg_request *req, bool *done_p)
{
    int peer = peer_of(req);
    bool done = false;
    if (req->word[W_STATE] == WAITING) {
        tg_status status = match(m, req);
        if (status == TG_OK && req->word[W_STATE] == WAITING && m->peer[peer].left != STAYS)
            status = tg_fail(TG_E_PEER, "rank %d has left", peer);
        if (status != TG_OK)
            dequeue(&m->waiting, req);
        if (status != TG_OK || req->word[W_STATE] == WAITING) {
            *done_p = false;
            return status;
        }
    }
    if (req->word[W_STATE] == REFUSED)
        return fail_too_long(req);
    if (req->word[W_STATE] == BROKEN)
        return tg__mpi_fail("MPI_Imrecv", peer, (int)req->word[W_LEN]);
    TG_TRY(test_held(m, req, &done));
    if (!done && has_lost(m, req))
        return tg_fail(TG_E_PEER, "rank %d has left", peer);
    if (done && req->word[W_STATE] == DISCARDING)
        return fail_too_long(req);
    *done_p = done;
    return TG_OK;
}

static tg_status mpi_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    mpi_impl *m = impl_of(t);
    TG_TRY(check_live(t, "test"));
    if (req->word[W_STATE] == OVER)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    bool done = false;
    tg_status status = advance(m, req, &done);
    if (status != TG_OK || done)
        end_pending(m, req);
    if (status != TG_OK)
        return status;
    if (done)
        *len_p = (size_t)req->word[W_LEN];
    *done_p = done;
    return TG_OK;
}

/* True if `test` would find this operation over. That includes errors, which it must report. */
static bool is_over(const mpi_impl *m, const tg_request *req)
{
    int done = 0;
    if (has_lost(m, req))
        return true;
    if (req->word[W_STATE] == WAITING)
        return false;
    if (req->word[W_STATE] == REFUSED || req->word[W_STATE] == BROKEN)
        return true;
    return MPI_Request_get_status(get_request(req), &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
           done;
}

/* Check everything pending once. *over_p: test would find something over. *met_p: a receive got its
 * message. */
static tg_status look(mpi_impl *m, bool *over_p, bool *met_p)
{
    /* Usually there is nothing, so one probe replaces one per receive. It also lets MPI make
     * progress. */
    int mail = 0;
    bool heard = false;
    int error = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &mail, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS)
        return tg__mpi_fail("MPI_Iprobe", -1, error);
    if (mail)
        TG_TRY(tg__mpi_hear_goodbyes(m, &heard));
    bool over = heard, met = false;
    /* All of them, even if one is over: peers may wait until we receive what they send. */
    for (size_t i = 0; i < m->count; i++) {
        tg_request *req = m->pending[i];
        if (mail && req->word[W_STATE] == WAITING && oldest_like(&m->waiting, req) == req) {
            TG_TRY(match(m, req));
            met = met || req->word[W_STATE] != WAITING;
        }
        over = over || is_over(m, req);
    }
    *over_p = over;
    *met_p = met;
    return TG_OK;
}

static tg_status mpi_poll(tg_transport *t, int64_t deadline_ns)
{
    mpi_impl *m = impl_of(t);
    for (int64_t nap = NAP_MIN_NS;; nap = nap * 2 < NAP_MAX_NS ? nap * 2 : NAP_MAX_NS) {
        bool over = false, met = false;
        TG_TRY(check_live(t, "poll"));
        TG_TRY(look(m, &over, &met));
        int64_t now = tg_now_ns(t->clock);
        if (over || atomic_exchange(&m->woken, false) || now >= deadline_ns)
            return TG_OK;
        if (met) /* the rest of a long message follows */
            nap = NAP_MIN_NS;
        t->clock->sleep_until_ns(t->clock->arg, deadline_ns - now < nap ? deadline_ns : now + nap);
    }
}

static void mpi_wake(tg_transport *t)
{
    atomic_store(&impl_of(t)->woken, true);
}

static const tg_transport_ops mpi_ops = {
    .struct_size = sizeof mpi_ops,
    .name = "mpi",
    .post_send = mpi_post_send,
    .post_recv = mpi_post_recv,
    .test = mpi_test,
    .poll = mpi_poll,
    .wake = mpi_wake,
    .shut = tg__mpi_shut,
    .blame = tg__mpi_blame,
    .blamed = tg__mpi_blamed,
    .destroy = tg__mpi_destroy,
};

static tg_status make_peers(mpi_impl *m)
{
    m->peer = calloc((size_t)m->base.size, sizeof *m->peer);
    if (!m->peer)
        return tg_fail(TG_E_NOMEM, "out of memory: %d ranks", m->base.size);
    for (int rank = 0; rank < m->base.size; rank++)
        m->peer[rank] = (mpi_peer){.blamed = TG_BLAMED_NOBODY, .farewell = MPI_REQUEST_NULL};
    return TG_OK;
}

tg_status tg__mpi_await_all(MPI_Comm comm)
{
    MPI_Request request;
    int error = MPI_Ibarrier(comm, &request), done = 0;
    for (long nap = NAP_MIN_NS; error == MPI_SUCCESS;
         nap = nap * 2 < NAP_MAX_NS ? nap * 2 : NAP_MAX_NS) {
        error = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
    }
    return error == MPI_SUCCESS ? TG_OK : tg__mpi_fail("MPI_Ibarrier", -1, error);
}

/* Duplicate the communicator, with errors returned to us, and agree with all ranks on a number. */
static tg_status join(mpi_impl *m, MPI_Comm comm)
{
    TG_TRY(tg__mpi_await_all(comm));
    int error = MPI_Comm_dup(comm, &m->comm);
    if (error != MPI_SUCCESS)
        return tg__mpi_fail("MPI_Comm_dup", -1, error);
    int found = 0;
    void *tag_ub = NULL;
    error = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_rank(m->comm, &m->base.rank);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_size(m->comm, &m->base.size);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_get_attr(m->comm, MPI_TAG_UB, &tag_ub, &found);
    m->goodbye[0] = (uint64_t)tg_now_ns(m->base.clock);
    if (error == MPI_SUCCESS)
        error = MPI_Bcast(m->goodbye, 1, MPI_UINT64_T, 0, m->comm);
    tg_status status = TG_OK;
    if (error != MPI_SUCCESS)
        status = tg__mpi_fail("setting up the communicator", -1, error);
    else if (found && *(const int *)tag_ub < TG__GOODBYE_TAG)
        status = tg_fail(TG_E_UNSUPPORTED,
                         "this MPI has tags up to %d, and telegrad needs tags up to %d",
                         *(const int *)tag_ub, TG__GOODBYE_TAG);
    else
        status = make_peers(m);
    if (status != TG_OK)
        (void)MPI_Comm_free(&m->comm);
    return status;
}

tg_status tg_transport_mpi(MPI_Comm comm, tg_transport **t_p)
{
    TG__ARG(t_p);
    if (comm == MPI_COMM_NULL)
        return tg_fail(TG_E_ARG, "tg_transport_mpi: comm is MPI_COMM_NULL");
    if (!tg__mpi_is_up())
        return tg_fail(TG_E_STATE,
                       "tg_transport_mpi: MPI is not initialised, or finalised already");
    int inter = 0;
    if (MPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && inter)
        return tg_fail(TG_E_ARG, "tg_transport_mpi: comm is an intercommunicator: allowed: an "
                                 "intracommunicator (MPI_Intercomm_merge makes one)");
    tg__mpi_sweep();
    tg__mpi_watch_finalize();
    mpi_impl *m = calloc(1, sizeof *m);
    if (!m)
        return tg_fail(TG_E_NOMEM, "out of memory: MPI transport");
    int level = MPI_THREAD_SINGLE;
    (void)MPI_Query_thread(&level);
    m->base = (tg_transport){.struct_size = sizeof m->base,
                             .ops = &mpi_ops,
                             .impl = m,
                             .clock = tg_clock_monotonic(),
                             .any_thread = level == MPI_THREAD_MULTIPLE};
    tg_status status = join(m, comm);
    if (status != TG_OK) {
        free(m->peer);
        free(m);
        return status;
    }
    tg__mpi_enlist(m);
    *t_p = &m->base;
    return TG_OK;
}
