/* What a server tells of workers that come and go. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_house.h"

/* Wait until a server has told these parts. */
static void await_change(house *h, const char *line)
{
    for (int ms = 0; ms < 20000; ms++) {
        pthread_mutex_lock(&h->lock);
        const bool told = strstr(h->changes, line) != NULL;
        pthread_mutex_unlock(&h->lock);
        if (told)
            return;
        usleep(1000);
    }
    fail_msg("\"%s\" was not told: %s", line, h->changes);
}

static void spend_all(const house *h, int life, bool vanishes)
{
    spender *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *p = (spender){.h = h, .life = life, .vanishes = vanishes};
    be_spender(p);
    assert_string_equal(p->error, "");
    free(p);
}

static void test_each_kind(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    tg_key_pair *stranger;
    tg_keys *others;
    tg_net *net;
    char text[TG_KEY_TEXT];
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .secure = true};
    house_open(h);
    spend_all(h, 0, false);
    await_change(h, "came|0|anna|1|\nleft|0|anna|1|\n");
    spend_all(h, 1, true);
    await_change(h, "lost|0|anna|1|it closed the connection\n");

    assert_int_equal(tg_key_create(&stranger), TG_OK);
    tg_net_attach_config c = attach_config(h);
    c.timeout_s = 5;
    c.key = stranger;
    assert_int_equal(tg_net_attach(&c, &net), TG_E_PEER);
    await_change(h, "refused|-1||1|it is not on the list of allowed keys\n");
    c = attach_config(h);
    c.job = "other";
    c.key = h->worker_key[1];
    assert_int_equal(tg_net_attach(&c, &net), TG_E_MISMATCH);
    await_change(h, "refused|-1|otto|1|job \"other\": this server is for job \"hosting\"\n");

    tg_transport *anna = come(h);
    await_change(h, "came|1|anna|1|\n"); /* seat 0 is that of one who may be back */
    tg_key_text(h->worker_key[1], text);
    assert_int_equal(tg_keys_parse(text, &others), TG_OK);
    atomic_store(&h->list, others);
    await_change(h, "dropped|1||1|its key was removed from the list of allowed keys\n");
    tg_transport_destroy(anna);
    house_close(h);
    tg_keys_destroy(others);
    tg_key_destroy(stranger);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
