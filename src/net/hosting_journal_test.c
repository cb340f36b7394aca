/* What a server keeps in its journal is what it had when it died. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>
#include "comma_locale.h"
#include "free_ports.h"
#include "net_house.h"

static void shell(const char *format, const char *a, const char *b)
{
    char command[300];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

static void spend_all(const house *h, const char *method, int from, int to)
{
    spender *p = calloc(LIVES, sizeof *p);
    pthread_t thread[LIVES];
    assert_non_null(p);
    for (int i = from; i < to; i++) {
        p[i] = (spender){.h = h, .life = i, .optimizer = h->optimizer, .method = method};
        assert_int_equal(pthread_create(&thread[i], NULL, be_spender, &p[i]), 0);
    }
    for (int i = from; i < to; i++) {
        pthread_join(thread[i], NULL);
        assert_string_equal(p[i].error, "");
    }
    free(p);
}

static long log_bytes(const char *folder)
{
    char path[80];
    struct stat info;
    snprintf(path, sizeof path, "%s/log-000000000000", folder);
    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static struct tg__snapshot_work usual;

static int set_back(void **state)
{
    (void)state;
    tg__snapshot_work = usual;
    return 0;
}

/* At any time, what is in the folder makes a server with the bits of the one that wrote it; also
 * when the folder was copied while that one ran. */
static void test_journal(void **state)
{
    static const char topk[] = "topk:density=0.02,values=f32,exchange=twoway";
    static const struct {
        const char *mode, *method, *optimizer;
        enum { NEVER, BY_BYTES, BY_WORK } snapshots; /* besides the first one */
    } cases[] = {{"async", NULL, "adam:lr=0.01", BY_WORK},
                 {"async", topk, "adam:lr=0.01", BY_WORK},
                 {"async:compensate=0.5", NULL, "sgd:lr=0.1,momentum=0.9", BY_WORK},
                 {"async", NULL, "adam:lr=0.01", BY_BYTES},
                 {"async:compensate=0.5", NULL, "sgd:lr=0.1,momentum=0.9", BY_BYTES},
                 {"async:staleness=3", NULL, "adam:lr=0.01", NEVER},
                 {"async", NULL, "sgd:lr=0.1,momentum=0.9", NEVER},
                 {"async", topk, "adam:lr=0.01", BY_BYTES},
                 {"async:staleness=3", topk, "adam:lr=0.01", NEVER},
                 {"async", "qsgd:exchange=twoway", "sgd:lr=0.1,momentum=0.9", NEVER}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *method = cases[i].method;
        house *h = calloc(1, sizeof *h), *after = calloc(1, sizeof *after);
        char folder[] = "/tmp/tg-house-XXXXXX", copy[40];
        float *w = calloc(3 * TOKENS, sizeof *w);
        assert_true(h && after && w && mkdtemp(folder));
        snprintf(copy, sizeof copy, "%s.copy", folder);
        h->shards = 1;
        h->mode = cases[i].mode;
        h->optimizer = cases[i].optimizer;
        h->journal = folder;
        h->journal_bytes = cases[i].snapshots != BY_BYTES ? 0 : method == NULL ? 20000 : 3000;
        tg__snapshot_work =
            cases[i].snapshots == BY_WORK ? (struct tg__snapshot_work){0, 0} : usual;
        house_open(h);
        spend_all(h, method, 0, SEATS);
        spend_all(h, method, SEATS, SEATS + 2);
        const long before = log_bytes(folder);
        look(h, w);
        if (cases[i].snapshots == BY_WORK)
            assert_int_equal(before, -1);
        if (cases[i].snapshots ==
            NEVER) /* one that comes adds its records, not the model that it offers */
            assert_in_range(log_bytes(folder), before + 1, before + (long)(TOKENS * sizeof *w) / 2);
        house_copy(folder, copy); /* as if the machine had died now */
        *after = (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = copy};
        house_open(after);
        for (int rank = 0; rank < SEATS; rank++) /* nobody will be back */
            assert_null(after->server[0]->regions->rank[rank].sent);
        look(after, w + TOKENS);
        assert_memory_equal(w, w + TOKENS, TOKENS * sizeof *w);
        house_close(after);
        house_close(h); /* in order: a snapshot alone is left */
        *after =
            (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = folder};
        house_open(after);
        spend_all(after, method, SEATS + 2, SEATS + 3); /* it goes on */
        look(after, w + 2 * TOKENS);
        assert_memory_not_equal(w, w + 2 * TOKENS, TOKENS * sizeof *w);
        house_close(after);
        shell("rm -r '%s' '%s'", folder, copy);
        free(w);
        free(after);
        free(h);
    }
}

/* A worker that cannot come back, and is there when a snapshot is made, offers parameters again:
 * it has made its steps for those who read the journal, too. */
static void test_second_session(void **state)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0"};
    house *h = calloc(1, sizeof *h), *after = calloc(1, sizeof *after);
    spender *p = calloc(1, sizeof *p);
    tg_session *s;
    uint32_t id;
    char folder[] = "/tmp/tg-house-XXXXXX", copy[40];
    (void)state;
    assert_true(h && after && p && mkdtemp(folder));
    snprintf(copy, sizeof copy, "%s.copy", folder);
    *h = (house){.shards = 1,
                 .mode = "sync",
                 .optimizer = config.optimizer,
                 .journal = folder,
                 .journal_bytes = 3000};
    house_open(h);
    tg_transport *t = come(h);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(spend(p, s), TG_OK);
    tg_session_destroy(s);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(one_tensor_begin(s, p->w, p->g, TOKENS, &id), TG_OK);
    house_copy(folder, copy);
    assert_int_equal(log_bytes(copy), -1); /* replaced by a snapshot */
    *after = (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = copy};
    house_open(after);
    assert_int_equal(after->server[0]->regions->rank[0].clock, TOKEN_STEPS);
    house_close(after);
    tg_session_destroy(s);
    tg_transport_destroy(t);
    house_close(h);
    shell("rm -r '%s' '%s'", folder, copy);
    free(p);
    free(after);
    free(h);
}

/* The journal cannot say what coded answers have led to, which compensation must know. */
static void test_compensated(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        house *h = calloc(1, sizeof *h);
        spender *p = calloc(1, sizeof *p);
        char folder[] = "/tmp/tg-house-XXXXXX";
        assert_true(h && p && mkdtemp(folder));
        *h = (house){.shards = 1,
                     .mode = "async:compensate=0.5",
                     .optimizer = "sgd:lr=1,momentum=0",
                     .journal = keeps ? folder : NULL};
        house_open(h);
        *p = (spender){.h = h, .method = "topk:density=0.02,values=f32,exchange=twoway"};
        be_spender(p);
        if (!strstr(p->error, keeps ? "compensates (compensate=0.5), and the journal" : ""))
            fail_msg("%s", p->error);
        assert_true(keeps || *p->error == 0);
        house_close(h);
        shell("rm -r '%s'%s", folder, "");
        free(p);
        free(h);
    }
}

static uint64_t replays, replayed;

static void on_replay(void *arg, uint64_t bytes, uint64_t all)
{
    assert_int_equal(all, *(const long *)arg);
    assert_true(replayed < bytes && bytes <= all);
    replayed = bytes;
    replays++;
}

/* A server that is asked to stop while it reads its journal leaves it as it is; it tells how far it
 * is. */
static void test_stopped(void **state)
{
    static const volatile sig_atomic_t stop = 1;
    house *h = calloc(1, sizeof *h), *after = calloc(1, sizeof *after);
    char folder[] = "/tmp/tg-house-XXXXXX", copy[40];
    float *w = calloc(2 * TOKENS, sizeof *w);
    (void)state;
    assert_true(h && after && w && mkdtemp(folder));
    snprintf(copy, sizeof copy, "%s.copy", folder);
    *h = (house){
        .shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .journal = folder};
    house_open(h);
    spend_all(h, NULL, 0, 1);
    look(h, w);
    house_copy(folder, copy); /* as if it was killed now */
    long before = log_bytes(copy);
    tg_server_config c = {.struct_size = sizeof c,
                          .stop = &stop,
                          .mode = h->mode,
                          .optimizer = h->optimizer,
                          .journal = copy,
                          .on_replay = on_replay,
                          .on_replay_arg = &before};
    assert_int_equal(try_server(&c), TG_E_STOPPED);
    assert_int_equal(replays, 0);
    assert_non_null(strstr(tg_error(), "asked to stop while it read its journal"));
    assert_int_equal(log_bytes(copy), before);
    c.stop = NULL;
    assert_int_equal(try_server(&c), TG_OK);
    assert_true(replays > 10 && replayed == (uint64_t)before);
    *after = (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = copy};
    house_open(after);
    look(after, w + TOKENS);
    assert_memory_equal(w, w + TOKENS, TOKENS * sizeof *w);
    house_close(after);
    house_close(h);
    shell("rm -r '%s' '%s'", folder, copy);
    free(w);
    free(after);
    free(h);
}

/* The folder of another server. */
static void test_journal_of_others(void **state)
{
    static const struct {
        const char *optimizer;
        int shard;
        tg_status status;
        const char *part;
    } cases[] = {{"sgd:lr=0.5,momentum=0", 0, TG_OK, ""},
                 {"sgd:lr=0.1,momentum=0", 0, TG_OK, ""}, /* the rate is the workers' */
                 {"sgd:lr=0.1,momentum=0.9", 0, TG_E_MISMATCH, "momentum=0"},
                 {"adam:lr=0.1", 0, TG_E_MISMATCH, "optimizer=adam"},
                 {"sgd:lr=0.1,momentum=0", 1, TG_E_MISMATCH, "shard=1"}};
    (void)state;
    char folder[] = "/tmp/tg-house-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tg_server_config c = {.struct_size = sizeof c,
                                    .mode = "async",
                                    .optimizer = cases[i].optimizer,
                                    .shard = cases[i].shard,
                                    .journal = folder};
        const tg_status status = try_server(&c);
        if (status != cases[i].status || (status != TG_OK && !strstr(tg_error(), cases[i].part)))
            fail_msg("%s: %s: %s", cases[i].optimizer, tg_status_name(status), tg_error());
    }
    shell("rm -r '%s'%s", folder, "");
}

/* A journal written in one locale is that of the same server in another. */
static void test_journal_in_locales(void **state)
{
    (void)state;
    char folder[] = "/tmp/tg-house-XXXXXX", other[] = "/tmp/tg-house-XXXXXX";
    assert_true(mkdtemp(folder) && mkdtemp(other));
    tg_server_config c = {.struct_size = sizeof c,
                          .mode = "async:compensate=0.04",
                          .optimizer = "sgd:lr=0.1,momentum=0.9",
                          .journal = folder};
    assert_int_equal(try_server(&c), TG_OK);
    if (comma_locale_enter()) {
        const tg_status status = try_server(&c);
        if (status != TG_OK)
            fail_msg("%s: %s", tg_status_name(status), tg_error());
        c.journal = other;
        assert_int_equal(try_server(&c), TG_OK);
        comma_locale_leave();
        assert_int_equal(try_server(&c), TG_OK);
    }
    shell("rm -r '%s' '%s'", folder, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_journal, set_back),
        cmocka_unit_test(test_second_session),
        cmocka_unit_test(test_compensated),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_journal_of_others),
        cmocka_unit_test(test_journal_in_locales),
    };
    usual = tg__snapshot_work;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
