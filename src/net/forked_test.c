/* fork(): a child that outlives a rank does not hide its end, and cannot harm it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_ranks.h"
#include "net/forked.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <telegrad/clock.h>
#include <unistd.h>

enum { SIZE = 2, FILES = 64 };

static bool fails(tg_status status)
{
    return status == TG_E_STATE && strstr(tg_error(), "forked");
}

/* In the child of a rank: whatever it calls, its other files stay open. */
static bool is_harmless(net_rank *r, const tg_keys *allow)
{
    int files[FILES];
    char byte = 0;
    bool done, ok = true;
    size_t len;
    tg_request req;
    tg_transport *other;
    tg_net_peer_info info = {.struct_size = sizeof info};
    for (int i = 0; i < FILES; i++) /* these take the numbers that were the sockets' */
        files[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    ok &= fails(r->t->ops->post_send(r->t, 1 - r->t->rank, 1, &byte, 1, &req));
    ok &= fails(r->t->ops->post_recv(r->t, 1 - r->t->rank, 1, &byte, 1, &req));
    ok &= fails(r->t->ops->test(r->t, &req, &done, &len));
    ok &= fails(r->t->ops->poll(r->t, INT64_MAX));
    ok &= fails(tg_net_peer(r->net, 1 - r->t->rank, &info));
    ok &= fails(tg_transport_tcp(r->net, &other));
    ok &= !allow || fails(tg_net_allow(r->net, allow));
    ok &= tg_net_rank(r->net) == r->t->rank && tg_net_size(r->net) == SIZE;
    r->t->ops->wake(r->t);
    tg_net_leave(r->net, "a child goes");
    tg_net_destroy(r->net);
    tg_transport_destroy(r->t);
    for (int i = 0; i < FILES; i++)
        ok &= fcntl(files[i], F_GETFD) >= 0;
    return ok;
}

/* Rank 1 as a process: it joins, has a child that stays until `stay` ends, waits for rank 0's byte,
 * and dies. The child tells in `told` whether it could do no harm. */
static void die_before_the_child(net_rank *r, const int stay[2], const int told[2])
{
    char byte = 0, verdict = 'n';
    suite s = {r->t, r->error};
    size_t len;
    tg_request req;
    close(stay[1]);
    if (!net_rank_join(r))
        _exit(1);
    s.t = r->t;
    const pid_t child = fork();
    if (child == 0) {
        if (is_harmless(r, NULL))
            verdict = 'y';
        (void)!write(told[1], &verdict, 1);
        close(told[1]);
        (void)!read(stay[0], &byte, 1);
        _exit(0);
    }
    if (child > 0 && suite_recv(&s, 0, 7, &byte, 1, &req) == TG_OK)
        (void)suite_wait(&s, &req, &len);
    (void)raise(SIGKILL);
}

static void dies(bool insecure)
{
    net_job job;
    int stay[2], told[2];
    char byte = 1, verdict = 'n';
    size_t len;
    tg_request sends, receives;
    net_job_begin(&job, SIZE, insecure);
    assert_int_equal(pipe2(stay, O_CLOEXEC), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    const pid_t rank = fork();
    if (rank == 0)
        die_before_the_child(&job.rank[1], stay, told);
    close(told[1]);
    net_rank *r = &job.rank[0];
    if (!net_rank_join(r))
        fail_msg("%s", r->error);
    assert_int_equal(read(told[0], &verdict, 1), 1);
    assert_int_equal(verdict, 'y');
    suite s = {r->t, r->error};
    const int64_t before = tg_now_ns(tg_clock_monotonic());
    assert_int_equal(suite_recv(&s, 1, 8, &byte, 1, &receives), TG_OK);
    assert_int_equal(suite_send(&s, 1, 7, &byte, 1, &sends), TG_OK);
    assert_int_equal(suite_wait(&s, &sends, &len), TG_OK); /* the child has disturbed nothing */
    assert_int_equal(suite_wait(&s, &receives, &len), TG_E_PEER);
    assert_true(tg_now_ns(tg_clock_monotonic()) - before < INT64_C(5000000000));
    assert_int_equal(waitpid(rank, NULL, 0), rank);
    tg_transport_destroy(r->t);
    close(stay[0]);
    close(stay[1]);
    close(told[0]);
    net_job_end(&job);
}

static void a_child_does_not_hide_a_death(void **state)
{
    (void)state;
    dies(true);
    dies(false);
}

/* A server: its child holds neither the port nor the connections. */
static void a_servers_child(void **state)
{
    (void)state;
    char port[FREE_PORTS_MAX][32], address[48];
    tg_net *net = NULL, *again = NULL;
    find_ports(1, port);
    snprintf(address, sizeof address, "tcp://%s", port[0]);
    const tg_net_serve_config c = {
        .struct_size = sizeof c, .listen = address, .workers = 2, .insecure = true};
    int stay[2], told[2];
    char verdict = 'n', byte;
    assert_int_equal(pipe2(stay, O_CLOEXEC), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    assert_int_equal(tg_net_serve(&c, &net), TG_OK);
    const pid_t child = fork();
    if (child == 0) {
        close(stay[1]);
        (void)!write(told[1], tg__net_is_foreign(net) ? "y" : "n", 1);
        (void)!read(stay[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(told[0], &verdict, 1), 1);
    assert_int_equal(verdict, 'y');
    tg_net_destroy(net);
    if (tg_net_serve(&c, &again) != TG_OK)
        fail_msg("%s", tg_error());
    tg_net_destroy(again);
    close(stay[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(stay[0]);
    close(told[0]);
    close(told[1]);
}

/* What is not on the list is not closed. */
static void other_descriptors(void **state)
{
    (void)state;
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    errno = ENOENT;
    tg__fd_close(fd);
    tg__fd_close(-1);
    assert_int_equal(errno, ENOENT);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    tg__fd_lock();
    assert_int_equal(tg__fd_keep(fd), fd);
    tg__fd_close(fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_does_not_hide_a_death),
        cmocka_unit_test(a_servers_child),
        cmocka_unit_test(other_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
