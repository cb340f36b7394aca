/* Valid arguments of the functions of telegrad/net.h, for arguments.py. */
#ifndef TG_TESTS_ARGUMENTS_NET_H
#define TG_TESTS_ARGUMENTS_NET_H

#include "arguments.h"
#include "telegrad/net.h"

static inline tg_key_pair *arg_pair(void)
{
    tg_key_pair *key = NULL;
    arg_need(tg_key_create(&key));
    return key;
}

static inline const char *arg_key_text(void)
{
    static char text[TG_KEY_TEXT];
    tg_key_text(arg_pair(), text);
    return text;
}

static inline tg_keys *arg_keys(void)
{
    tg_keys *keys = NULL;
    arg_need(tg_keys_parse(arg_key_text(), &keys));
    return keys;
}

static inline const char *arg_file(const char *name, const char *text)
{
    static char path[sizeof arg_dir + 32];
    snprintf(path, sizeof path, "%s/%s", arg_dir, name);
    (void)unlink(path);
    if (!text) {
        arg_need(tg_key_save(arg_pair(), path));
        return path;
    }
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(3);
    return path;
}

/* A job of one rank. */
static inline const tg_net_config *arg_net_config(void)
{
    static tg_net_config c;
    c = (tg_net_config){.struct_size = sizeof c,
                        .listen = "tcp://127.0.0.1:4242",
                        .size = 1,
                        .insecure = true,
                        .timeout_s = 5};
    return &c;
}

/* Without a port: it does not listen. */
static inline const tg_net_serve_config *arg_net_serve_config(void)
{
    static tg_net_serve_config c;
    c = (tg_net_serve_config){
        .struct_size = sizeof c, .listen = "tcp://127.0.0.1", .workers = 1, .insecure = true};
    return &c;
}

/* Nobody listens there. */
static inline const tg_net_attach_config *arg_net_attach_config(void)
{
    static const char *const server = "tcp://127.0.0.1:1";
    static tg_net_attach_config c;
    c = (tg_net_attach_config){.struct_size = sizeof c,
                               .count = 1,
                               .servers = &server,
                               .insecure = true,
                               .timeout_s = 0.05};
    return &c;
}

static inline tg_net *arg_net(void)
{
    tg_net *net = NULL;
    arg_need(tg_net_join(arg_net_config(), &net));
    return net;
}

static inline tg_net *arg_net_with_key(void)
{
    tg_net_config c = *arg_net_config();
    tg_net *net = NULL;
    c.insecure = false;
    c.key = arg_pair();
    arg_need(tg_net_join(&c, &net));
    return net;
}

static inline tg_net_peer_info *arg_net_peer_info(void)
{
    static tg_net_peer_info info;
    info = (tg_net_peer_info){.struct_size = sizeof info};
    return &info;
}

#endif
