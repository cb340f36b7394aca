/* Servers with journals, and workers whose gradients are tokens, in virtual time: the gradient of a
 * step is 1 at elements that no other step of any worker has, and the learning rate is 1. So each
 * element of the parameters says whether its token was applied, and how often. */
#ifndef TESTS_CHAOS_WORLD_H
#define TESTS_CHAOS_WORLD_H

#include "chaos_disk.h"
#include "chaos_ends.h"
#include "server/server_impl.h"
#include "session/session_impl.h"
#include "telegrad/telegrad.h"
#include "telegrad/tools.h"
#include <math.h>

enum { BUCKETS = 2, N = 256, TOKENS = BUCKETS * N, LIVES = 200 };

/* What became of a token, as its worker knows. */
enum fate { UNUSED, SENT, ANSWERED };

/* A worker, from its coming to its end. */
typedef struct life {
    caller caller;
    int slot;
    bool leaves; /* it was asked to */
    bool killed, over;
    uint64_t steps; /* made */
    tg_status status;
    char error[400];
    float w[BUCKETS][N], g[BUCKETS][N];
    tg_clock_thread *thread;
} life;

/* A server's machine. */
typedef struct machine {
    int number;
    disk disk;
    tg_server *server;  /* NULL: it does not run */
    bool over, refuses; /* it has ended; it could not start */
    bool was_full, settled;
    volatile sig_atomic_t stop;
    tg_clock_thread *thread;
    float w[BUCKETS][N]; /* its part, as seen last */
} machine;

static struct world {
    uint64_t seed, state;
    /* of the job */
    int workers, min_workers;
    const char *mode, *method;
    bool gathers;
    int64_t deadline_ms; /* of a step; 0: none */
    uint64_t journal_bytes;
    int64_t work_ns; /* of a step, at most */
    int most_tokens; /* of a step */

    machine machine[SHARDS];
    life *life[LIVES];
    int lives;
    struct {
        const life *life;
        enum fate fate;
        bool held; /* its worker has ended with it in the residual */
    } token[TOKENS];
    int tokens;
    uint64_t late;                         /* buckets that came after the deadline */
    uint64_t hash[SHARDS][BUCKETS][N + 1]; /* of a part with so many tokens, as workers saw it */
    char failure[600];
} world;

static inline unsigned draw(unsigned below)
{
    world.state = world.state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world.state >> 33) % below;
}

/* The first thing that is wrong. */
__attribute__((format(printf, 1, 2))) static inline void blame(const char *format, ...)
{
    va_list more;
    if (*world.failure != '\0')
        return;
    va_start(more, format);
    const int len =
        snprintf(world.failure, sizeof world.failure, "%.3f s: ", 1e-9 * (double)now_ns());
    vsnprintf(world.failure + len, sizeof world.failure - (size_t)len, format, more);
    va_end(more);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static inline int shard_of(int i)
{
    int q = 0;
    while (q + 1 < lines.shards && (size_t)i >= tg__block_begin(N, lines.shards, q + 1))
        q++;
    return q;
}

/* A token that was applied once: alone, or in the mean of several workers. */
static inline bool is_once(float value)
{
    for (int workers = 1; workers <= (world.gathers ? SEATS : 1); workers++)
        if (fabsf(value + 1 / (float)workers) < 1e-6F)
            return true;
    return false;
}

static inline void check_value(float value, int b, int i, const char *where)
{
    const int id = b * N + i;
    if (value < 0 || value > 0) {
        if (!is_once(value))
            blame("%s: token %d was applied as %g", where, id, (double)-value);
        else if (world.token[id].fate == UNUSED)
            blame("%s: token %d was applied, but never sent", where, id);
    } else if (world.token[id].fate == ANSWERED) {
        blame("%s: token %d was answered, but is not there", where, id);
    }
}

static inline void check_all(int shard, float w[BUCKETS][N], const char *where)
{
    for (int b = 0; b < BUCKETS; b++)
        for (int i = 0; i < N; i++)
            if (shard_of(i) == shard)
                check_value(w[b][i], b, i, where);
}

static inline void copy_parameters(const tg_server *s, float w[BUCKETS][N])
{
    memset(w, 0, sizeof(float) * TOKENS);
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        memcpy(&w[r->bucket][r->lo], r->w, r->n * sizeof *r->w);
}

/* A server waits: no token that it has was applied again. */
static inline void look(void *arg)
{
    machine *m = arg;
    if (m->server == NULL)
        return;
    for (const tg__region *r = m->server->regions; r != NULL; r = r->next)
        for (size_t i = 0; i < r->n; i++) {
            float *was = &m->w[r->bucket][r->lo + i];
            if (memcmp(was, &r->w[i], sizeof *was) == 0)
                continue;
            if (*was < 0 || *was > 0)
                blame("server %d: token %zu was applied again: %g, then %g", m->number,
                      r->bucket * N + r->lo + i, (double)-*was, (double)-r->w[i]);
            *was = r->w[i];
            check_value(*was, r->bucket, (int)(r->lo + i), "a server");
        }
}

/* ---- servers --------------------------------------------------------------------------------- */

static inline void on_death(void *arg)
{
    lines.shop[((machine *)arg)->number].end.dead = true;
}

static inline tg_status open_server(machine *m)
{
    shop *s = &lines.shop[m->number];
    const tg_server_config config = {.struct_size = sizeof config,
                                     .timeout_ms = 3000,
                                     .stop = &m->stop,
                                     .mode = world.mode,
                                     .optimizer = "sgd:lr=1,momentum=0",
                                     .shard = m->number,
                                     .shards = lines.shards,
                                     .journal = m->disk.folder,
                                     .journal_bytes = world.journal_bytes,
                                     .min_workers = world.min_workers,
                                     .deadline_ms = world.deadline_ms};
    m->stop = 0;
    open_shop(s, m->number, look, m);
    s->up = false;
    s->end.dead = m->disk.dead; /* it was killed before it began */
    TG_TRY(tg_server_create(&s->end.base, 1, &config, &m->server));
    float w[BUCKETS][N];
    copy_parameters(m->server, w);
    if (m->settled && memcmp(w, m->w, sizeof w) != 0)
        blame("server %d was stopped, and does not have the same parameters again", m->number);
    memcpy(m->w, w, sizeof w);
    check_all(m->number, w, "a server that is started again");
    s->up = true;
    return TG_OK;
}

static inline void *be_server(void *arg)
{
    machine *m = arg;
    const shop *s = &lines.shop[m->number];
    tg_status status = open_server(m);
    m->settled = false;
    m->refuses = status != TG_OK;
    if (status == TG_OK)
        status = tg_server_run(m->server);
    lines.shop[m->number].up = false;
    if (m->server != NULL)
        look(m);
    m->settled = status == TG_E_STOPPED && !m->disk.dead;
    if (status != TG_E_STOPPED && !s->end.dead && !m->was_full)
        blame("server %d ends: %s", m->number, tg_error());
    tg_server *server = m->server;
    m->server = NULL;
    tg_server_destroy(server);
    m->over = true;
    return NULL;
}

static inline void start_server(machine *m)
{
    char name[16];
    snprintf(name, sizeof name, "server %d", m->number);
    m->over = false;
    m->was_full = m->disk.full;
    if (tg_clock_thread_start(lines.clock, 1 + (uint64_t)m->number, name, be_server, m,
                              &m->thread) != TG_OK)
        abort();
}

static inline void join_server(machine *m)
{
    tg_clock_thread_join(lines.clock, m->thread);
    m->thread = NULL;
}

/* Its process is killed; with its machine, what the disk had not synced is lost. */
static inline void kill_server(machine *m, bool power)
{
    shop *s = &lines.shop[m->number];
    if (m->thread != NULL) {
        m->disk.dead = s->end.dead = true;
        wake(&s->end);
        join_server(m);
    }
    if (power) {
        m->settled = false;
        fail_power(&m->disk);
    }
    m->disk.dead = m->disk.full = false;
    m->disk.dies_in = 0;
}

/* ---- workers --------------------------------------------------------------------------------- */

static inline void spend(life *l)
{
    const int count = 1 + (int)draw((unsigned)world.most_tokens);
    memset(l->g, 0, sizeof l->g);
    for (int k = 0; k < count && world.tokens < TOKENS; k++) {
        const int id = world.tokens++ * 37 % TOKENS; /* in all buckets and shards */
        world.token[id].life = l;
        world.token[id].fate = SENT;
        l->g[id / N][id % N] = 1;
    }
}

static inline float residual_of(const tg_session *s, int id)
{
    const tg__method *m = s->bucket == NULL ? NULL : s->bucket[id / N].method;
    const float *pending =
        m == NULL || m->feedback == NULL ? NULL : tg__feedback_pending(m->feedback);
    return pending == NULL ? 0 : pending[id % N];
}

/* The answers to a step have arrived: its tokens are applied, unless they are in the residual. */
static inline void note_answers(const life *l, const tg_session *s)
{
    for (int id = 0; id < TOKENS; id++) {
        const float kept = residual_of(s, id);
        if (world.token[id].life != l || world.token[id].fate != SENT)
            continue;
        if (kept <= 0 && kept >= 0)
            world.token[id].fate = ANSWERED;
        else if (kept < 1 || kept > 1)
            blame("token %d is %g in the residual", id, (double)kept);
    }
}

/* All who see a part with so many tokens see the same bits. (Of coded answers each token comes as a
 * whole, and in the same order to all, unless each worker lacks something of its own.) */
static inline void compare_parts(const life *l)
{
    const bool apart = !world.gathers && strstr(world.method, "twoway") != NULL;
    for (int q = apart ? lines.shards : 0; q < lines.shards; q++)
        for (int b = 0; b < BUCKETS; b++) {
            const size_t begin = tg__block_begin(N, lines.shards, q),
                         n = tg__block_len(N, lines.shards, q);
            int count = 0;
            for (size_t i = begin; i < begin + n; i++)
                count += l->w[b][i] < 0 || l->w[b][i] > 0;
            const uint64_t hash = tg_hash(TG_HASH_START, &l->w[b][begin], n * sizeof(float));
            uint64_t *known = &world.hash[q][b][count];
            if (*known != 0 && *known != hash)
                blame("the worker in seat %d sees other parameters than another one: bucket %d, "
                      "server %d, %d tokens",
                      l->caller.seat, b, q, count);
            *known = hash;
        }
}

static inline tg_status make_step(life *l, tg_session *s)
{
    tg_step_info info = {.struct_size = sizeof info};
    for (uint32_t b = 0; b < BUCKETS; b++)
        TG_TRY(tg_session_grad_wait(s, b));
    spend(l);
    sleep_for(MS + (int64_t)draw((unsigned)(world.work_ns / MS)) * MS);
    for (uint32_t b = BUCKETS; b-- > 0;)
        TG_TRY(tg_session_grad_ready(s, b));
    TG_TRY(tg_session_step(s, &info));
    l->steps++;
    world.late += info.late;
    note_answers(l, s);
    compare_parts(l);
    return TG_OK;
}

static inline tg_status train(life *l, tg_transport *t)
{
    static const uint32_t buckets[BUCKETS] = {1, 1};
    static const char *const names[BUCKETS] = {"a", "b"};
    static const size_t shape[1] = {N};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = world.method,
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0",
                                      .driver = TG_DRIVER_INLINE,
                                      .buckets = buckets,
                                      .nbuckets = BUCKETS};
    tg_session *s;
    TG_TRY(tg_session_create(&config, t, &s));
    tg_status status = TG_OK;
    for (int b = 0; b < BUCKETS && status == TG_OK; b++) {
        const tg_tensor of = {.struct_size = sizeof of,
                              .name = names[b],
                              .shape = shape,
                              .ndim = 1,
                              .param = tg_array_f32(l->w[b], N),
                              .grad = tg_array_f32(l->g[b], N)};
        uint32_t id;
        status = tg_session_add(s, &of, &id);
    }
    if (status == TG_OK)
        status = tg_session_begin(s);
    if (status == TG_OK)
        compare_parts(l);
    while (status == TG_OK && !l->leaves)
        status = make_step(l, s);
    if (status == TG_OK)
        status = tg_session_finish(s);
    for (int id = 0; id < TOKENS; id++)
        world.token[id].held |= world.token[id].life == l && fabsf(residual_of(s, id)) > 0;
    tg_session_destroy(s);
    return status;
}

static inline void *be_worker(void *arg)
{
    life *l = arg;
    tg_transport *t;
    l->status = attach(&l->caller);
    if (l->status == TG_OK)
        l->status = tg_transport_worker(&l->caller.end.base, lines.shards, &t);
    if (l->status == TG_OK) {
        l->status = train(l, t);
        snprintf(l->error, sizeof l->error, "%s", l->status == TG_OK ? "" : tg_error());
        tg_transport_destroy(t);
    } else {
        snprintf(l->error, sizeof l->error, "%s", tg_error());
        (void)caller_shut(&l->caller.end.base);
    }
    l->over = true;
    return NULL;
}

static inline life *start_worker(int slot)
{
    life *l = calloc(1, sizeof *l);
    if (l == NULL || world.lives == LIVES)
        abort();
    l->slot = slot;
    open_caller(&l->caller, slot);
    if (tg_clock_thread_start(lines.clock, 10 + (uint64_t)world.lives, "worker", be_worker, l,
                              &l->thread) != TG_OK)
        abort();
    world.life[world.lives++] = l;
    return l;
}

static inline void kill_worker(life *l)
{
    l->killed = l->caller.end.dead = true;
    wake(&l->caller.end);
}

#endif
