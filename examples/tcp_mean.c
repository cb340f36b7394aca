/* A compressed mean between machines that know each other's keys:
 *     cc tcp_mean.c $(pkg-config --cflags --libs telegrad-net) -lm -o tcp_mean
 * On every machine, make a key; this prints its public part:
 *     ./tcp_mean key NAME.key
 * One machine is the meeting point. The file `friends` holds the others' public keys, one per line;
 * 3 is the number of ranks:
 *     ./tcp_mean listen a.key tcp://0.0.0.0:4242 friends 3
 * The others give its public key:
 *     ./tcp_mean join b.key tcp://HOST:4242 tgk1:... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telegrad/net.h>
#include <telegrad/reducer.h>

enum { N = 1000000 };
static float gradient[N], mean[N];

static tg_status make_key(const char *path)
{
    char text[TG_KEY_TEXT];
    tg_key_pair *key;
    TG_TRY(tg_key_create(&key));
    const tg_status status = tg_key_save(key, path);
    tg_key_text(key, text);
    tg_key_destroy(key);
    if (status == TG_OK)
        printf("%s\n", text);
    return status;
}

static tg_status reduce(tg_transport *transport)
{
    tg_reducer *reducer;
    TG_TRY(tg_reducer_create("topk:density=0.01", transport, N, NULL, &reducer));
    tg_status status = TG_OK;
    for (int step = 0; step < 3 && status == TG_OK; step++) {
        for (int i = 0; i < N; i++)
            gradient[i] = sinf((float)(i % 1000 * (transport->rank + 1)) + (float)step);
        status = tg_reducer_mean(reducer, gradient, mean);
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += fabsf(mean[i]);
    if (status == TG_OK)
        printf("rank %d of %d: sum %.9g, %.0f times fewer bytes\n", transport->rank,
               transport->size, sum, tg_reducer_ratio(reducer));
    tg_reducer_destroy(reducer);
    return status;
}

static void say(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "waiting for %s\n", text);
}

static tg_status take_part(bool meets, char **arg)
{
    tg_net_config config = {.struct_size = sizeof config, .timeout_s = 120, .on_wait = say};
    tg_key_pair *key = NULL;
    tg_keys *allow = NULL;
    tg_net *net;
    tg_transport *transport;
    if (meets) {
        config.listen = arg[1];
        config.size = atoi(arg[3]);
    } else {
        config.join = arg[1];
        config.peer_key = arg[2];
    }
    tg_status status = tg_key_load(arg[0], &key);
    if (status == TG_OK && meets)
        status = tg_keys_load(arg[2], &allow);
    config.key = key;
    config.allow = allow;
    if (status == TG_OK)
        status = tg_net_join(&config, &net);
    tg_key_destroy(key);
    tg_keys_destroy(allow);
    if (status != TG_OK)
        return status;
    status = tg_transport_tcp(net, &transport);
    if (status != TG_OK) {
        tg_net_destroy(net);
        return status;
    }
    status = reduce(transport);
    tg_transport_destroy(transport); /* and leave the job */
    return status;
}

int main(int argc, char **argv)
{
    tg_status status;
    if (argc == 3 && strcmp(argv[1], "key") == 0)
        status = make_key(argv[2]);
    else if (argc == 6 && strcmp(argv[1], "listen") == 0)
        status = take_part(true, argv + 2);
    else if (argc == 5 && strcmp(argv[1], "join") == 0)
        status = take_part(false, argv + 2);
    else {
        fprintf(stderr,
                "usage: tcp_mean key FILE | listen KEY ADDRESS FRIENDS RANKS | join KEY ADDRESS "
                "tgk1:...\n");
        return 2;
    }
    if (status != TG_OK)
        fprintf(stderr, "%s\n", tg_error());
    return status == TG_OK ? 0 : 1;
}
