/* A worker whose server's name takes long to look up: it comes back after its connection breaks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net/local.h"
#include "net_house.h"
#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>

static atomic_bool slow; /* as with a first name server that is dead */
static atomic_int asked;

/* The program's own resolver. "slow.test" takes 6 s, and is 127.0.0.1. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found_p)
{
    int (*own)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&own = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "slow.test") != 0 || (hints->ai_flags & AI_NUMERICHOST))
        return own(host, port, hints, found_p);
    atomic_fetch_add(&asked, 1);
    if (atomic_load(&slow))
        usleep(6000000);
    return own("127.0.0.1", port, hints, found_p);
}

static tg_status step(tg_session *s, uint32_t id)
{
    TG_TRY(tg_session_grad_wait(s, id));
    TG_TRY(tg_session_grad_ready(s, id));
    return tg_session_step(s, NULL);
}

static void slow_names_come_back(void **state)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0"};
    static float w[TOKENS], g[TOKENS];
    house *h = calloc(1, sizeof *h);
    char address[64];
    const char *addresses[] = {address};
    tg_net *net;
    tg_transport *t;
    tg_session *session;
    uint32_t id;
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = config.optimizer};
    house_open(h);
    tg_net_attach_config to = attach_config(h);
    snprintf(address, sizeof address, "tcp://slow.test%s", strrchr(h->address[0], ':'));
    to.servers = addresses;
    to.again_s = 20;
    assert_int_equal(attach(&to, &net, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &session), TG_OK);
    assert_int_equal(one_tensor_begin(session, w, g, TOKENS, &id), TG_OK);
    assert_int_equal(step(session, id), TG_OK);
    atomic_store(&slow, true);
    atomic_store(&asked, 0);
    assert_int_equal(shutdown(net->stream[1]->fd, SHUT_RDWR), 0);
    if (step(session, id) != TG_OK)
        fail_msg("%s", tg_error());
    assert_int_equal(atomic_load(&asked), 1);
    assert_int_equal(tg_session_finish(session), TG_OK);
    tg_session_destroy(session);
    tg_transport_destroy(t);
    house_close(h);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_names_come_back)};
    tg__local_off = true; /* else memory goes on when a connection is shut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
