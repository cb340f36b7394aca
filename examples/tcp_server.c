/* A parameter server and its workers, which come and go: logistic regression on random points, of
 * which each worker draws its own:
 *     cc tcp_server.c $(pkg-config --cflags --libs telegrad-net) -lm -o tcp_server
 * In one terminal, start the server; in others, as many workers as you like, at any time, by the
 * command that it prints:
 *     ./tcp_server serve tcp://127.0.0.1:4242
 *     ./tcp_server work tcp://127.0.0.1:4242 worker.key tgk1:...
 * The server makes its key and one for the workers in this folder: server.key, worker.key. For
 * workers on other machines, listen at tcp://0.0.0.0:4242, and copy worker.key there. Ctrl-C ends
 * either in order; a worker whose server does not answer ends at the second one. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <telegrad/net.h>
#include <telegrad/random.h>
#include <telegrad/server.h>
#include <telegrad/session.h>

#define JOB "examples/tcp_server.c" /* workers of other jobs are refused */
#define OPTIMIZER "sgd:lr=0.2"      /* the same at the server and its workers */
#define MODE "async:staleness=4"    /* a step from each gradient; see server.h */
#define METHOD "topk:density=0.05"  /* of the workers' gradients */

enum { WORKERS = 8, N = 1000, POINTS = 64, STEPS = 1000, SAY = 200 };
static float w[N], bias[1], grad_w[N], grad_bias[1];
static volatile sig_atomic_t stop;
static tg_session *volatile session; /* a worker's, for on_signal */

static void on_signal(int number)
{
    signal(number, on_signal);
    stop = 1;
    if (session != NULL)
        tg_session_request_stop(session); /* the second time, also to end waits */
}

static bool is_stopped(void *arg)
{
    (void)arg;
    return stop != 0;
}

static void say(void *arg, const char *text)
{
    fprintf(stderr, "%s%s\n", (const char *)arg, text);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Load the key in this file, or make it. */
static tg_status find_key(const char *path, tg_key_pair **key_p)
{
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        fclose(file);
        return tg_key_load(path, key_p);
    }
    tg_key_pair *key;
    TG_TRY(tg_key_create(&key));
    const tg_status status = tg_key_save(key, path);
    if (status == TG_OK)
        *key_p = key;
    else
        tg_key_destroy(key);
    return status;
}

/* Load or make both keys. allow: the workers' */
static tg_status find_keys(const char *address, tg_key_pair **key_p, tg_keys **allow_p)
{
    tg_key_pair *worker;
    char text[TG_KEY_TEXT], line[TG_KEY_TEXT + 16];
    TG_TRY(find_key("worker.key", &worker));
    tg_key_text(worker, text);
    tg_key_destroy(worker);
    snprintf(line, sizeof line, "%s worker", text);
    TG_TRY(tg_keys_parse(line, allow_p));
    const tg_status status = find_key("server.key", key_p);
    if (status != TG_OK) {
        tg_keys_destroy(*allow_p);
        return status;
    }
    tg_key_text(*key_p, text);
    printf("start workers: ./tcp_server work %s worker.key %s\n", address, text);
    fflush(stdout);
    return TG_OK;
}

static tg_status run_server(tg_transport *transport)
{
    const tg_server_config config = {
        .struct_size = sizeof config, .stop = &stop, .mode = MODE, .optimizer = OPTIMIZER};
    tg_server_stats stats = {.struct_size = sizeof stats};
    tg_server *server;
    TG_TRY(tg_server_create(transport, 1, &config, &server));
    tg_status status = tg_server_run(server);
    if (status == TG_E_STOPPED) /* by Ctrl-C, as it should end */
        status = tg_server_get_stats(server, &stats);
    if (status == TG_OK)
        printf("served up to step %llu: %llu answers, %llu bytes received\n",
               (unsigned long long)stats.step, (unsigned long long)stats.sums,
               (unsigned long long)stats.bytes_in);
    tg_server_destroy(server);
    return status;
}

static tg_status serve(const char *address)
{
    tg_key_pair *key;
    tg_keys *allow;
    tg_net *net;
    tg_transport *transport;
    TG_TRY(find_keys(address, &key, &allow));
    const tg_net_serve_config config = {.struct_size = sizeof config,
                                        .listen = address,
                                        .workers = WORKERS,
                                        .job = JOB,
                                        .key = key,
                                        .allow = allow,
                                        .on_event = say,
                                        .on_event_arg = ""};
    tg_status status = tg_net_serve(&config, &net);
    if (status == TG_OK) {
        status = tg_transport_tcp(net, &transport);
        if (status != TG_OK)
            tg_net_destroy(net);
    }
    if (status == TG_OK) {
        status = run_server(transport);
        tg_transport_destroy(transport);
    }
    tg_key_destroy(key);
    tg_keys_destroy(allow); /* the membership borrows it */
    return status;
}

/* ---- a worker -------------------------------------------------------------------------------- */

/* Random number `counter` of this worker, in [-1, 1). */
static float draw(int seat, uint64_t counter)
{
    const tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)seat};
    return (float)(2 * tg_rng_uniform(&key, counter) - 1);
}

/* Compute the gradient of a batch and return the mean loss. A point's class is the sign of the sum
 * of its first ten coordinates. */
static double loss_and_gradient(int seat, uint64_t step)
{
    double loss = 0;
    memset(grad_w, 0, sizeof grad_w);
    grad_bias[0] = 0;
    for (uint64_t p = 0; p < POINTS; p++) {
        float x[N], z = bias[0], sum = 0;
        for (uint64_t i = 0; i < N; i++) {
            x[i] = draw(seat, (step * POINTS + p) * N + i);
            z += w[i] * x[i];
            sum += i < 10 ? x[i] : 0;
        }
        const float y = sum > 0 ? 1 : -1, error = -y / (1 + expf(y * z)) / POINTS;
        loss += log1p(exp((double)(-y * z))) / POINTS;
        for (int i = 0; i < N; i++)
            grad_w[i] += error * x[i];
        grad_bias[0] += error;
    }
    return loss;
}

static tg_status add(tg_session *s, const char *name, float *param, float *grad, size_t n,
                     uint32_t *id_p)
{
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = name,
                              .shape = &n,
                              .ndim = 1,
                              .param = tg_array_f32(param, n),
                              .grad = tg_array_f32(grad, n)};
    return tg_session_add(s, &tensor, id_p);
}

static tg_status train(tg_session *s, int seat)
{
    uint32_t weights, offset;
    double loss = 0;
    int steps = 0;
    tg_step_info info = {.struct_size = sizeof info};
    TG_TRY(add(s, "weights", w, grad_w, N, &weights));
    TG_TRY(add(s, "bias", bias, grad_bias, 1, &offset));
    TG_TRY(tg_session_begin(s)); /* w and bias are the server's now, but for the first worker */
    printf("worker %d begins at step %llu of %d\n", seat, (unsigned long long)tg_session_steps(s),
           STEPS);
    while (tg_session_steps(s) < STEPS && !info.stop) {
        loss += loss_and_gradient(seat, tg_session_steps(s));
        TG_TRY(tg_session_grad_ready(s, offset)); /* last layers first */
        TG_TRY(tg_session_grad_ready(s, weights));
        TG_TRY(tg_session_step(s, &info)); /* sends the gradients, and waits for the parameters */
        steps++;
        if (tg_session_steps(s) % SAY != 0)
            continue;
        printf("step %llu: loss %.3f\n", (unsigned long long)tg_session_steps(s), loss / steps);
        fflush(stdout);
        loss = steps = 0;
    }
    return tg_session_finish(s);
}

static tg_status work_over(tg_transport *transport)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = METHOD,
                                      .strategy = "server",
                                      .optimizer = OPTIMIZER,
                                      .job = JOB,
                                      .stop = &stop};
    tg_session *s;
    TG_TRY(tg_session_create(&config, transport, &s));
    session = s;
    const tg_status status = train(s, transport->seat);
    session = NULL;
    tg_session_destroy(s);
    return status;
}

static tg_status work(const char *address, const char *key_file, const char *server_key)
{
    tg_key_pair *key;
    tg_net *net;
    tg_transport *transport, *worker;
    TG_TRY(tg_key_load(key_file, &key));
    const tg_net_attach_config config = {.struct_size = sizeof config,
                                         .count = 1,
                                         .servers = &address,
                                         .server_keys = &server_key,
                                         .job = JOB,
                                         .key = key,
                                         .stop = is_stopped,
                                         .on_wait = say,
                                         .on_wait_arg = "waiting for ",
                                         .again_s = 60};
    tg_status status = tg_net_attach(&config, &net);
    tg_key_destroy(key);
    if (status != TG_OK)
        return status;
    status = tg_transport_tcp(net, &transport);
    if (status != TG_OK) {
        tg_net_destroy(net);
        return status;
    }
    status = tg_transport_worker(transport, 1, &worker);
    if (status != TG_OK) {
        tg_transport_destroy(transport);
        return status;
    }
    status = work_over(worker);
    tg_transport_destroy(worker); /* and leave the job */
    return status;
}

int main(int argc, char **argv)
{
    tg_status status;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        status = serve(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "work") == 0)
        status = work(argv[2], argv[3], argv[4]);
    else {
        fprintf(stderr, "usage: tcp_server serve ADDRESS | work ADDRESS KEY tgk1:...\n");
        return 2;
    }
    if (status != TG_OK)
        fprintf(stderr, "%s\n", tg_error());
    return status == TG_OK ? 0 : 1;
}
