/* The transport in examples/ does what every transport must do: the common suite over TCP. */
#include "../examples/socket_transport.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "transport_suite.h"

enum { RANKS = 8 };

typedef struct worker {
    int rank, size;
    const char *const *address;
    char error[SUITE_ERROR];
    bool ok;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    tg_transport *t;
    if (socket_transport(w->rank, w->size, w->address, 30000, &t) != TG_OK) {
        snprintf(w->error, sizeof w->error, "rank %d: %s", w->rank, tg_error());
        return NULL;
    }
    w->ok = suite_run(t, w->error);
    tg_transport_destroy(t);
    return NULL;
}

static void suite_sockets(void **state)
{
    (void)state;
    for (int size = 2; size <= RANKS; size += size < 4 ? 1 : 4) {
        char text[RANKS][32];
        const char *address[RANKS];
        worker workers[RANKS];
        find_ports(size, text);
        for (int r = 0; r < size; r++) {
            address[r] = text[r];
            workers[r] = (worker){.rank = r, .size = size, .address = address};
        }
        for (int r = 0; r < size; r++)
            assert_int_equal(pthread_create(&workers[r].thread, NULL, work, &workers[r]), 0);
        for (int r = 0; r < size; r++)
            pthread_join(workers[r].thread, NULL);
        for (int r = 0; r < size; r++)
            if (!workers[r].ok)
                fail_msg("%d ranks: %s", size, workers[r].error);
    }
}

static void missing_ranks_are_named(void **state)
{
    (void)state;
    char text[2][32];
    tg_transport *t = NULL;
    find_ports(2, text);
    const char *const address[] = {text[0], text[1]};
    assert_int_equal(socket_transport(0, 2, address, 50, &t), TG_E_PEER);
    assert_non_null(strstr(tg_error(), "rank 1"));
    assert_int_equal(socket_transport(1, 2, address, 50, &t), TG_E_PEER);
    assert_non_null(strstr(tg_error(), "rank 0"));
    const char *const wrong[] = {"nowhere"};
    assert_int_equal(socket_transport(0, 1, wrong, 50, &t), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "nowhere"));
    assert_int_equal(socket_transport(2, 2, address, 50, &t), TG_E_ARG);
    assert_null(t);
}

/* A stranger that connects is turned away, and is not mistaken for a rank. */
static void strangers_are_turned_away(void **state)
{
    (void)state;
    char text[2][32];
    find_ports(2, text);
    const char *const address[] = {text[0], text[1]};
    worker first = {.rank = 0, .size = 2, .address = address},
           second = {.rank = 1, .size = 2, .address = address};
    assert_int_equal(pthread_create(&first.thread, NULL, work, &first), 0);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strchr(text[0], ':') + 1))};
    int fd = -1;
    for (int tries = 0; tries < 1000; tries++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&in, sizeof in) == 0)
            break;
        close(fd);
        fd = -1;
        usleep(1000);
    }
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    assert_int_equal(pthread_create(&second.thread, NULL, work, &second), 0);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    close(fd);
    if (!first.ok || !second.ok)
        fail_msg("%s %s", first.error, second.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_sockets),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(strangers_are_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
