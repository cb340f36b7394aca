/* A server without memory for one that calls refuses that one, and goes on. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_house.h"
#include "net_ranks.h"

static atomic_size_t lacks; /* one allocation of so many bytes fails; 0: none */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    size_t wanted = bytes;
    return bytes > 0 && atomic_compare_exchange_strong(&lacks, &wanted, 0) ? NULL
                                                                           : __real_malloc(bytes);
}

static void open_house(house *h, bool secure)
{
    *h =
        (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .secure = secure};
    house_open(h);
}

/* Memory for the connection. A stranger has greeted; then a worker comes. */
static void test_greeting(void **state)
{
    (void)state;
    for (int secure = 0; secure < 2; secure++) {
        house *h = calloc(1, sizeof *h);
        assert_non_null(h);
        open_house(h, secure == 1);
        const int fd = net_connect(h->address[0]);
        atomic_store(&lacks, TG__STREAM_OUT);
        assert_int_equal(send(fd, secure ? "\26\3\1\0\1\1" : "tgnet\1", 6, MSG_NOSIGNAL), 6);
        await_event(h, "a call from 127.0.0.1 failed: this rank is out of memory");
        assert_true(hand_is_closed(fd, 2));
        close(fd);
        tg_transport_destroy(come(h));
        house_close(h);
        free(h);
    }
}

/* Memory for the answer. The worker learns of it, and calls again. */
static void test_seat(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    open_house(h, true);
    atomic_store(&lacks, TG__CALLER_HEAD + 10); /* SEAT, without a text */
    tg_transport *t = come(h);
    await_event(h, "failed: out of memory: message of 10 bytes");
    assert_int_equal(t->seat, 0);
    tg_transport_destroy(t);
    house_close(h);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_seat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
