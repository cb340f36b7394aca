/* A rank for tests in which each rank is a process: joins, averages vectors, says what happens.
 *
 *   net_play key FILE                       makes a key; prints its public part
 *   net_play meet ADDRESS SIZE KEY LIST TIMEOUT STEPS       rank 0
 *   net_play join ADDRESS RANK KEY PEER TIMEOUT STEPS       another one
 *
 * TIMEOUT is in milliseconds. Prints "step N" after each step; at the end "done", or the error. */
#include "telegrad/net.h"
#include "telegrad/reducer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 50000 };

static int fail(const char *what)
{
    printf("%s: %s\n", what, tg_error());
    return 1;
}

static int play(tg_transport *t, int timeout_ms, int steps)
{
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = timeout_ms};
    static float g[N], mean[N];
    tg_reducer *r = NULL;
    int bad = 0;
    if (tg_reducer_create("dense", t, N, &config, &r) != TG_OK)
        bad = fail("create");
    for (int step = 1; !bad && step <= steps; step++) {
        for (size_t i = 0; i < N; i++)
            g[i] = (float)(t->rank + 1) * (float)((size_t)step + i % 7);
        if (tg_reducer_mean(r, g, mean) != TG_OK)
            bad = fail("mean");
        for (size_t i = 0; !bad && i < N; i++)
            if (mean[i] != (float)(t->size + 1) / 2 * (float)((size_t)step + i % 7)) {
                printf("step %d, element %zu: %g\n", step, i, (double)mean[i]);
                bad = 1;
            }
        if (!bad)
            printf("step %d\n", step);
        fflush(stdout);
        usleep(20000);
    }
    tg_reducer_destroy(r);
    tg_transport_destroy(t);
    if (!bad)
        printf("done\n");
    return bad;
}

static int make_key(const char *path)
{
    char text[TG_KEY_TEXT];
    tg_key_pair *key;
    if (tg_key_create(&key) != TG_OK || tg_key_save(key, path) != TG_OK)
        return fail("key");
    tg_key_text(key, text);
    puts(text);
    tg_key_destroy(key);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "key") == 0)
        return make_key(argv[2]);
    if (argc != 8)
        return 2;
    const bool meets = strcmp(argv[1], "meet") == 0;
    tg_key_pair *key = NULL;
    tg_keys *list = NULL;
    tg_net *net;
    tg_transport *t;
    if (tg_key_load(argv[4], &key) != TG_OK || (meets && tg_keys_load(argv[5], &list) != TG_OK))
        return fail("keys");
    const tg_net_config config = {.struct_size = sizeof config,
                                  .listen = meets ? argv[2] : NULL,
                                  .join = meets ? NULL : argv[2],
                                  .size = meets ? atoi(argv[3]) : 0,
                                  .rank = meets ? 0 : atoi(argv[3]),
                                  .key = key,
                                  .allow = list,
                                  .peer_key = meets ? NULL : argv[5],
                                  .timeout_s = 20};
    const tg_status status = tg_net_join(&config, &net);
    tg_keys_destroy(list);
    tg_key_destroy(key);
    if (status != TG_OK || tg_transport_tcp(net, &t) != TG_OK)
        return fail("join");
    return play(t, atoi(argv[6]), atoi(argv[7]));
}
