/* Rounds: what one worker may do to others, and logs that are read after it; the server dies after
 * each message. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "round_world.h"

/* A message, or with n = 0: time passes, or the connection of the seat is cut. One each time the
 * server waits. */
typedef struct script {
    const message *m;
    size_t count, at;
} script;

static answer told[SEATS]; /* what was answered last */

static bool next_line(void *arg)
{
    script *p = arg;
    for (int i = 0; i < SEATS; i++)
        if (world.seat[i].ngot > 0)
            told[i] = world.seat[i].got[world.seat[i].ngot - 1];
    if (p->at == p->count)
        return false;
    const message *m = &p->m[p->at++];
    message out = *m;
    out.first = m->number <= 4;
    if (m->n > 0)
        say(&out);
    else if (m->wait_ms > 0)
        world.now_ns += 1000000 * m->wait_ms;
    else
        world.seat[m->seat].gone = true;
    return true;
}

#define PARAMETERS(s, w, i, b)                                                       \
    {                                                                                \
        .seat = s, .worker = w, .number = i, .parameters = true, .bucket = b, .n = N \
    }
#define GRADIENT(s, w, i, at, b, v)                                                      \
    {                                                                                    \
        .seat = s, .worker = w, .number = i, .step = at, .bucket = b, .n = N, .value = v \
    }
#define SLICE(s, w, i, from, count, v)                                             \
    {                                                                              \
        .seat = s, .worker = w, .number = i, .begin = from, .n = count, .value = v \
    }
#define PART(s, w, i, at, from, v)                                                            \
    {                                                                                         \
        .seat = s, .worker = w, .number = i, .step = at, .begin = from, .n = HALF, .value = v \
    }
#define WAIT(ms)      \
    {                 \
        .wait_ms = ms \
    }
#define CUT(s)    \
    {             \
        .seat = s \
    }

/* Run the script; then read the journal, and run the rest of it on the server that has read it. */
static tg_server *play(how *h, const char *codec, const message *m, size_t count, size_t dies_at)
{
    char folder[] = "/tmp/tg-round-XXXXXX";
    assert_non_null(mkdtemp(folder));
    memset(&world, 0, sizeof world);
    world.codec = codec;
    h->journal = folder;
    tg_server *s = create(h);
    run(s, next_line, &(script){m, dies_at, 0});
    tg_server *after = create(h);
    compare(s, after);
    tg_server_destroy(s);
    run(after, next_line, &(script){m + dies_at, count - dies_at, 0});
    tg_server *last = create(h);
    compare(after, last);
    tg_server_destroy(last);
    remove_folder(folder);
    return after;
}

static float value_of(const tg_server *s, int bucket, size_t i)
{
    return tg__region_find(s->regions, &(tg__envelope){.channel = 1, .bucket = (uint16_t)bucket})
        ->w[i];
}

/* Worker 1's gradient waits, then another takes its seat. */
static const message seat_taken[] = {
    PARAMETERS(0, 1, 1, 0), PARAMETERS(1, 2, 1, 0),     GRADIENT(0, 1, 2, 0, 0, 8), CUT(0),
    PARAMETERS(0, 3, 1, 0), GRADIENT(1, 2, 2, 0, 0, 2), GRADIENT(0, 3, 2, 0, 0, 4)};

/* Worker 2's gradient is not cut as that of worker 1. */
static const message other_cut[] = {PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),
                                    GRADIENT(0, 1, 2, 0, 0, 2), SLICE(1, 2, 2, 0, HALF, 5),
                                    PARAMETERS(1, 3, 1, 0),     GRADIENT(1, 3, 2, 0, 0, 4),
                                    GRADIENT(0, 1, 3, 1, 0, 1)};

/* Worker 3 was told a later step by another server, so the others need not wait for it. */
static const message later_step[] = {PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),
                                     PARAMETERS(2, 3, 1, 0),     GRADIENT(0, 1, 2, 0, 0, 2),
                                     GRADIENT(1, 2, 2, 0, 0, 4), GRADIENT(2, 3, 2, 1, 0, 9)};

/* The same in step 1, after snapshots. */
static const message later_still[] = {
    PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),     GRADIENT(0, 1, 2, 0, 0, 1),
    GRADIENT(1, 2, 2, 0, 0, 1), PARAMETERS(2, 3, 1, 0),     GRADIENT(2, 3, 2, 2, 0, 9),
    GRADIENT(0, 1, 3, 1, 0, 1), GRADIENT(1, 2, 3, 1, 0, 3), GRADIENT(0, 1, 4, 2, 0, 9)};

/* A new worker sends a gradient, of a step that is over, without having asked for parameters. */
static const message no_parameters[] = {PARAMETERS(0, 1, 1, 0),     GRADIENT(0, 1, 2, 0, 0, 1),
                                        GRADIENT(0, 1, 3, 1, 0, 2), GRADIENT(1, 2, 1, 0, 0, 8),
                                        GRADIENT(0, 1, 4, 2, 0, 4), GRADIENT(2, 0, 0, 0, 0, 8)};

/* Worker 1 cuts its gradients as no other does, and has a rate of its own. */
static const message own_cuts[] = {
    PARAMETERS(0, 1, 1, 0),
    PARAMETERS(1, 2, 1, 0),
    PARAMETERS(2, 3, 1, 0),
    SLICE(0, 1, 2, 1, N - 1, 100),
    SLICE(0, 1, 3, 0, 1, 100),
    GRADIENT(1, 2, 2, 0, 0, 2),
    GRADIENT(2, 3, 2, 0, 0, 4),
    GRADIENT(1, 2, 3, 1, 0, 1),
    GRADIENT(2, 3, 3, 1, 0, 1),
    {.seat = 0, .worker = 1, .number = 4, .step = 1, .n = N, .value = 1, .rate = 1e6}};

/* All leave while a gradient waits; those who come have other settings. */
static const message all_left[] = {
    PARAMETERS(0, 0, 0, 0),    GRADIENT(0, 0, 0, 0, 0, 8), CUT(0),
    PARAMETERS(1, 2, 1, 0),    PARAMETERS(2, 3, 1, 0),     SLICE(1, 2, 2, 0, HALF, 2),
    SLICE(2, 3, 2, 0, HALF, 4)};

/* What comes again is not what came first. */
static const message other_again[] = {PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),
                                      SLICE(0, 1, 2, 0, HALF, 2), CUT(0),
                                      SLICE(0, 1, 2, 0, N, 9),    SLICE(1, 2, 2, 0, HALF, 4)};
static const message changed_again[] = {PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),
                                        SLICE(0, 1, 2, 0, HALF, 2), CUT(0),
                                        SLICE(0, 1, 2, 0, HALF, 9), SLICE(1, 2, 2, 0, HALF, 4)};

/* One that counts anew does not wait for one that is away. */
static const message anew[] = {
    PARAMETERS(0, 1, 1, 0),
    GRADIENT(0, 1, 2, 0, 0, 1),
    GRADIENT(0, 1, 3, 1, 0, 1),
    CUT(0),
    {.seat = 1, .worker = 2, .number = 1, .parameters = true, .n = N, .anew = true},
    GRADIENT(1, 2, 2, 0, 0, 1),
    GRADIENT(0, 1, 4, 2, 0, 9)};

/* Worker 1 is away while bucket 0 comes: it has not gone. */
static const message away[] = {
    PARAMETERS(0, 1, 1, 1),    PARAMETERS(1, 2, 1, 1),     CUT(0),
    PARAMETERS(1, 2, 2, 0),    GRADIENT(1, 2, 3, 0, 0, 2), PARAMETERS(0, 1, 2, 0),
    GRADIENT(0, 1, 3, 0, 0, 4)};

/* With a deadline: worker 2 comes late, is not waited for until then, and makes the next step. */
static const message late[] = {PARAMETERS(0, 1, 1, 0),     PARAMETERS(1, 2, 1, 0),
                               GRADIENT(0, 1, 2, 0, 0, 2), WAIT(20),
                               GRADIENT(0, 1, 3, 1, 0, 4), GRADIENT(1, 2, 2, 0, 0, 100),
                               GRADIENT(0, 1, 4, 2, 0, 1), GRADIENT(1, 2, 3, 2, 0, 3)};

/* Its connection breaks before it is answered: it is late again. */
static const message late_again[] = {PARAMETERS(0, 1, 1, 0),       PARAMETERS(1, 2, 1, 0),
                                     GRADIENT(0, 1, 2, 0, 0, 2),   WAIT(20),
                                     GRADIENT(1, 2, 2, 0, 0, 100), CUT(1),
                                     GRADIENT(1, 2, 2, 0, 0, 9),   GRADIENT(0, 1, 3, 1, 0, 1),
                                     GRADIENT(1, 2, 3, 1, 0, 3)};

/* In each of three steps. */
static const message always_late[] = {PARAMETERS(0, 1, 1, 0),
                                      PARAMETERS(1, 2, 1, 0),
                                      GRADIENT(0, 1, 2, 0, 0, 1),
                                      WAIT(20),
                                      GRADIENT(1, 2, 2, 0, 0, 9),
                                      GRADIENT(0, 1, 3, 1, 0, 2),
                                      WAIT(20),
                                      GRADIENT(1, 2, 3, 1, 0, 9),
                                      GRADIENT(0, 1, 4, 2, 0, 3),
                                      WAIT(20),
                                      GRADIENT(1, 2, 4, 2, 0, 9)};

/* Two are required. The third comes when the step is over, the deadline being past. */
static const message late_third[] = {PARAMETERS(0, 1, 1, 0),
                                     PARAMETERS(1, 2, 1, 0),
                                     PARAMETERS(2, 3, 1, 0),
                                     GRADIENT(0, 1, 2, 0, 0, 2),
                                     WAIT(20),
                                     GRADIENT(1, 2, 2, 0, 0, 4),
                                     WAIT(20),
                                     GRADIENT(2, 3, 2, 0, 0, 9),
                                     GRADIENT(0, 1, 3, 1, 0, 1),
                                     GRADIENT(2, 3, 3, 1, 0, 3),
                                     GRADIENT(1, 2, 3, 1, 0, 5)};

/* A slice comes in time, the other one does not. */
static const message late_slice[] = {
    PARAMETERS(0, 1, 1, 0),    PARAMETERS(1, 2, 1, 0),    PART(0, 1, 2, 0, 0, 2),
    PART(1, 2, 2, 0, 0, 4),    PART(0, 1, 3, 0, HALF, 8), WAIT(20),
    PART(1, 2, 3, 0, HALF, 9), PART(0, 1, 4, 1, 0, 1),    PART(0, 1, 5, 1, HALF, 1),
    PART(1, 2, 4, 1, 0, 3),    PART(1, 2, 5, 1, HALF, 3)};

/* One bucket comes in time, the other one does not: the worker goes on in both. */
static const message late_bucket[] = {PARAMETERS(0, 1, 1, 1),     PARAMETERS(1, 2, 1, 1),
                                      PARAMETERS(0, 1, 2, 0),     PARAMETERS(1, 2, 2, 0),
                                      GRADIENT(0, 1, 3, 0, 1, 2), GRADIENT(1, 2, 3, 0, 1, 4),
                                      GRADIENT(0, 1, 4, 0, 0, 2), WAIT(20),
                                      GRADIENT(0, 1, 5, 1, 1, 2), WAIT(20),
                                      GRADIENT(0, 1, 6, 1, 0, 2), GRADIENT(1, 2, 4, 0, 0, 9),
                                      GRADIENT(1, 2, 5, 2, 1, 1), GRADIENT(1, 2, 6, 2, 0, 1),
                                      GRADIENT(0, 1, 7, 2, 1, 1), GRADIENT(0, 1, 8, 2, 0, 1)};

/* Another server has told worker 2 a later step, which is over here. */
static const message told_elsewhere[] = {PARAMETERS(0, 1, 1, 0),
                                         PARAMETERS(1, 2, 1, 0),
                                         GRADIENT(0, 1, 2, 0, 0, 1),
                                         WAIT(20),
                                         GRADIENT(1, 2, 2, 0, 0, 9),
                                         GRADIENT(0, 1, 3, 1, 0, 2),
                                         WAIT(20),
                                         GRADIENT(0, 1, 4, 2, 0, 3),
                                         GRADIENT(1, 2, 3, 2, 0, 9),
                                         GRADIENT(0, 1, 5, 3, 0, 1),
                                         GRADIENT(1, 2, 4, 3, 0, 3)};

/* One that is away does not come back: it is passed over at last. */
static const message stays_away[] = {PARAMETERS(0, 1, 1, 0),
                                     PARAMETERS(1, 2, 1, 0),
                                     GRADIENT(0, 1, 2, 0, 0, 2),
                                     CUT(1),
                                     WAIT(20),
                                     WAIT(200),
                                     GRADIENT(0, 1, 3, 1, 0, 1)};

/* While worker 1 is away, another one calls in its seat that the server does not know, and is sent
 * away: worker 1 is back all the same. */
static const message seat_visited[] = {
    PARAMETERS(0, 1, 1, 0),     GRADIENT(0, 1, 2, 0, 0, 8), CUT(0),
    GRADIENT(0, 2, 9, 3, 0, 5), GRADIENT(0, 1, 3, 1, 0, 1), GRADIENT(0, 1, 4, 2, 0, 4)};

/* Worker 1 is a slice ahead: it waits for worker 2, which has sent what is over, but not all. */
static const message slice_ahead[] = {PARAMETERS(0, 1, 1, 0),    PARAMETERS(1, 2, 1, 0),
                                      PART(0, 1, 2, 0, 0, 2),    PART(1, 2, 2, 0, 0, 4),
                                      PART(0, 1, 3, 0, HALF, 2), PART(0, 1, 4, 1, 0, 1),
                                      PART(1, 2, 3, 0, HALF, 4), PART(0, 1, 5, 1, HALF, 1),
                                      PART(1, 2, 4, 1, 0, 3),    PART(1, 2, 5, 1, HALF, 3)};

#define LINES(name) #name, name, TG_COUNT(name)

typedef struct played {
    const char *name;
    const message *m;
    size_t count;
    const char *mode;
    int min_workers;
    float value; /* of element 5 */
    int step;
    int64_t deadline_ms;
} played;

/* With and without coded answers, which do not change what the server has. */
static void by_hand(const played *p, bool codes, size_t i)
{
    const char *codec = !codes                      ? NULL
                        : strstr(p->mode, "median") ? "fp16"
                        : i % 2 == 0                ? "topk:density=0.25,values=f32"
                                                    : "2bit:threshold=auto";
    for (size_t k = 0; k <= 2 * p->count + 1; k++) {
        if (p->deadline_ms > 0 && (k / 2 + i) % 2 != k % 2) /* one of the two */
            continue;
        how h = {.mode = p->mode,
                 .journal_bytes = k % 2, /* 1: a snapshot whenever nothing waits */
                 .min_workers = p->min_workers,
                 .deadline_ms = p->deadline_ms};
        tg_server *s = play(&h, codec, p->m, p->count, k / 2);
        const float value = value_of(s, 0, 5);
        if (value > p->value || value < p->value || s->step != (uint64_t)p->step)
            fail_msg("%s, %s, it dies after %zu: %g in step %llu: expected %g, %d", p->name,
                     codec == NULL ? "star" : codec, k / 2, (double)value,
                     (unsigned long long)s->step, (double)p->value, p->step);
        tg_server_destroy(s);
    }
}

static void test_by_hand(void **state)
{
    static const played all[] = {{LINES(seat_taken), "sync", 0, -3, 1, 0},
                                 {LINES(other_cut), "sync", 2, -3, 1, 0},
                                 {LINES(later_step), "sync", 0, -3, 1, 0},
                                 {LINES(later_still), "sync", 0, -3, 2, 0},
                                 {LINES(no_parameters), "sync", 0, -7, 3, 0},
                                 {LINES(no_parameters), "async", 0, -7, 0, 0},
                                 {LINES(own_cuts), "sync:combine=median", 0, -4, 2, 0},
                                 {LINES(all_left), "sync", 2, -3, 1, 0},
                                 {LINES(other_again), "sync:combine=median", 0, -3, 1, 0},
                                 {LINES(changed_again), "sync", 0, -3, 1, 0},
                                 {LINES(anew), "sync", 0, -3, 1, 0},
                                 {LINES(away), "sync", 0, -3, 1, 0},
                                 {LINES(slice_ahead), "sync", 0, -5, 2, 0},
                                 {LINES(late), "sync", 0, -8, 3, 10},
                                 {LINES(late_again), "sync", 0, -4, 2, 10},
                                 {LINES(always_late), "sync", 0, -6, 3, 10},
                                 {LINES(late_third), "sync", 2, -6, 2, 10},
                                 {LINES(late_third), "sync:combine=median", 2, -6, 2, 10},
                                 {LINES(late_slice), "async:staleness=0", 0, -5, 2, 10},
                                 {LINES(late_bucket), "sync", 0, -5, 3, 10},
                                 {LINES(told_elsewhere), "sync", 0, -8, 4, 10},
                                 {LINES(stays_away), "sync", 0, -3, 2, 10},
                                 {LINES(seat_visited), "sync", 0, -13, 3, 0},
                                 {LINES(seat_visited), "sync:combine=clipped", 0, -13, 3, 0},
                                 {LINES(late), "sync:combine=clipped", 0, -4, 3, 10},
                                 {LINES(seat_visited), "async", 0, -13, 0, 0}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++)
        for (int codes = 0; codes <= (strcmp(all[i].mode, "async") != 0); codes++)
            by_hand(&all[i], codes, i);
}

/* The answer says that the gradient was late, and the step at which the worker goes on. */
static void test_late_answers(void **state)
{
    static const struct {
        const char *name;
        const message *m;
        size_t count;
        int seat, step;
        uint64_t late;
        float w; /* of element 5 */
    } all[] = {{LINES(late), 1, 0, 1, -8},
               {"late, then", late, 6, 1, 2, 1, -6},
               {LINES(always_late), 1, 3, 3, -6},
               {"late_again, then", late_again, 7, 1, 1, 1, -2},
               {LINES(late_third), 2, 0, 2, -5},
               {"late_slice, then", late_slice, 7, 1, 1, 1, -8},
               {"late_bucket, then", late_bucket, 12, 1, 2, 1, -4}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        const how h = {.mode = "sync", .deadline_ms = 10};
        tg_server_stats stats = {.struct_size = sizeof stats};
        memset(&world, 0, sizeof world);
        tg_server *s = create(&h);
        run(s, next_line, &(script){all[i].m, all[i].count, 0});
        const answer *a = &told[all[i].seat];
        assert_int_equal(tg_server_get_stats(s, &stats), TG_OK);
        if (a->told != (all[i].step > 0) || (a->told && a->step != (uint64_t)all[i].step) ||
            a->w[5] > all[i].w || a->w[5] < all[i].w || stats.late != all[i].late)
            fail_msg("%s: told %d, step %llu, parameter %g, %llu late: expected step %d, %g, %llu",
                     all[i].name, a->told, (unsigned long long)a->step, (double)a->w[5],
                     (unsigned long long)stats.late, all[i].step, (double)all[i].w,
                     (unsigned long long)all[i].late);
        tg_server_destroy(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_late_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
