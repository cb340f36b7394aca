/* Joining by a list of all addresses and keys, and by a store of the caller's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "telegrad/tools.h"
#include "transport_suite.h"
#include "transport_tools.h"

static void *run_suite(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    r->ok = suite_run(r->t, r->error);
    tg_transport_destroy(r->t);
    return NULL;
}

/* ---- a list ---------------------------------------------------------------------------------- */

typedef struct listed {
    net_job job;
    char port[FREE_PORTS_MAX][32], address[NET_RANKS_MAX][48], key[NET_RANKS_MAX][TG_KEY_TEXT];
    const char *addresses[NET_RANKS_MAX], *keys[NET_RANKS_MAX];
} listed;

static void list_begin(listed *l, int size, bool insecure)
{
    net_job_begin(&l->job, size, insecure);
    find_ports(size, l->port);
    for (int r = 0; r < size; r++) {
        snprintf(l->address[r], sizeof l->address[r], "tcp://%s", l->port[r]);
        l->addresses[r] = l->address[r];
        if (!insecure)
            tg_key_text(l->job.key[r], l->key[r]);
        l->keys[r] = l->key[r];
        tg_net_config *c = &l->job.rank[r].config;
        c->listen = c->join = c->peer_key = NULL;
        c->allow = NULL;
        c->addresses = l->addresses;
        c->public_keys = insecure ? NULL : l->keys;
    }
}

static void all_know_all(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        listed l;
        list_begin(&l, 4, insecure);
        net_job_run(&l.job, run_suite);
        net_job_check(&l.job);
        net_job_end(&l.job);
    }
}

static void one_alone_on_a_list(void **state)
{
    (void)state;
    listed l;
    list_begin(&l, 1, true);
    net_job_run(&l.job, net_rank_passes);
    net_job_check(&l.job);
    net_job_end(&l.job);
}

/* Rank 2 holds rank 1's key: it is not let in as rank 2. */
static void keys_belong_to_ranks(void **state)
{
    (void)state;
    listed l;
    list_begin(&l, 3, false);
    char swapped[TG_KEY_TEXT];
    const char *other[] = {l.key[0], l.key[2], swapped};
    memcpy(swapped, l.key[1], sizeof swapped);
    l.job.rank[2].config.key = l.job.key[1];
    l.job.rank[2].config.public_keys = other;
    for (int r = 0; r < 3; r++)
        l.job.rank[r].config.timeout_s = r == 0 ? 1.5 : 10;
    net_job_run(&l.job, net_rank_passes);
    net_expect(&l.job.rank[2], TG_E_MISMATCH, "rank 2 has another key");
    net_expect(&l.job.rank[0], TG_E_PEER, "rank 2 has not joined within 1.5 s");
    net_job_end(&l.job);
}

/* Rank 1's key, by hand: it asks for this rank, and is refused with this text. */
static void is_refused(const net_rank *r, const char *address, const tg_key_pair *key, int rank,
                       const char *part)
{
    hand h;
    char text[512];
    hand_call(&h, address, key);
    assert_true(hand_join(&h, rank, r->config.job ? r->config.job : "", 9));
    assert_int_equal(tg__caller_kind(&h.c), TG__SAID_REFUSED);
    tg__unpack u = {.at = h.c.body, .end = h.c.body + h.c.body_len};
    assert_int_equal(tg__unpack_number(&u, 4), TG_E_MISMATCH);
    tg__unpack_text(&u, text, sizeof text);
    if (!strstr(text, part))
        fail_msg("\"%s\"; expected: %s", text, part);
    hand_end(&h);
}

/* Whoever does not say which rank it is gets none, with a key of the list. */
static void ranks_are_named(void **state)
{
    (void)state;
    listed l;
    list_begin(&l, 3, false);
    net_rank *r = &l.job.rank[0];
    r->config.timeout_s = 1.5;
    net_rank_start(r, net_rank_passes);
    is_refused(r, l.address[0], l.job.key[1], 0, "says which it is");
    is_refused(r, l.address[0], l.job.key[1], 2, "rank 2 has another key");
    pthread_join(r->thread, NULL);
    net_expect(r, TG_E_PEER, "2 of 2 other ranks");
    net_job_end(&l.job);
}

/* Rank 0 goes by another list than rank 1: rank 1 does not accept the key that it is told of. */
static void rank_0_is_not_believed(void **state)
{
    (void)state;
    listed l;
    list_begin(&l, 3, false);
    tg_key_pair *mallory;
    char text[TG_KEY_TEXT];
    assert_int_equal(tg_key_create(&mallory), TG_OK);
    tg_key_text(mallory, text);
    const char *false_keys[] = {l.key[0], l.key[1], text};
    l.job.rank[0].config.public_keys = l.job.rank[2].config.public_keys = false_keys;
    l.job.rank[2].config.key = mallory;
    for (int r = 0; r < 3; r++)
        l.job.rank[r].config.timeout_s = 5;
    net_job_run(&l.job, net_rank_passes);
    net_expect(&l.job.rank[1], TG_E_MISMATCH, "rank 2 has another key than public_keys[2]");
    net_expect(&l.job.rank[0], TG_E_PEER, "rank 1 has left");
    tg_key_destroy(mallory);
    net_job_end(&l.job);

    /* The same with a meeting point, if a rank has a list of keys as well. */
    net_job job;
    tg_keys *two;
    char lines[2 * TG_KEY_TEXT];
    net_job_begin(&job, 3, false);
    tg_key_text(job.key[1], lines);
    assert_int_equal(tg_keys_parse(lines, &two), TG_OK);
    job.rank[1].config.allow = two;
    net_job_run(&job, net_rank_passes);
    net_expect(&job.rank[1], TG_E_MISMATCH, "the key of rank 2 is not on this rank's list: tgk1:");
    tg_keys_destroy(two);
    net_job_end(&job);
}

/* ---- a store --------------------------------------------------------------------------------- */

typedef struct store {
    pthread_mutex_t mutex;
    int count, gets;
    struct {
        char name[200], value[TG_NET_VALUE];
    } entry[16];
    bool breaks;
} store;

static tg_status store_set(void *arg, const char *name, const char *value)
{
    store *s = arg;
    pthread_mutex_lock(&s->mutex);
    int i = 0;
    while (i < s->count && strcmp(s->entry[i].name, name) != 0)
        i++;
    s->count += i == s->count;
    snprintf(s->entry[i].name, sizeof s->entry[i].name, "%s", name);
    snprintf(s->entry[i].value, sizeof s->entry[i].value, "%s", value);
    pthread_mutex_unlock(&s->mutex);
    return TG_OK;
}

static tg_status store_get(void *arg, const char *name, char *value, size_t room)
{
    store *s = arg;
    if (s->breaks)
        return tg_fail(TG_E_IO, "the store is down");
    pthread_mutex_lock(&s->mutex);
    s->gets++;
    snprintf(value, room, "%s", "");
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entry[i].name, name) == 0)
            snprintf(value, room, "%s", s->entry[i].value);
    pthread_mutex_unlock(&s->mutex);
    return TG_OK;
}

static void store_begin(net_job *job, store *s, int size, bool insecure)
{
    *s = (store){.count = 0};
    pthread_mutex_init(&s->mutex, NULL);
    net_job_begin(job, size, true); /* keys are made where none are given */
    for (int r = 0; r < size; r++) {
        tg_net_config *c = &job->rank[r].config;
        c->listen = c->join = NULL;
        c->insecure = insecure;
        c->set = store_set;
        c->get = store_get;
        c->store_arg = s;
        c->job = "of today";
    }
}

static void by_a_store(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        net_job job;
        static store s;
        store_begin(&job, &s, 4, insecure);
        net_job_run(&job, run_suite);
        net_job_check(&job);
        assert_int_equal(s.count, insecure ? 1 : 4);
        print_message("%s: \"%s\", asked %d times\n", s.entry[0].name, s.entry[0].value, s.gets);
        for (int i = 0; i < s.count; i++)
            assert_int_equal(strncmp(s.entry[i].name, "telegrad/of today/", 18), 0);
        net_job_end(&job);
    }
}

/* A port that is not known before: that of the listener is told. */
static void any_port_is_advertised(void **state)
{
    (void)state;
    net_job job;
    static store s;
    char address[TG__ADDRESS_MAX];
    store_begin(&job, &s, 3, false);
    for (int r = 0; r < 3; r++)
        job.rank[r].config.advertise = "tcp://localhost:0";
    net_job_run(&job, net_rank_passes);
    net_job_check(&job);
    for (int i = 0; i < s.count; i++)
        if (strcmp(s.entry[i].name, "telegrad/of today/0") == 0)
            snprintf(address, sizeof address, "%s", strrchr(s.entry[i].value, ' ') + 1);
    assert_int_equal(strncmp(address, "tcp://localhost:", 16), 0);
    assert_int_not_equal(atoi(address + 16), 0);
    net_job_end(&job);
}

/* What ranks of an earlier try have left behind is replaced: nobody answers at the old address, and
 * rank 1's old key is not its key any more. */
static void old_entries_do_no_harm(void **state)
{
    (void)state;
    net_job job;
    static store s;
    char old[TG_NET_VALUE], text[TG_KEY_TEXT];
    tg_key_pair *key;
    store_begin(&job, &s, 3, false);
    assert_int_equal(tg_key_create(&key), TG_OK);
    tg_key_text(key, text);
    snprintf(old, sizeof old, "%s 1234 tcp://127.0.0.1:1 tcp://nowhere.invalid:4242", text);
    assert_int_equal(store_set(&s, "telegrad/of today/0", old), TG_OK);
    assert_int_equal(store_set(&s, "telegrad/of today/1", text), TG_OK);
    for (int r = 1; r < 3; r++)
        net_rank_start(&job.rank[r], run_suite);
    usleep(500000);
    net_rank_start(&job.rank[0], run_suite);
    for (int r = 0; r < 3; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job);
    tg_key_destroy(key);
    net_job_end(&job);
}

/* Pinned keys count, whatever the store says. */
static void the_store_is_not_believed_over_keys(void **state)
{
    (void)state;
    net_job job;
    static store s;
    char text[TG_KEY_TEXT];
    tg_key_pair *right;
    tg_keys *list;
    assert_int_equal(tg_key_create(&right), TG_OK);
    tg_key_text(right, text);
    assert_int_equal(tg_keys_parse(text, &list), TG_OK);
    store_begin(&job, &s, 2, false);
    job.rank[1].config.peer_key = text;
    job.rank[0].config.timeout_s = 3;
    job.rank[1].config.timeout_s = 1;
    net_job_run(&job, net_rank_passes);
    net_expect(&job.rank[1], TG_E_PEER, "but the expected one (peer_key) is ");
    net_job_end(&job);
    store_begin(&job, &s, 2, false);
    job.rank[0].config.allow = list;
    job.rank[0].config.timeout_s = 3;
    job.rank[1].config.timeout_s = 1;
    net_job_run(&job, net_rank_passes);
    net_expect(&job.rank[1], TG_E_PEER, "does not accept this rank's key");
    net_job_end(&job);
    tg_keys_destroy(list);
    tg_key_destroy(right);
}

/* Rank 2 has not told the store its key yet: rank 1's is no key for its place. Once it has, a rank
 * that joins at once is let in, although rank 0 has not looked again. */
static void places_are_kept(void **state)
{
    (void)state;
    net_job job;
    static store s;
    tg_key_pair *key;
    hand one, two;
    char text[TG_KEY_TEXT], address[TG__ADDRESS_MAX] = "";
    store_begin(&job, &s, 3, false);
    assert_int_equal(tg_key_create(&key), TG_OK);
    tg_key_text(key, text);
    net_rank *r = &job.rank[0];
    r->config.timeout_s = 3;
    assert_int_equal(store_set(&s, "telegrad/of today/1", text), TG_OK);
    net_rank_start(r, net_rank_passes);
    for (int tries = 0; tries < 200 && !*address; tries++) {
        char value[TG_NET_VALUE];
        assert_int_equal(store_get(&s, "telegrad/of today/0", value, sizeof value), TG_OK);
        if (*value)
            snprintf(address, sizeof address, "%s", strrchr(value, ' ') + 1);
        usleep(10000);
    }
    is_refused(r, address, key, 0, "says which it is");
    is_refused(r, address, key, 2, "rank 2 has another key");
    assert_int_equal(store_set(&s, "telegrad/of today/2", text), TG_OK);
    hand_call(&two, address, key);
    hand_say_join(&two, 2, r->config.job, 9);
    assert_false(hand_hear(&two, 0.2)); /* it waits for rank 1 */
    hand_call(&one, address, key);
    assert_true(hand_join(&one, 1, r->config.job, 9));
    assert_int_equal(tg__caller_kind(&one.c), TG__SAID_ROSTER);
    hand_end(&one);
    hand_end(&two);
    pthread_join(r->thread, NULL);
    net_expect(r, TG_E_PEER, "has left");
    tg_key_destroy(key);
    net_job_end(&job);
}

static void errors_of_a_store(void **state)
{
    (void)state;
    net_job job;
    static store s;
    store_begin(&job, &s, 3, false);
    s.breaks = true;
    net_job_run(&job, net_rank_passes);
    for (int r = 0; r < 3; r++)
        net_expect(&job.rank[r], TG_E_IO, "the store is down");
    net_job_end(&job);
    store_begin(&job, &s, 3, false);
    assert_int_equal(store_set(&s, "telegrad/of today/1", "rubbish"), TG_OK);
    job.rank[0].config.timeout_s = 5;
    net_rank_start(&job.rank[0], net_rank_passes);
    pthread_join(job.rank[0].thread, NULL);
    net_expect(&job.rank[0], TG_E_CORRUPT,
               "what rank 1 has set in the store is not a public key: rubbish");
    assert_int_equal(store_set(&s, "telegrad/of today/1", "\033[2J"), TG_OK); /* for terminals */
    net_rank_start(&job.rank[0], net_rank_passes);
    pthread_join(job.rank[0].thread, NULL);
    net_expect(&job.rank[0], TG_E_CORRUPT,
               "what rank 1 has set in the store is not printable text");
    assert_int_equal(store_set(&s, "telegrad/of today/0", "rubbish"), TG_OK);
    net_rank_start(&job.rank[2], net_rank_passes);
    pthread_join(job.rank[2].thread, NULL);
    net_expect(&job.rank[2], TG_E_CORRUPT, "what rank 0 has set in the store is malformed");
    job.rank[1].config.timeout_s = 0.5;
    s.count = 0;
    net_rank_start(&job.rank[1], net_rank_passes);
    pthread_join(job.rank[1].thread, NULL);
    net_expect(&job.rank[1], TG_E_PEER, "rank 0 to tell the store");
    net_job_end(&job);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void settings_that_do_not_go_together(void **state)
{
    (void)state;
    listed l;
    static store s;
    list_begin(&l, 2, false);
    tg_net_config good = l.job.rank[1].config, c = good;
    const char *missing[] = {l.addresses[0], NULL}, *wrong[] = {l.key[0], "tgk1:short"},
               *twisted[] = {l.key[1], l.key[0]}, *nowhere[] = {l.addresses[0], "host:1"};
#define REFUSES(status, part)              \
    do {                                   \
        net_refuses(&c, (status), (part)); \
        c = good;                          \
    } while (0)
    c.join = l.addresses[0];
    REFUSES(TG_E_ARG, "join=");
    c.size = 0;
    REFUSES(TG_E_ARG, "size=0");
    c.rank = 2;
    REFUSES(TG_E_ARG, "rank=2");
    c.rank = -1;
    REFUSES(TG_E_ARG, "rank=-1");
    c.public_keys = NULL;
    REFUSES(TG_E_ARG, "public_keys is NULL");
    c.insecure = true;
    REFUSES(TG_E_ARG, "public_keys is not NULL");
    c.allow = l.job.allow;
    REFUSES(TG_E_ARG, "allow");
    c.addresses = missing;
    REFUSES(TG_E_ARG, "addresses[1] is NULL");
    c.addresses = nowhere;
    REFUSES(TG_E_SPEC, "addresses[1] \"host:1\"");
    c.public_keys = wrong;
    REFUSES(TG_E_SPEC, "public_keys[1] \"tgk1:short\"");
    c.public_keys = twisted;
    REFUSES(TG_E_ARG, "key is not that of public_keys[1]");
    c.key = NULL;
    REFUSES(TG_E_ARG, "key is NULL");
    c.set = store_set;
    c.get = store_get;
    REFUSES(TG_E_ARG, "addresses, or both set and get");
    good.addresses = good.public_keys = NULL;
    good.set = store_set;
    good.store_arg = &s;
    c = good;
    REFUSES(TG_E_ARG, "set and get");
    good.get = store_get;
    c = good;
    c.size = 0;
    REFUSES(TG_E_ARG, "size=0");
    c.public_keys = wrong;
    REFUSES(TG_E_ARG, "public_keys without addresses");
    net_job_end(&l.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_know_all),
        cmocka_unit_test(one_alone_on_a_list),
        cmocka_unit_test(keys_belong_to_ranks),
        cmocka_unit_test(ranks_are_named),
        cmocka_unit_test(rank_0_is_not_believed),
        cmocka_unit_test(by_a_store),
        cmocka_unit_test(any_port_is_advertised),
        cmocka_unit_test(old_entries_do_no_harm),
        cmocka_unit_test(the_store_is_not_believed_over_keys),
        cmocka_unit_test(places_are_kept),
        cmocka_unit_test(errors_of_a_store),
        cmocka_unit_test(settings_that_do_not_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
