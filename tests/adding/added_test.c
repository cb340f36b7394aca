/* added_test suite|train: a rank on the transport that was added; it passes the suite of every
 * transport, or trains with the codec, method, exchange and strategy that were added. Powers of two
 * are sent exactly; the rest of other gradients goes to the residual. */
#include "command/job/transports.h"
#include "telegrad/telegrad.h"
#include "transport_suite.h"
#include <stdio.h>
#include <string.h>

enum { N = 8 };

static const float first[N] = {1, -2, 0.5f, 0, 4, 3, -3, 0}; /* 3 is sent as 2, later the other 1 */
static float w[N], g[N];

static tg_status steps(tg_transport *transport)
{
    tg_session_config config = {.struct_size = sizeof config,
                                .method = "powers:exchange=relay",
                                .strategy = "half",
                                .optimizer = "sgd:lr=0.5"};
    tg_session *s;
    uint32_t id;
    const size_t shape[1] = {N};
    tg_status status = tg_session_create(&config, transport, &s);
    if (status != TG_OK)
        return status;
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = "w",
                         .shape = shape,
                         .ndim = 1,
                         .param = {.struct_size = sizeof(tg_array), .data = w, .n = N},
                         .grad = {.struct_size = sizeof(tg_array), .data = g, .n = N}};
    status = tg_session_add(s, &t, &id);
    if (status == TG_OK)
        status = tg_session_begin(s);
    for (int step = 0; status == TG_OK && step < 2; step++) {
        for (int i = 0; i < N; i++)
            g[i] = step == 0 ? first[i] : 0;
        status = tg_session_grad_ready(s, id);
        if (status == TG_OK)
            status = tg_session_step(s, NULL);
    }
    if (status == TG_OK)
        status = tg_session_finish(s);
    tg_session_destroy(s);
    for (int i = 0; status == TG_OK && i < N; i++)
        if (w[i] != -0.25f * first[i])
            status = tg_fail(TG_E_STATE, "w[%d] = %g", i, (double)w[i]);
    return status;
}

int main(int argc, char **argv)
{
    const struct job_transport *job;
    const struct net_options none = {0};
    const struct job_call call = {.net = &none, .command = "added_test", .timeout_s = 60};
    const char *how;
    char error[SUITE_ERROR] = "";
    int rank, size;
    tg_transport *t;
    if (argc != 2 || job_transport_named("files", &job) != TG_OK ||
        job_transport_own(&none, &how) != job || job->open(&call, &rank, &size) != TG_OK ||
        job->connect(&t) != TG_OK) {
        fprintf(stderr, "no rank of a job: %s\n", tg_error());
        return 1;
    }
    bool ok = true;
    if (strcmp(argv[1], "suite") == 0)
        ok = suite_run(t, error);
    else if (steps(t) != TG_OK)
        snprintf(error, sizeof error, "rank %d: %s", rank, tg_error());
    if (*error)
        fprintf(stderr, "%s: %s\n", argv[1], error);
    tg_transport_destroy(t);
    job->close(TG_OK);
    return ok && !*error ? 0 : 1;
}
