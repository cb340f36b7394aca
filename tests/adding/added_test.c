/* A codec, a method, an exchange and a strategy that were added, on two ranks. Powers of two are
 * sent exactly; the rest of other gradients goes to the residual. */
#include "telegrad/telegrad.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { P = 2, N = 8 };

typedef struct rank {
    tg_transport *transport;
    float w[N];
    uint64_t bytes;
    char error[256];
} rank;

static const float first[N] = {1, -2, 0.5f, 0, 4, 3, -3, 0}; /* 3 is sent as 2, later the other 1 */

static tg_status steps(rank *r)
{
    float g[N];
    tg_session_config config = {.struct_size = sizeof config,
                                .method = "powers:exchange=relay",
                                .strategy = "half",
                                .optimizer = "sgd:lr=0.5",
                                .rules = NULL};
    tg_session *s;
    uint32_t id;
    const size_t shape[1] = {N};
    tg_status status = tg_session_create(&config, r->transport, &s);
    if (status != TG_OK)
        return status;
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = "w",
                         .shape = shape,
                         .ndim = 1,
                         .param = {.struct_size = sizeof(tg_array), .data = r->w, .n = N},
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
    return status;
}

static void *run(void *arg)
{
    rank *r = arg;
    if (steps(r) != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    return NULL;
}

int main(void)
{
    tg_transport *transport[P];
    static rank ranks[P];
    pthread_t thread[P];
    if (tg_transport_inproc(P, transport) != TG_OK)
        return 1;
    for (int r = 0; r < P; r++) {
        ranks[r].transport = transport[r];
        if (pthread_create(&thread[r], NULL, run, &ranks[r]) != 0)
            return 1;
    }
    int wrong = 0;
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < P; r++) {
        if (*ranks[r].error) {
            fprintf(stderr, "rank %d: %s\n", r, ranks[r].error);
            wrong = 1;
        }
        for (int i = 0; !wrong && i < N; i++)
            if (ranks[r].w[i] != -0.25f * first[i]) {
                fprintf(stderr, "rank %d: w[%d] = %g\n", r, i, (double)ranks[r].w[i]);
                wrong = 1;
            }
        tg_transport_destroy(transport[r]);
    }
    return wrong;
}
