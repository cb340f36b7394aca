/* A worker of parameter servers whose gradients can be counted, for bench/chaos.py: the gradient of
 * each step is 1 at one element that no other step has, and 0 elsewhere. Public functions only.
 *
 *     token_worker SERVERS SERVER_KEYS KEY ELEMENTS METHOD PAUSE_MS LOG FIRST END
 *     token_worker SERVERS SERVER_KEYS KEY ELEMENTS METHOD look
 *
 * SERVERS and SERVER_KEYS are lists with commas. The tokens are elements FIRST to END - 1, one for
 * each step; then, and on SIGTERM, it leaves as planned. Lines are appended to LOG, each by one
 * write:
 *
 *     began ELEMENT                  the step with this token begins
 *     late ELEMENT                   a server made the step without this gradient, which is in the
 *                                    residual now; "done" follows
 *     done ELEMENT STEP (C:HASH)...  its answers are here: for each 8,192 elements, how many are
 *                                    not 0, and a hash of them. Servers' parts and their slices,
 *                                    which are answered one by one, are whole multiples of that
 *
 * With `look`, the parameters are printed, a number per line. */
#include "telegrad/net.h"
#include "telegrad/server.h"
#include "telegrad/telegrad.h"
#include "telegrad/tools.h"
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS_MAX = 8, CHUNK = 8192, CHUNKS_MAX = 64, TIMEOUT_S = 60, AGAIN_S = 600 };
enum { LINE = 60 + 40 * CHUNKS_MAX };

typedef struct worker {
    const char *server[SERVERS_MAX], *key[SERVERS_MAX];
    int servers;
    size_t n;
    const char *method;
    long pause_ms;
    int log;
    size_t next, end; /* tokens */
    float *w, *g;     /* (n) */
} worker;

static volatile sig_atomic_t asked_to_stop;

static void on_term(int sig)
{
    (void)sig;
    asked_to_stop = 1;
}

static void on_log(void *arg, tg_log_level level, const char *message)
{
    (void)arg;
    if (level <= TG_LOG_WARN)
        fprintf(stderr, "%s\n", message);
}

/* Cut a list at its commas. */
static int split(char *list, const char *to[SERVERS_MAX])
{
    int count = 0;
    for (char *at = list; at && count < SERVERS_MAX; count++) {
        to[count] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return count;
}

static tg_status note(const worker *w, const char *text)
{
    const size_t len = strlen(text);
    return write(w->log, text, len) == (ssize_t)len ? TG_OK
                                                    : tg_fail(TG_E_IO, "cannot write the log");
}

static tg_status note_done(const worker *w, size_t token, uint64_t step)
{
    char line[LINE];
    size_t len =
        (size_t)snprintf(line, sizeof line, "done %zu %llu", token, (unsigned long long)step);
    for (size_t begin = 0; begin < w->n; begin += CHUNK) {
        const size_t end = begin + CHUNK < w->n ? begin + CHUNK : w->n;
        size_t count = 0;
        for (size_t i = begin; i < end; i++)
            count += w->w[i] < 0 || w->w[i] > 0;
        const uint64_t hash = tg_hash(TG_HASH_START, w->w + begin, (end - begin) * sizeof *w->w);
        len += (size_t)snprintf(line + len, sizeof line - len, " %zu:%016llx", count,
                                (unsigned long long)hash);
    }
    snprintf(line + len, sizeof line - len, "\n");
    return note(w, line);
}

static tg_status step(worker *w, tg_session *s, uint32_t id)
{
    char line[LINE];
    tg_step_info info = {.struct_size = sizeof info};
    const struct timespec pause = {.tv_sec = w->pause_ms / 1000,
                                   .tv_nsec = w->pause_ms % 1000 * 1000000};
    TG_TRY(tg_session_grad_wait(s, id));
    memset(w->g, 0, w->n * sizeof *w->g);
    w->g[w->next] = 1;
    snprintf(line, sizeof line, "began %zu\n", w->next);
    TG_TRY(note(w, line));
    TG_TRY(tg_session_grad_ready(s, id));
    TG_TRY(tg_session_step(s, &info));
    if (info.late > 0) {
        snprintf(line, sizeof line, "late %zu\n", w->next);
        TG_TRY(note(w, line));
    }
    TG_TRY(note_done(w, w->next, tg_session_steps(s)));
    w->next++;
    if (!asked_to_stop)
        nanosleep(&pause, NULL);
    return TG_OK;
}

static tg_status train(worker *w, tg_transport *t)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = w->method,
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0",
                                      .timeout_ms = TIMEOUT_S * 1000};
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "tokens",
                              .shape = &w->n,
                              .ndim = 1,
                              .param = tg_array_f32(w->w, w->n),
                              .grad = tg_array_f32(w->g, w->n)};
    tg_session *s;
    uint32_t id;
    TG_TRY(tg_session_create(&config, t, &s));
    tg_status status = tg_session_add(s, &tensor, &id);
    if (status == TG_OK)
        status = tg_session_begin(s);
    while (status == TG_OK && w->next < w->end && !asked_to_stop)
        status = step(w, s, id);
    if (status == TG_OK && w->end > 0)
        status = tg_session_finish(s);
    tg_session_destroy(s);
    return status;
}

static tg_status run(worker *w, const char *key_file)
{
    tg_key_pair *key;
    tg_net *net;
    tg_transport *t;
    TG_TRY(tg_key_load(key_file, &key));
    const tg_net_attach_config config = {.struct_size = sizeof config,
                                         .count = w->servers,
                                         .servers = w->server,
                                         .server_keys = w->key,
                                         .job = "serve",
                                         .key = key,
                                         .timeout_s = TIMEOUT_S,
                                         .again_s = AGAIN_S};
    tg_status status = tg_net_attach(&config, &net);
    tg_key_destroy(key);
    TG_TRY(status);
    status = tg_transport_tcp(net, &t);
    if (status != TG_OK) {
        tg_net_destroy(net);
        return status;
    }
    tg_transport *inner = t;
    status = tg_transport_worker(inner, w->servers, &t);
    if (status == TG_OK)
        status = train(w, t);
    tg_transport_destroy(status == TG_OK || t != inner ? t : inner);
    return status;
}

static int say(const char *what)
{
    fprintf(stderr, "token_worker: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    const bool looks = argc == 7 && strcmp(argv[6], "look") == 0;
    if (argc != 10 && !looks)
        return say("see the top of token_worker.c") + 1;
    worker w = {.n = strtoul(argv[4], NULL, 10), .method = argv[5], .log = -1};
    w.servers = split(argv[1], w.server);
    if (split(argv[2], w.key) != w.servers || w.n == 0)
        return say("a key for each server, and some elements") + 1;
    if (w.n > CHUNK * CHUNKS_MAX)
        return say("too many elements") + 1;
    if (!looks) {
        w.pause_ms = strtol(argv[6], NULL, 10);
        w.log = open(argv[7], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        w.next = strtoul(argv[8], NULL, 10);
        w.end = strtoul(argv[9], NULL, 10);
        if (w.log < 0 || w.end > w.n || w.next >= w.end)
            return say("LOG cannot be opened, or FIRST and END are wrong") + 1;
    }
    w.w = calloc(w.n, sizeof *w.w);
    w.g = calloc(w.n, sizeof *w.g);
    if (!w.w || !w.g)
        return say("out of memory");
    signal(SIGTERM, on_term);
    tg_log_set(on_log, NULL);
    const tg_status status = run(&w, argv[3]);
    for (size_t i = 0; looks && status == TG_OK && i < w.n; i++)
        printf("%.9g\n", (double)w.w[i]);
    free(w.w);
    free(w.g);
    return status == TG_OK ? 0 : say(tg_error());
}
