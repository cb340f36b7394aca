#include "command/serve/serve_check.h"
#include "command/job/server_mode.h"
#include "telegrad/registry.h"
#include "telegrad/server.h"
#include <string.h>

tg_status serve_check_network(const struct net_options *o)
{
    if (!o->listen)
        return tg_fail(TG_E_SPEC, "serve requires --listen tcp://HOST:PORT, where workers call, "
                                  "e.g. tcp://0.0.0.0:4242");
    TG_TRY(net_options_address("listen", o->listen, false, "", 1));
    if (o->insecure && (o->key || o->allow))
        return tg_fail(TG_E_SPEC,
                       "--insecure and --%s cannot be combined: --insecure means no keys",
                       o->key ? "key" : "allow");
    if (!o->insecure && !o->key)
        return tg_fail(TG_E_SPEC, "--listen requires --key FILE (see telegrad key new), or "
                                  "--insecure: no keys and no encryption");
    if (!o->insecure && !o->allow)
        return tg_fail(TG_E_SPEC, "--listen with --key requires --allow FILE, the public keys of "
                                  "the workers, a key and a name per line");
    return TG_OK;
}

/* A rule's f depends on the number of workers; of more than this, any sensible f is allowed. */
enum { MODE_RANKS = 64 };

tg_status serve_check_mode(const char *mode, const char *optimizer, int workers)
{
    tg_transport *t[MODE_RANKS + 1];
    tg_server *s;
    tg_spec *spec;
    const int ranks = workers < MODE_RANKS ? workers : MODE_RANKS;
    const tg_server_config config = {
        .struct_size = sizeof config, .mode = mode, .optimizer = optimizer};
    if (strcmp(mode, "sum") == 0 || strncmp(mode, "sum:", 4) == 0)
        return tg_fail(TG_E_SPEC,
                       "--mode %.64s: workers that come and go need a server that keeps the "
                       "parameters: allowed: async, sync; train --servers N has sum",
                       mode);
    TG_TRY(server_mode_check("mode", mode, "async|sync"));
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, optimizer, &spec));
    tg_spec_free(spec);
    TG_TRY(tg_transport_inproc(ranks + 1, t));
    const tg_status status = tg_server_create(t[ranks], 1, &config, &s);
    if (status == TG_OK)
        tg_server_destroy(s);
    for (int rank = 0; rank <= ranks; rank++)
        tg_transport_destroy(t[rank]);
    return status;
}
