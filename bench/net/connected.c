/* What workers cost a server that are connected and send nothing. Prints one JSON line.
 *
 *     bench_connected CONNECTED PUSHING ELEMENTS METHOD SECONDS PORT
 *
 * A server in mode async with a seat for each of CONNECTED workers, over TLS on this machine. All
 * have got its parameters; PUSHING of them, threads of this process, push gradients for SECONDS.
 * The server and those that send nothing are processes of their own. The figures:
 *
 *     gradients_s         that the server took per second
 *     server_us           its processor time for one of them, in microseconds
 *     begin_mb, rss_mb    its memory before the first worker came, and at the end, in megabytes */
#include "net/local.h"
#include "telegrad/net.h"
#include "telegrad/server.h"
#include "telegrad/telegrad.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIMIZER "sgd:lr=1e-6,momentum=0"
enum { PUSHING_MAX = 256, WAIT_S = 600 };

static struct {
    int connected, pushing;
    size_t n;
    const char *method;
    double seconds;
    char address[64], key_text[TG_KEY_TEXT];
    tg_key_pair *server_key, *key;
    tg_keys *allow;
} job;

static volatile sig_atomic_t stop;
static atomic_int ready;
static atomic_bool begins, ends;

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static int complain(const char *who)
{
    fprintf(stderr, "bench_connected: %s: %s\n", who, tg_error());
    return 1;
}

/* ---- the server ------------------------------------------------------------------------------ */

static int be_server(int told)
{
    const tg_net_serve_config config = {.struct_size = sizeof config,
                                        .listen = job.address,
                                        .workers = job.connected,
                                        .key = job.server_key,
                                        .allow = job.allow};
    const tg_server_config how = {
        .struct_size = sizeof how, .mode = "async", .optimizer = OPTIMIZER, .stop = &stop};
    tg_net *net;
    tg_transport *t;
    tg_server *s;
    signal(SIGTERM, on_term);
    if (tg_net_serve(&config, &net) != TG_OK || tg_transport_tcp(net, &t) != TG_OK ||
        tg_server_create(t, 1, &how, &s) != TG_OK)
        return complain("server");
    if (write(told, "", 1) != 1)
        return 1;
    const tg_status status = tg_server_run(s);
    tg_server_destroy(s);
    tg_transport_destroy(t);
    return status == TG_E_STOPPED ? 0 : complain("server");
}

/* ---- workers --------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    tg_transport *t;
    tg_session *s;
    float *w, *g;
    uint32_t id;
    uint64_t steps;
    bool failed;
} worker;

static tg_status come(worker *w)
{
    const char *address = job.address, *key_text = job.key_text;
    const tg_net_attach_config to = {.struct_size = sizeof to,
                                     .count = 1,
                                     .servers = &address,
                                     .server_keys = &key_text,
                                     .key = job.key};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = job.method,
                                      .strategy = "server",
                                      .optimizer = OPTIMIZER,
                                      .driver = TG_DRIVER_INLINE};
    tg_net *net;
    w->w = calloc(job.n, sizeof *w->w);
    w->g = calloc(job.n, sizeof *w->g);
    if (!w->w || !w->g)
        return tg_fail(TG_E_NOMEM, "out of memory");
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &job.n,
                              .ndim = 1,
                              .param = tg_array_f32(w->w, job.n),
                              .grad = tg_array_f32(w->g, job.n)};
    TG_TRY(tg_net_attach(&to, &net));
    TG_TRY(tg_transport_tcp(net, &w->t));
    TG_TRY(tg_transport_worker(w->t, 1, &w->t));
    TG_TRY(tg_session_create(&config, w->t, &w->s));
    TG_TRY(tg_session_add(w->s, &tensor, &w->id));
    return tg_session_begin(w->s);
}

static tg_status push(worker *w)
{
    TG_TRY(tg_session_grad_wait(w->s, w->id));
    for (size_t i = 0; i < job.n; i++)
        w->g[i] = (float)((i * 7 + w->steps) % 13) - 6;
    TG_TRY(tg_session_grad_ready(w->s, w->id));
    return tg_session_step(w->s, NULL);
}

static void *be_pushing(void *arg)
{
    worker *w = arg;
    tg_status status = come(w);
    atomic_fetch_add(&ready, 1);
    while (status == TG_OK && !atomic_load(&ends)) {
        status = push(w);
        w->steps += atomic_load(&begins);
    }
    w->failed = status != TG_OK && complain("a worker") != 0;
    return NULL;
}

/* Those that send nothing: they have the parameters, and wait until this process is told to end. */
static int be_idle(int told)
{
    const int count = job.connected - job.pushing;
    worker *w = calloc((size_t)count + 1, sizeof *w);
    for (int i = 0; w && i < count; i++) {
        if (come(&w[i]) != TG_OK)
            return complain("a worker that sends nothing");
        free(w[i].w); /* not needed any more; 1,000 of them would be much memory */
        free(w[i].g);
    }
    if (!w || write(told, "", 1) != 1)
        return 1;
    (void)sleep(WAIT_S);
    return 0;
}

/* ---- figures --------------------------------------------------------------------------------- */

static double now_s(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rss_mb(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void nap(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds,
                               .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

/* Let the threads push for a while, and print what it took. Returns 0 on success. */
static int measure(pid_t server, double begin_mb)
{
    static worker w[PUSHING_MAX];
    clockid_t cpu;
    uint64_t steps = 0;
    bool failed = clock_getcpuclockid(server, &cpu) != 0;
    for (int i = 0; i < job.pushing; i++)
        if (pthread_create(&w[i].thread, NULL, be_pushing, &w[i]) != 0)
            abort();
    while (atomic_load(&ready) < job.pushing)
        nap(0.01);
    nap(0.5);
    const double cpu_from = now_s(cpu), from = now_s(CLOCK_MONOTONIC);
    atomic_store(&begins, true);
    nap(job.seconds);
    atomic_store(&begins, false);
    const double seconds = now_s(CLOCK_MONOTONIC) - from, cpu_s = now_s(cpu) - cpu_from;
    const double end_mb = rss_mb(server);
    atomic_store(&ends, true);
    for (int i = 0; i < job.pushing; i++) {
        pthread_join(w[i].thread, NULL);
        failed |= w[i].failed;
        steps += w[i].steps;
    }
    if (failed || steps == 0)
        return 1;
    printf(
        "{\"connected\": %d, \"pushing\": %d, \"n\": %zu, \"method\": \"%s\", \"seconds\": %.3f, "
        "\"gradients_s\": %.1f, \"server_us\": %.2f, \"begin_mb\": %.1f, \"rss_mb\": %.1f}\n",
        job.connected, job.pushing, job.n, job.method, seconds, (double)steps / seconds,
        1e6 * cpu_s / (double)steps, begin_mb, end_mb);
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Start a process, and wait until it is ready. */
static pid_t start(int (*run)(int told))
{
    int told[2];
    char byte;
    if (pipe(told) != 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        close(told[0]);
        _exit(run(told[1]));
    }
    close(told[1]);
    const bool ok = pid > 0 && read(told[0], &byte, 1) == 1;
    close(told[0]);
    return ok ? pid : -1;
}

static tg_status make_keys(void)
{
    char text[TG_KEY_TEXT], list[TG_KEY_TEXT + 16];
    TG_TRY(tg_key_create(&job.server_key));
    TG_TRY(tg_key_create(&job.key));
    tg_key_text(job.server_key, job.key_text);
    tg_key_text(job.key, text);
    snprintf(list, sizeof list, "%s workers\n", text);
    return tg_keys_parse(list, &job.allow);
}

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: bench_connected CONNECTED PUSHING ELEMENTS METHOD SECONDS PORT\n");
        return 2;
    }
    job.connected = atoi(argv[1]);
    job.pushing = atoi(argv[2]);
    job.n = strtoul(argv[3], NULL, 10);
    job.method = argv[4];
    job.seconds = strtod(argv[5], NULL);
    snprintf(job.address, sizeof job.address, "tcp://127.0.0.1:%d", atoi(argv[6]));
    if (job.pushing < 1 || job.pushing > PUSHING_MAX || job.connected < job.pushing ||
        job.connected >= TG_RANKS_MAX || job.n == 0 || !(job.seconds > 0)) {
        fprintf(stderr, "bench_connected: 1 <= PUSHING <= %d, PUSHING <= CONNECTED < %d\n",
                PUSHING_MAX, TG_RANKS_MAX);
        return 2;
    }
    raise_limit();
    tg__local_off = true; /* as between machines */
    if (make_keys() != TG_OK)
        return complain("keys");
    const pid_t server = start(be_server);
    const double begin_mb = rss_mb(server);
    const pid_t idle = server > 0 ? start(be_idle) : -1;
    int failed = idle > 0 ? measure(server, begin_mb) : 1;
    if (idle > 0)
        kill(idle, SIGKILL);
    if (server > 0)
        kill(server, SIGTERM);
    for (int status; wait(&status) > 0;)
        failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    return failed;
}
