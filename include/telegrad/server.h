/* telegrad/server.h - parameter servers: processes that sum the gradients of all ranks.
 *
 * A job of P ranks with S servers runs on a transport of P + S ranks, of which the last S are
 * servers. Ranks send each gradient to the servers, each of which has a part of it, and get the
 * mean back. They use exchange=star ("dgc:density=0.001,exchange=star"):
 *
 *     a rank:                                      a server:
 *     tg_transport_worker(inner, S, &t);           tg_server_create(inner, S, NULL, &server);
 *     tg_reducer_create(method, t, ...);           tg_server_run(server);
 *     ... as without servers ...                   tg_server_destroy(server);
 *     tg_transport_destroy(t);                     tg_transport_destroy(inner);
 *
 * A server sums in rank order and sends the mean as f32. With one server the result has the bits of
 * exchange=allgather. With several servers it has the same bits, except for methods whose frames
 * depend on how the vector is cut (dgc, int8, qsgd, 1bit, efsign). A rank's up-link carries its
 * gradient once, however many ranks there are. A server's link carries all of them, so a server
 * pays where ranks have thin links and the server a wide one.
 *
 * With exchange=twoway instead ("topk:density=0.01,exchange=twoway"), servers of mode sum code what
 * they send, too. A server adds its residual to the mean, codes that with the ranks' codec, density
 * and seed, and keeps the error as its new residual: two vectors of its block in f32, since it also
 * keeps the residual from before the last answer, for steps that ranks drop. Methods with one round
 * whose result is a mean have it (fp16, bf16, int8, qsgd, topk, dgc, adacomp, strom, 2bit, 1bit,
 * efsign), with one coded exchange of a bucket in flight. All ranks get the same bits. With as many
 * servers as ranks, 1bit has the bits of twoway=yes. Servers that keep the parameters code what
 * ranks lack of these: w - v, where w are the parameters that the server's optimizer updates, and v
 * those that ranks have; both sides add the decoded values to v. With sync all ranks have the same
 * v, and a server keeps two more vectors of its block. A rank that was late, or comes back, gets v
 * in f32. With async each rank has a v of its own, for which the server keeps a vector once the
 * rank has asked for coded answers; a rank that lacks an earlier answer gets w in f32, which then
 * is its v. One rank alone has the bits of sync. With compensate, v is what the rank has computed
 * its gradient with; a server that also has a journal refuses coded answers. Methods with a
 * threshold that is not auto are refused.
 *
 * Checkpoints of the ranks' session (tg_session_save, tg_session_save_memory) hold what servers
 * have: residuals, the last results of combine=clipped, the optimizer's memory and numbers of
 * updates. Rank 0 asks the servers for it, keeps it in its file, and gives it to the servers of the
 * job that resumes; a server does nothing for that. With as many servers as before, the resumed run
 * has the bits of one that was not stopped; other servers take over element by element. With async,
 * where ranks are at different steps, the call waits until all have made the same number, and all
 * go on with the parameters of that moment, which are saved. Servers with deadline_ms, whose ranks
 * leave out steps, and those whose workers come and go, which have a journal, are not saved: each
 * rank gets TG_E_UNSUPPORTED at once. A reducer's slots (tg_reducer_slot_get) do not include
 * servers.
 * Source   Li et al. 2014, Scaling Distributed Machine Learning with the Parameter Server, OSDI; Ho
 *          et al. 2013, NIPS (staleness); Zheng et al. 2017, arXiv:1609.08326 (compensate);
 *          Yin et al. 2018, arXiv:1803.01498 (median, trimmed); Blanchard et al. 2017,
 *          arXiv:1703.02757 (krum); Karimireddy et al. 2021, arXiv:2012.10333 (clipped); Tang et
 *          al. 2019, DoubleSqueeze, arXiv:1905.05957 (twoway) */
#ifndef TELEGRAD_SERVER_H
#define TELEGRAD_SERVER_H

#include "telegrad/transport.h"
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Decorator for a rank of a job with servers: a transport whose ranks are those of `inner` without
 * the last `servers`, and which reaches these as servers.
 * inner    owned by the new transport on success; used by no reducer or session yet
 * servers  1 to TG_SERVERS_MAX, less than the ranks of inner; the same on all ranks
 * Errors   TG_E_ARG (also: this rank is one of the servers), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_worker(tg_transport *inner, int servers,
                                                  tg_transport **t_p);

typedef struct tg_server tg_server;

typedef enum tg_server_event_kind {
    TG_SERVER_LATE,  /* the gradient came after deadline_ms */
    TG_SERVER_UNFIT, /* it, or what the update would make of the parameters, is not finite */
} tg_server_event_kind;

/* A gradient of a rank was not applied. Read only members that struct_size includes. */
typedef struct tg_server_event {
    size_t struct_size;
    int kind;         /* tg_server_event_kind */
    int rank;         /* whose gradient it is; if workers come and go: its seat */
    uint64_t step;    /* of the gradient */
    const char *text; /* in words; valid during the call */
} tg_server_event;

typedef struct tg_server_config {
    size_t struct_size; /* sizeof(tg_server_config) */
    /* Longest wait for a rank's gradient while another rank's is there already; 0: 50,000. Less
     * than the timeout of the ranks, so that the server can tell them which rank is missing. Over
     * TCP a message whose bytes keep coming, or going, may take ten times as long */
    int64_t timeout_ms;
    /* Once *stop is nonzero, which a signal handler may set, tg_server_run returns TG_E_STOPPED
     * within a second, and leaves. Borrowed; NULL: none */
    const volatile sig_atomic_t *stop;
    /* What it does with gradients; the same on all servers; NULL: "sum".
     *   sum    sends the mean; ranks update their parameters, by any strategy
     *   sync   keeps the parameters, makes one step from the mean of all ranks' gradients, and
     *          sends parameters. Requires strategy "server" on all ranks
     *   async  the same, but makes a step from each gradient as it arrives, and answers at once.
     *          async:staleness=4 answers a rank only when it is at most 4 steps ahead of the
     *          slowest one (0: sync); async:compensate=0.04 compensates the delay (lambda of
     *          DC-ASGD). A rank that leaves is not waited for
     * MXNet's names dist_sync and dist_async mean sync and async, with the same keys.
     * The modes that wait for the gradients of all P ranks (sum, sync, async:staleness=0) have the
     * key combine. Rules other than the mean tolerate some wrong gradients:
     *   combine=mean         the mean
     *   combine=median       element by element, the median
     *   combine=trimmed,f=1  element by element, the mean without the f largest and the f smallest;
     *                        P >= 2 f + 1. f=0: the mean, bit for bit
     *   combine=krum,f=1     the gradient with the least sum of squared distances to its P - f - 2
     *                        nearest ones; P >= 2 f + 3
     *   combine=clipped      v + the mean of g - v, each scaled down to the norm tau if it is
     *                        longer; v is the last result. tau=auto (the default): the median of
     *                        the norms
     * A rank that sends NaN or infinity, or says that its gradient is not finite, is left out: the
     * step is dropped only if there are more than f such ranks (median, clipped: (P - 1) / 2). A
     * rule replaces each mean of gradients by itself: of a bucket, of a server's part, of a slice
     * of a dense vector. median and trimmed refuse codecs in whose frames most elements are 0
     * (topk, 2bit, ...). Memory: P n floats for the largest, and n for each v. Work per element:
     * median and trimmed P log(P)^2 / 4 minima and maxima, krum P^2 / 2 differences, clipped 2 P */
    const char *mode;
    /* For sync and async: an optimizer that works element by element, such as
     * "sgd:lr=0.1,momentum=0.9" (no lars, clip or exempt=1d). Each gradient comes with its learning
     * rate, so lr here has no effect. Gradients of methods that have a momentum of their own (dgc)
     * are applied without it. NULL for sum */
    const char *optimizer;
    /* On a transport whose workers come and go (tg_transport_ops.drop): the number of this server,
     * from 0, among those that each worker calls. Otherwise 0 */
    int shard;
    /* With a journal: how many servers each worker calls; 0: unknown. A journal that was written
     * with another number is refused, because it divides the parameters differently */
    int shards;
    /* A folder where the server keeps what it needs to continue after a crash. It answers a
     * gradient only once that gradient is on disk (one fdatasync for all that arrived meanwhile).
     * A server that is created with the same folder continues with the same bits. Requires a
     * transport whose workers come and go. NULL: none */
    const char *journal;
    /* Once the journal's log has this many bytes, a snapshot of the parameters and the optimizer's
     * memory replaces it; 0: 256 MiB. Also once the updates in it have taken 30 s, and ten times as
     * long as a snapshot: about so long it takes to read the log again */
    uint64_t journal_bytes;
    /* With workers that come and go, or deadline_ms, and mode sync or async:staleness=0: a step
     * waits until so many workers take part; 0: 1 */
    int64_t min_workers;
    /* With mode sync or async:staleness=0: a step waits at most so long for gradients, from its
     * first one on, by the server's clock, if min_workers have come. The gradient of a worker that
     * comes later is not applied, and the worker is told so: it gets the current parameters, its
     * method takes back what it has sent (tg_step_info.late), and it continues at the current step.
     * Less than timeout_ms; 0: no deadline. Of ranks that stay, all must have the same strategy
     * "server" and no tg_session_config.hash_every: buckets of a rank may be of different steps */
    int64_t deadline_ms;
    /* (P) tg_session_config.nodes of the ranks, if they have it. Only the lowest rank of each node
     * then sends gradients to servers, the sum over its node times nodes / P, and servers count
     * nodes as they otherwise count ranks. Not with workers that come and go, deadline_ms, or a
     * rule other than the mean. Borrowed until tg_server_create returns; NULL: each rank speaks for
     * itself */
    const int *nodes;
    /* Told of gradients that are not applied, once for each rank, step and kind. Called by the
     * thread that runs the server. NULL: not reported */
    void (*on_event)(void *arg, const tg_server_event *event);
    void *on_event_arg;
    /* Told how far tg_server_create has read the journal's log: `bytes` of `all`. Called by the
     * same thread before the update of each message in it. NULL: not reported */
    void (*on_replay)(void *arg, uint64_t bytes, uint64_t all);
    void *on_replay_arg;
} tg_server_config;

/* Write the normal form of a mode: its name, then all keys that have a value, defaults included.
 * Two modes mean the same if their normal forms are equal.
 * mode    as tg_server_config.mode
 * text    [out] (room bytes) with a zero at the end
 * Errors  TG_E_ARG (room), TG_E_SPEC
 * Threads any */
TG_API TG_NODISCARD tg_status tg_server_mode_normal(const char *mode, char *text, size_t room);

/* Create a server. It does not talk to anybody until it runs.
 * transport  of all ranks and servers, of which this process is one of the last `servers`.
 *            Borrowed, with its clock, until the server is destroyed
 * servers    as for tg_transport_worker; 1 if workers come and go
 * config     NULL: all members 0
 * Errors     TG_E_ARG, TG_E_SPEC (mode, f with so many ranks, optimizer), TG_E_UNSUPPORTED (the
 *            optimizer; mode sum, if workers come and go; a journal, if they do
 *            not), TG_E_NOMEM; with a journal also TG_E_IO (another server uses it, ...),
 *            TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (it is for another shard or optimizer),
 *            TG_E_STOPPED (`stop` was set while it was read; it stays as it is) */
TG_API TG_NODISCARD tg_status tg_server_create(tg_transport *transport, int servers,
                                               const tg_server_config *config, tg_server **s_p);

/* Serve until all ranks have left; if workers come and go (tg_net_serve), until `stop` is set. Call
 * it once. Workers that come and go require mode sync or async. A new worker gets the server's
 * current parameters, and begins at the step of the slowest worker (one that was silent for
 * timeout_ms does not count, unless all were); if there is none, after the last step that was made
 * (tg_session_config.count_anew). A worker that leaves, breaks the rules, or is silent while others
 * wait for it is disconnected, and the others continue.
 *
 * With mode sync, workers that come and go are the ranks of a step as long as they are there. A new
 * one takes part from the step that it begins with on, so all workers make every step with the same
 * parameters, except that a new one's first gradient may be computed from those of the step before.
 * If one vanishes that may be back (tg_net_attach_config.again_s), the others wait for it, up to
 * timeout_ms; then they continue without it, and it is refused when it is back. With deadline_ms
 * they wait no longer than that, whether the worker is slow or away; one that is away may be back
 * up to timeout_ms, and is late then.
 * Errors   TG_E_STATE (it has run before), TG_E_PEER (a rank has left, or sends nothing, while
 *          others wait for its gradient; the text names it), TG_E_MISMATCH, TG_E_CORRUPT,
 *          TG_E_VERSION (a rank sent something else than is expected; the text names it),
 *          TG_E_UNSUPPORTED (frames of a codec that the rule cannot combine), TG_E_STOPPED,
 *          TG_E_IO (the journal cannot be written; it holds every gradient that was answered),
 *          TG_E_NOMEM. After an error, this server has left its transport, and ranks get
 *          TG_E_PEER
 * Threads  the calling thread drives the transport */
TG_API TG_NODISCARD tg_status tg_server_run(tg_server *s);

#define TG_STALENESS 16

/* What a server has done so far. */
typedef struct tg_server_stats {
    size_t struct_size;  /* sizeof(tg_server_stats) */
    uint64_t sums;       /* answers formed: sums, or parameters */
    uint64_t elements;   /* elements received in frames, over all ranks; also of parameters */
    uint64_t bytes_in;   /* received from ranks, envelopes included */
    uint64_t bytes_out;  /* sent to them */
    uint64_t step;       /* the latest step that was answered, also before a restart */
    int ranks;           /* ranks that have not left */
    int64_t waited_ns;   /* time spent idle */
    int64_t combined_ns; /* time spent on checking, decoding and summing */
    /* The journal: bytes of its log; how often it was synced to disk, and the time spent on that */
    uint64_t journal_bytes, journal_syncs;
    int64_t journal_ns;
    /* async: the number of gradients by staleness, which is how many steps the server had made
     * since the parameters from which a rank computed its gradient. [0]: 0 steps; [i]: 2^(i-1) to
     * 2^i - 1; the last one: 2^(i-1) or more */
    uint64_t staleness[TG_STALENESS];
    uint64_t repeated; /* messages that workers sent again, because an answer was lost */
    /* Read from the journal when the server was created: the number of parameters, and the step at
     * which the next worker begins. 0, 0: nothing, so the first worker brings the parameters */
    uint64_t recovered, recovered_step;
    /* Gradients that were not applied: they are not finite, or the update would have made
     * parameters or the optimizer's memory not finite. The ranks are told, and skip them */
    uint64_t unfit;
    /* Gradients, or parts of them (a message for each bucket, of dense ones for each slice), that
     * came after deadline_ms */
    uint64_t late;
    /* Messages with gradients, without those that came again or are not finite: their elements, and
     * their bytes with envelopes. 4 elements / bytes is the compression ratio. The same of the
     * answers to them */
    uint64_t gradient_elements, gradient_bytes;
    uint64_t answer_elements, answer_bytes;
    uint64_t staleness_sum; /* of all gradients that `staleness` counts */
    uint64_t parameters;    /* elements of the parameters that it keeps */
    uint64_t gradients;     /* these messages: one for each bucket, of dense ones for each slice */
} tg_server_stats;

/* Get the figures.
 * stats    struct_size must be set
 * Errors   TG_E_ARG
 * Threads  the thread that runs the server, or when it does not run */
TG_API TG_NODISCARD tg_status tg_server_get_stats(const tg_server *s, tg_server_stats *stats);

/* Free the server; NULL is fine. If it has not returned from tg_server_run with TG_OK, it leaves
 * the transport first. */
TG_API void tg_server_destroy(tg_server *s);

#ifdef __cplusplus
}
#endif
#endif
