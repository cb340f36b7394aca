/* What tensors a model has: workers with another model are refused, whoever else is there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "round_world.h"
#include "server/snapshot.h"
#include "server/tensors.h"
#include <dirent.h>

#define MODEL "0 fc1.weight 4x8\n0 fc1.bias scalar\n"
#define RESHAPED "0 fc1.weight 8x4\n0 fc1.bias scalar\n" /* with as many elements */
#define SAID                                                                                     \
    "it trains another model: its tensor 1 is fc1.weight 8x4, the server has fc1.weight 4x8: a " \
    "server keeps the parameters of one model"

static tg__settings text(const char *of)
{
    return (tg__settings){of, strlen(of)};
}

static void test_differ(void **state)
{
    static const struct {
        const char *a, *b;
        size_t number;
        const char *in_a, *in_b;
    } cases[] = {
        {MODEL, RESHAPED, 1, "fc1.weight 4x8", "fc1.weight 8x4"},
        {"0 a 1\n0 b 2\n", "0 a 1\n0 c 2\n", 2, "b 2", "c 2"},
        {"0 a 1\n0 b 2\n", "0 a 1\n1 b 2\n", 2, "b 2 in bucket 0", "b 2 in bucket 1"},
        {"0 a 1\n", "0 a 1\n0 b 2\n", 2, "none", "b 2"},
        {"0 a 1\n0 b 2\n", "0 a 1\n", 2, "b 2", "none"},
        {"0 a 1\n0 b 2\n", "0 a 1", 2, "b 2", "none"},
        {"0 two words 1x2\n", "0 two words 2x1\n", 1, "two words 1x2", "two words 2x1"},
        {"0 a 1\n0 b\nrest=1\n", "0 a 1\n0 b\nrest=2\n", 0, "rest=1", "rest=2"},
        {"0 a\x1b[2J 1\n", "text", 1, "a?[2J 1", "text"},
        {"", "\n", 1, "none", "none"},
    };
    tg__tensors_unlike u;
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        for (int turned = 0; turned < 2; turned++) {
            const char *a = turned ? cases[i].b : cases[i].a, *b = turned ? cases[i].a : cases[i].b;
            assert_true(tg__tensors_differ(text(a), text(b), &u));
            assert_int_equal(u.number, cases[i].number);
            assert_string_equal(u.text[turned], cases[i].in_a);
            assert_string_equal(u.text[1 - turned], cases[i].in_b);
            assert_false(tg__tensors_differ(text(a), text(a), &u));
        }
}

/* One message each time the server waits; then it dies. */
typedef struct script {
    const message *m;
    size_t count, at;
} script;

static bool next_line(void *arg)
{
    script *p = arg;
    if (p->at == p->count)
        return false;
    const message *m = &p->m[p->at++];
    if (m->n > 0)
        say(m);
    else if (m->wait_ms > 0)
        world.now_ns += 1000000 * m->wait_ms;
    else
        world.seat[m->seat].gone = true;
    return true;
}

#define OFFER(s, w, what, is_anew)                                                        \
    {                                                                                     \
        .seat = s, .worker = w, .number = 1, .parameters = true, .n = N, .tensors = what, \
        .anew = is_anew                                                                   \
    }
#define GRADIENT(s, w, i, at)                                               \
    {                                                                       \
        .seat = s, .worker = w, .number = i, .step = at, .n = N, .value = 1 \
    }
#define CUT(s)    \
    {             \
        .seat = s \
    }

static const message trains[] = {OFFER(0, 1, MODEL, false), GRADIENT(0, 1, 2, 0),
                                 GRADIENT(0, 1, 3, 1), CUT(0)};

/* Play on a server, which dies then; expect that a worker was refused with these words; NULL: none
 * was. */
static void play(tg_server *s, const message *m, size_t count, const char *refused)
{
    world.error[0] = '\0';
    run(s, next_line, &(script){m, count, 0});
    if (refused == NULL ? world.error[0] != '\0' : strstr(world.error, refused) == NULL)
        fail_msg("said \"%s\", expected \"%s\"", world.error, refused == NULL ? "" : refused);
}

static float value_of(const tg_server *s)
{
    return s->regions->w[5];
}

/* Nobody is connected when the worker comes: to the server that has trained, to one that has read
 * the log or a snapshot; also with --anew, which changes nothing if it is refused. */
static void test_refused(void **state)
{
    static const char *const modes[] = {"async", "async:staleness=1", "sync"};
    (void)state;
    for (int k = 0; k < 12; k++) {
        char folder[] = "/tmp/tg-tensors-XXXXXX";
        const bool anew = k % 2 != 0;
        const message wrong[] = {OFFER(1, 2, RESHAPED, anew)},
                      right[] = {OFFER(2, 3, MODEL, anew),
                                 GRADIENT(2, 3, 2, anew ? 0 : 2),
                                 {.wait_ms = 200} /* for worker 1, which may be back */};
        message at_once[TG_COUNT(trains) + 1];
        memcpy(at_once, trains, sizeof trains);
        at_once[TG_COUNT(trains)] = wrong[0];
        memset(&world, 0, sizeof world);
        assert_non_null(mkdtemp(folder));
        const bool snapshots = k / 2 % 2 != 0; /* whenever nothing waits */
        const how h = {.mode = modes[k / 4], .journal = folder, .journal_bytes = snapshots};
        tg_server *s = create(&h);
        play(s, at_once, TG_COUNT(at_once), SAID);
        const uint64_t step = tg__clocks_now(s);
        assert_int_equal(step, 2);
        assert_true(value_of(s) < -1.5f && value_of(s) > -2.5f);
        tg_server_destroy(s);
        for (int again = 0; again < 2; again++) {
            s = create(&h);
            assert_int_equal(tg__tensors_of(s, 1).len, strlen(MODEL));
            play(s, wrong, 1, SAID);
            assert_int_equal(tg__clocks_now(s), 2);
            tg_server_destroy(s);
        }
        s = create(&h);
        play(s, right, TG_COUNT(right), NULL);
        assert_true(value_of(s) < -2.5f && value_of(s) > -3.5f);
        assert_int_equal(tg__clocks_now(s), anew ? 1 : 3);
        tg_server_destroy(s);
        remove_folder(folder);
    }
}

/* A worker must tell. One that has not trained yet does not settle the model. */
static void test_told(void **state)
{
    static const message nothing[] = {OFFER(0, 1, "", false)};
    static const message only_offers[] = {OFFER(0, 1, MODEL, false),
                                          CUT(0),
                                          {.wait_ms = 200},
                                          OFFER(1, 2, RESHAPED, false),
                                          GRADIENT(1, 2, 2, 0)};
    const how h = {.mode = "async"};
    (void)state;
    memset(&world, 0, sizeof world);
    tg_server *s = create(&h);
    play(s, nothing, 1, "parameters came without what their tensors are");
    tg_server_destroy(s);
    s = create(&h);
    play(s, only_offers, TG_COUNT(only_offers), NULL);
    assert_memory_equal(tg__tensors_of(s, 1).text, RESHAPED, strlen(RESHAPED));
    tg_server_destroy(s);
}

static void path_of(const char *folder, char *path, size_t room)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;
    assert_non_null(dir);
    *path = '\0';
    while ((e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, "state-", 6) == 0)
            snprintf(path, room, "%s/%.64s", folder, e->d_name);
    closedir(dir);
    assert_true(*path != '\0');
}

static tg_status read_again(const how *h)
{
    tg_server *s = NULL;
    const tg_status status = try_create(h, &s);
    tg_server_destroy(s);
    return status;
}

/* Any byte of a snapshot: it is refused by its name, and the error says how to go on. */
static void test_damaged(void **state)
{
    char folder[] = "/tmp/tg-tensors-XXXXXX", path[128];
    const how h = {.mode = "sync", .journal = folder, .journal_bytes = 1};
    bool tensors = false;
    (void)state;
    memset(&world, 0, sizeof world);
    assert_non_null(mkdtemp(folder));
    tg_server *s = create(&h);
    play(s, trains, TG_COUNT(trains), NULL);
    tg_server_destroy(s);
    path_of(folder, path, sizeof path);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    for (long at = 0;; at++) {
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        const int byte = fgetc(f);
        if (byte == EOF)
            break;
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_true(fputc(byte ^ 0x41, f) != EOF && fflush(f) == 0);
        const tg_status status = read_again(&h);
        if (status != TG_E_CORRUPT || strstr(tg_error(), path) == NULL ||
            strstr(tg_error(), "put back a copy of this folder, or begin a journal in another") ==
                NULL)
            fail_msg("byte %ld: %s: %s", at, tg_status_name(status), tg_error());
        tensors = tensors || strstr(tg_error(), "checksum of \"tensors 1\" is wrong") != NULL;
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_true(fputc(byte, f) != EOF && fflush(f) == 0);
    }
    fclose(f);
    assert_true(tensors);
    assert_int_equal(read_again(&h), TG_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_again(&h), TG_E_CORRUPT);
    assert_non_null(
        strstr(tg_error(), "but not the snapshot that it follows; a log is of no use "));
    assert_non_null(strstr(tg_error(), "put back a copy of this folder"));
    remove_folder(folder);
}

/* A whole snapshot, without the text, or with one that is longer than any worker's. */
static void test_wrong_text(void **state)
{
    char folder[] = "/tmp/tg-tensors-XXXXXX";
    const how h = {.mode = "async", .journal = folder};
    const size_t len = TG__STAR_TENSORS_MOST + 1;
    (void)state;
    memset(&world, 0, sizeof world);
    assert_non_null(mkdtemp(folder));
    tg_server *s = create(&h);
    play(s, trains, TG_COUNT(trains), NULL);
    tg_server_destroy(s);
    s = create(&h);
    tg__tensors_forget(s);
    assert_int_equal(tg__snapshot_write(s, s->journal.number + 1), TG_OK);
    tg_server_destroy(s);
    assert_int_equal(read_again(&h), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "tensors 1"));
    remove_folder(folder);
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/tg-tensors-XXXXXX")));
    memset(&world, 0, sizeof world);
    s = create(&h);
    play(s, trains, TG_COUNT(trains), NULL);
    tg_server_destroy(s);
    s = create(&h);
    tg__tensors_forget(s);
    assert_int_equal(tg_alloc(1, sizeof *s->tensors + len, &s->tensors), TG_OK);
    s->tensors->channel = 1;
    s->tensors->len = len;
    assert_int_equal(tg__snapshot_write(s, s->journal.number + 1), TG_OK);
    tg_server_destroy(s);
    assert_int_equal(read_again(&h), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "snapshot: tensors 1 takes 65537 bytes"));
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differ), cmocka_unit_test(test_refused), cmocka_unit_test(test_told),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_wrong_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
