/* For abi_caller.c: calls with structures that the first version lacks; those of telegrad/net.h
 * with ABI_NET. */
#ifndef TESTS_ABI_CALLER_NEWER_H
#define TESTS_ABI_CALLER_NEWER_H

static tg_status slot_told(void *x)
{
    tg_reducer *r;
    TG_TRY(tg_reducer_create("topk", transport, N, NULL, &r));
    const tg_status status = tg_reducer_slot_get(r, 0, x);
    tg_reducer_destroy(r);
    return status;
}

static tg_status turn_told(void *x)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .optimizer = "external",
                                      .strategy = "local",
                                      .driver = TG_DRIVER_INLINE};
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = "w",
                         .shape = shape,
                         .ndim = 1,
                         .param = tg_array_f32(w, N)};
    tg_session *s;
    uint32_t id;
    need(tg_session_create(&config, transport, &s));
    need(tg_session_add(s, &t, &id));
    need(tg_session_begin(s));
    const tg_status status = tg_session_deliver(s, x);
    check(status != TG_OK || ((tg_turn *)x)->moves == 1, "a turn");
    tg_session_destroy(s);
    return status;
}

/* Create a server, which does not run. */
static tg_status with_server(const tg_server_config *config, tg_server_stats *stats)
{
    tg_transport *t[2];
    tg_server *s;
    need(tg_transport_inproc(2, t));
    tg_status status = tg_server_create(t[1], 1, config, &s);
    if (status == TG_OK && stats != NULL)
        status = tg_server_get_stats(s, stats);
    if (status == TG_OK || stats != NULL)
        tg_server_destroy(s);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
    return status;
}

static tg_status config_of_server(void *x)
{
    return with_server(x, NULL);
}

static tg_status server_stats(void *x)
{
    return with_server(NULL, x);
}

#ifdef ABI_NET
#define assert_true(right) check(right, #right)
#include "free_ports.h"
#include "telegrad/net.h"

static char place[48]; /* where nothing listens */

static void find_place(void)
{
    char port[FREE_PORTS_MAX][32];
    find_ports(1, port);
    snprintf(place, sizeof place, "tcp://%.31s", port[0]);
}

static tg_status joined(tg_net_config *config, tg_net **net_p)
{
    config->size = 1;
    config->insecure = true;
    config->listen = place;
    return tg_net_join(config, net_p);
}

static tg_status config_of_net(void *x)
{
    tg_net *net;
    TG_TRY(joined(x, &net));
    tg_net_destroy(net);
    return TG_OK;
}

static tg_status peer_told(void *x)
{
    tg_net_config config = {.struct_size = sizeof config};
    tg_net *net;
    need(joined(&config, &net));
    const tg_status status = tg_net_peer(net, 0, x);
    tg_net_destroy(net);
    return status;
}

static tg_status config_of_serve(void *x)
{
    tg_net_serve_config *config = x;
    tg_net *net;
    config->listen = place;
    config->workers = 1;
    config->insecure = true;
    TG_TRY(tg_net_serve(config, &net));
    tg_net_destroy(net);
    return TG_OK;
}

static bool is_stopped(void *arg)
{
    (void)arg;
    return true;
}

/* There is no server: that it is called at all is enough. */
static tg_status config_of_attach(void *x)
{
    static const char *const servers[] = {place};
    tg_net_attach_config *config = x;
    tg_net *net;
    config->count = 1;
    config->servers = servers;
    config->insecure = true;
    config->stop = is_stopped;
    const tg_status status = tg_net_attach(config, &net);
    return status == TG_E_STOPPED ? TG_OK : status;
}
#endif

#endif
