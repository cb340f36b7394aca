/* The transports of bench_messages. */
#include "messages.h"
#include "net/local.h"
#include "telegrad/net.h"
#include "telegrad/tools.h"
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef TG_HAVE_MPI
#include "telegrad/mpi.h"
#endif

enum { PATH = 512, WAIT_S = 60 };

static int say(const char *what)
{
    fprintf(stderr, "bench_messages: %s\n", what);
    return -1;
}

/* ---- any transport of telegrad --------------------------------------------------------------- */

static tg_status post_over(messages *m, int i, bool sends, void *bytes, size_t len)
{
    const tg_transport_ops *ops = m->t->ops;
    return sends ? ops->post_send(m->t, 1 - m->rank, (uint32_t)i, bytes, len, &m->req[i])
                 : ops->post_recv(m->t, 1 - m->rank, (uint32_t)i, bytes, len, &m->req[i]);
}

static tg_status wait_over(messages *m, int i)
{
    bool done = false;
    size_t len;
    for (;;) {
        TG_TRY(m->t->ops->test(m->t, &m->req[i], &done, &len));
        if (done)
            return TG_OK;
        TG_TRY(m->t->ops->poll(m->t, tg_now_ns(m->t->clock) + INT64_C(1000000000)));
    }
}

static void close_over(messages *m)
{
    tg_transport_destroy(m->t);
#ifdef TG_HAVE_MPI
    if (strcmp(m->name, "mpi") == 0)
        MPI_Finalize();
#endif
}

/* ---- plain sockets --------------------------------------------------------------------------- */

static tg_status post_plain(messages *m, int i, bool sends, void *bytes, size_t len)
{
    (void)i;
    for (size_t at = 0; at < len;) {
        const ssize_t n = sends ? send(m->fd, (char *)bytes + at, len - at, MSG_NOSIGNAL)
                                : recv(m->fd, (char *)bytes + at, len - at, MSG_WAITALL);
        if (n <= 0)
            return tg_fail(TG_E_PEER, "the other rank has left");
        at += (size_t)n;
    }
    return TG_OK;
}

static tg_status wait_plain(messages *m, int i)
{
    (void)m;
    (void)i;
    return TG_OK;
}

static void close_plain(messages *m)
{
    close(m->fd);
}

static bool open_plain(messages *m, const char *address)
{
    char host[64], port[8];
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    const int on = 1;
    if (sscanf(address, "tcp://%63[^:]:%7[0-9]", host, port) != 2 ||
        getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    bool ok = false;
    for (int tries = 0; !ok && tries < 10 * WAIT_S; tries++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (m->rank == 0) {
            ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0 &&
                 (m->fd = accept(fd, NULL, NULL)) >= 0;
        } else
            ok = connect(m->fd = fd, found->ai_addr, found->ai_addrlen) == 0;
        if (!ok || m->rank == 0)
            close(fd);
        if (!ok)
            usleep(100000);
    }
    freeaddrinfo(found);
    return ok && setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void path_of(char path[PATH], const char *folder, const char *name)
{
    snprintf(path, PATH, "%s/%s", folder, name);
}

static tg_status make_keys(const char *folder)
{
    for (int r = 0; r < 2; r++) {
        char path[PATH], text[TG_KEY_TEXT];
        tg_key_pair *key;
        path_of(path, folder, r == 0 ? "0.key" : "1.key");
        TG_TRY(tg_key_create(&key));
        tg_key_text(key, text);
        const tg_status status = tg_key_save(key, path);
        tg_key_destroy(key);
        TG_TRY(status);
        path_of(path, folder, r == 0 ? "0.pub" : "1.pub");
        FILE *f = fopen(path, "w");
        if (!f || fprintf(f, "%s\n", text) < 0 || fclose(f) != 0)
            return tg_fail(TG_E_IO, "%s cannot be written", path);
    }
    return TG_OK;
}

static tg_status join(messages *m, tg_net_config *c)
{
    tg_net *net;
    TG_TRY(tg_net_join(c, &net));
    const tg_status status = tg_transport_tcp(net, &m->t);
    if (status != TG_OK)
        tg_net_destroy(net);
    return status;
}

static tg_status open_tcp(messages *m, const char *address, const char *folder)
{
    char path[PATH], peer[TG_KEY_TEXT] = "";
    tg_key_pair *key = NULL;
    tg_keys *allow = NULL;
    tg_status status = TG_OK;
    if (folder) {
        path_of(path, folder, m->rank == 0 ? "0.key" : "1.key");
        TG_TRY(tg_key_load(path, &key));
        path_of(path, folder, m->rank == 0 ? "1.pub" : "0.pub");
        FILE *f = m->rank == 0 ? NULL : fopen(path, "r");
        if (m->rank == 0)
            status = tg_keys_load(path, &allow);
        else if (!f || fscanf(f, "%63s", peer) != 1)
            status = tg_fail(TG_E_IO, "%s cannot be read", path);
        if (f)
            fclose(f);
    }
    if (status == TG_OK)
        status = join(m, &(tg_net_config){.struct_size = sizeof(tg_net_config),
                                          .listen = m->rank == 0 ? address : NULL,
                                          .join = m->rank == 0 ? NULL : address,
                                          .size = 2,
                                          .key = key,
                                          .allow = allow,
                                          .peer_key = folder && m->rank == 1 ? peer : NULL,
                                          .insecure = !folder,
                                          .timeout_s = WAIT_S});
    tg_keys_destroy(allow);
    tg_key_destroy(key);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int open_mpi(messages *m, char **argv)
{
#ifdef TG_HAVE_MPI
    int level, size;
    (void)argv;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        return say("allowed: mpirun -n 2");
    return tg_transport_mpi(MPI_COMM_WORLD, &m->t) == TG_OK ? 2 : say(tg_error());
#else
    (void)m;
    return say(argv[1]), say("built without MPI");
#endif
}

int messages_open(messages *m, int argc, char **argv)
{
    const char *over = argc > 2 ? argv[1] : "", *folder = NULL;
    *m = (messages){.name = over, .post = post_over, .wait = wait_over, .close = close_over};
    if (strcmp(over, "mpi") == 0)
        return open_mpi(m, argv);
    if (strcmp(over, "keys") == 0)
        return make_keys(argv[2]) == TG_OK ? 0 : say(tg_error());
    int next = 4;
    if (argc > 5 && strcmp(argv[4], "--keys") == 0) {
        folder = argv[5];
        next = 6;
    }
    if (argc < 4 || (strcmp(argv[2], "listen") != 0 && strcmp(argv[2], "join") != 0) ||
        (strcmp(over, "tcp") != 0 && strcmp(over, "memory") != 0 && strcmp(over, "plain") != 0))
        return say("allowed: keys DIR, mpi TEST..., tcp|memory|plain listen|join ADDRESS "
                   "[--keys DIR] TEST..."),
               -2;
    m->rank = strcmp(argv[2], "join") == 0;
    if (strcmp(over, "plain") == 0) {
        m->post = post_plain;
        m->wait = wait_plain;
        m->close = close_plain;
        return open_plain(m, argv[3]) ? next : say("plain sockets cannot be connected");
    }
    tg__local_off = strcmp(over, "tcp") == 0;
    m->name = !tg__local_off ? "memory" : folder ? "tcp" : "tcp --insecure";
    return open_tcp(m, argv[3], folder) == TG_OK ? next : say(tg_error());
}
