/* Workers come, leave, break off and come back at random, and the server dies at random. All who
 * make a step have the same parameters after it; without changes, those of a job in which nothing
 * happens. Where they make steps one by one, each has what the server believes it to have, and each
 * gradient is applied once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "round_world.h"

/* A worker: it sends both buckets, in slices, and takes the next step once all are answered. */
enum state { NOT_THERE, JOINS, TRAINS };
enum { PARTS = BUCKETS * SLICES, STEPS = 4000 };

typedef struct member {
    enum state state;
    uint32_t worker;
    uint64_t number[PARTS], last; /* of the message about a part; 0: not sent. The last one's */
    uint64_t step;
    int sent, sliced;  /* parts that were sent; 1: one at a time */
    bool away, leaves; /* its connection is cut; for good */
    bool later;
    bool answered[PARTS];
    uint64_t begun; /* its first step */
    uint64_t told;  /* the step at which it goes on, because it was late */
    bool back;      /* in this step */
    /* with coded answers: the bucket's first gradient that told the coding; what it has, and its
     * number */
    uint64_t first[BUCKETS], has[BUCKETS];
    float have[BUCKETS][N];
} member;

static struct sim {
    uint64_t seed;
    member at[SEATS];
    uint32_t workers;      /* that have come */
    int turns, quiet;      /* that are left; since the last step */
    bool changes;          /* workers come and leave */
    float w[STEPS][PARTS]; /* what all were answered after a step */
    bool known[STEPS][PARTS];
    unsigned took[STEPS][PARTS]; /* bits of the seats whose gradients were not late */
    bool deadline, apart;
    uint64_t most;              /* steps */
    float v[STEPS][BUCKETS][N]; /* with coded answers: what all have after a step */
    uint64_t changes_of[SEATS]; /* answers that were coded */
} sim;

static unsigned draw(unsigned below)
{
    sim.seed = sim.seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(sim.seed >> 33) % below;
}

/* The gradient of a part: the same whenever it is sent. */
static float gradient(int rank, uint64_t step, int part)
{
    return (float)((step * 7 + (uint64_t)part * 3 + (uint64_t)rank * 5) % 16) - 7.5F;
}

/* Whether a message is about a whole bucket: parameters, and gradients whose answers are coded.
 * Some steps are dense. */
static bool is_whole(const member *m)
{
    return m->state == JOINS || (world.codec != NULL && m->step % 3 != 2);
}

static void send_part(int i, int part)
{
    member *m = &sim.at[i];
    message out = {.seat = i, .worker = m->worker, .step = m->step, .bucket = part / SLICES};
    const bool whole = is_whole(m);
    out.parameters = m->state == JOINS;
    out.begin = whole ? 0 : HALF * (size_t)(part % SLICES);
    out.n = whole ? N : HALF;
    out.value = out.parameters ? 0 : gradient(i, m->step, part);
    if (m->number[part] == 0)
        m->number[part] = ++m->last;
    out.number = m->number[part];
    if (whole && m->state == TRAINS && m->first[out.bucket] == 0)
        m->first[out.bucket] = out.number;
    out.first = out.number == m->first[out.bucket];
    say(&out);
}

static void begin_step(member *m)
{
    memset(m->number, 0, sizeof m->number);
    memset(m->answered, 0, sizeof m->answered);
    m->sent = 0;
    m->back = false;
}

/* The worker takes what it is answered. */
static void take(int i, int part, const answer *a)
{
    member *m = &sim.at[i];
    const int b = part / SLICES;
    float *have = m->have[b];
    if (a->holds == TG__STAR_CHANGE) {
        assert_true(m->has[b] == 0 || a->number == m->has[b] + 1);
        tg__frame_decode_add(a->frame, a->len, have, NULL);
        sim.changes_of[i]++;
    } else if (is_whole(m)) {
        memcpy(have, a->w, sizeof a->w);
    } else {
        memcpy(have + HALF * (part % SLICES), a->w, HALF * sizeof *have);
    }
    m->has[b] = a->holds == 0 ? m->has[b] : a->number;
    if (m->state == JOINS)
        m->has[b] = 0;
}

/* All who made a step whose answers are coded have the same bits, in the whole bucket. */
static void check_coded(int i, int part)
{
    const member *m = &sim.at[i];
    float *v = sim.v[m->step][part / SLICES];
    const float *have = m->have[part / SLICES];
    if (sim.known[m->step][part] && memcmp(v, have, N * sizeof *v) != 0)
        fail_msg("seat %d, step %llu, part %d: other bits", i, (unsigned long long)m->step, part);
    sim.known[m->step][part] = true;
    memcpy(v, have, N * sizeof *v);
}

/* What the server believes a worker to have, it has. */
static void check_has(int i)
{
    const member *m = &sim.at[i];
    const tg_server *s = world.s;
    if (!s->in[i].met || s->in[i].worker != m->worker || m->away || m->state == NOT_THERE)
        return;
    for (const tg__gathering *g = s->active; g != NULL; g = g->link)
        if (g->only == i)
            return;
    for (const tg__region *r = s->regions; r != NULL; r = r->next) {
        const tg__sent *of = tg__region_sent(r, i);
        if (r->rank[i].has == UINT64_MAX &&
            memcmp(m->have[r->bucket], of == NULL ? r->w : of->v, N * sizeof *r->w) != 0)
            fail_msg("seat %d, bucket %u: it has something else", i, r->bucket);
    }
}

/* An answer to part `part` of a step: all who made that step have the same. */
static void check_answer(int i, int part, const answer *a)
{
    member *m = &sim.at[i];
    assert_true(m->step < STEPS);
    if (sim.apart) {
        assert_true(!a->told);
        return;
    }
    if (a->told) {
        assert_true(a->step > m->step);
        assert_true((sim.took[m->step][part] >> i & 1) == 0);
        m->told = TG__MAX(m->told, a->step);
        return;
    }
    sim.took[m->step][part] |= 1U << i;
    if (sim.deadline && m->back) /* the others may have gone on since */
        return;
    if (is_whole(m)) {
        if (!sim.deadline || a->holds == TG__STAR_CHANGE) /* else likewise */
            check_coded(i, part);
        return;
    }
    if (sim.known[m->step][part] && memcmp(&sim.w[m->step][part], a->w, sizeof(float)) != 0)
        fail_msg("seat %d, step %llu, part %d: %g, others have %g", i, (unsigned long long)m->step,
                 part, (double)a->w[0], (double)sim.w[m->step][part]);
    sim.known[m->step][part] = true;
    sim.w[m->step][part] = a->w[0];
}

static void take_answers(int i)
{
    seat *s = &world.seat[i];
    member *m = &sim.at[i];
    const int step_of = is_whole(m) ? SLICES : 1;
    for (size_t k = 0; k < s->ngot; k++)
        for (int part = 0; part < PARTS; part += step_of) {
            const size_t begin = is_whole(m) ? 0 : HALF * (size_t)(part % SLICES);
            if (tg__answer_tag(tag_of(part / SLICES, begin)) != s->got[k].tag)
                continue;
            assert_true(m->number[part] > 0);
            if (!m->answered[part])
                take(i, part, &s->got[k]);
            if (m->state == TRAINS && !m->answered[part])
                check_answer(i, part, &s->got[k]);
            if (m->state == JOINS)
                m->step = TG__MAX(m->step, s->got[k].step);
            m->answered[part] = true;
        }
    s->ngot = 0;
}

/* The worker of a seat does something. */
static void move(int i)
{
    member *m = &sim.at[i];
    int step_of = is_whole(m) ? SLICES : 1;
    bool all = m->sent == PARTS;
    for (int part = 0; part < m->sent; part += step_of)
        all = all && m->answered[part];
    if (all)
        m->step += m->state == TRAINS ? 1 : m->later;
    if (all)
        m->step = TG__MAX(m->step, m->told);
    if (all) {
        sim.most = TG__MAX(sim.most, m->step);
        m->begun = m->state == JOINS ? m->step : m->begun;
        m->state = TRAINS;
        begin_step(m);
        step_of = is_whole(m) ? SLICES : 1;
    }
    if (m->sent == PARTS || (m->sliced && m->sent > 0 && !m->answered[m->sent - step_of]))
        return;
    send_part(i, m->sent);
    m->sent += step_of;
}

/* A new worker may have been told a later step by another server. */
static void come_first(int i)
{
    sim.at[i] = (member){.state = JOINS,
                         .worker = ++sim.workers,
                         .step = 0,
                         .later = sim.changes && draw(3) == 0,
                         .sliced = (int)draw(2)};
}

static void come_back(int i)
{
    member *m = &sim.at[i];
    m->away = false;
    m->back = true;
    for (uint64_t number = 1; number <= m->last; number++)
        for (int part = 0; part < PARTS; part++)
            if (m->number[part] == number && !m->answered[part])
                send_part(i, part);
}

static int count_members(void)
{
    int count = 0;
    for (int i = 0; i < SEATS; i++)
        count += sim.at[i].state != NOT_THERE;
    return count;
}

static void act(int i)
{
    seat *s = &world.seat[i];
    member *m = &sim.at[i];
    if (s->gone)
        return;
    if (m->leaves)
        *m = (member){.state = NOT_THERE};
    if (m->state == NOT_THERE) {
        if (sim.changes ? draw(20) == 0 : sim.workers == (uint32_t)i)
            come_first(i);
    } else if (m->away) {
        if (draw(4) == 0)
            come_back(i);
    } else if (draw(40) == 0 && m->last > 0) {
        m->away = s->gone = true;
    } else if (sim.changes && draw(80) == 0 && m->last > 0 && count_members() > 1) {
        m->leaves = s->gone = true;
        s->returns = s->dropped = false;
    } else {
        move(i);
    }
}

static bool turn(void *arg)
{
    const uint64_t most = sim.most;
    (void)arg;
    for (int i = 0; i < SEATS; i++) {
        if (world.seat[i].expelled)
            fail_msg("seat %d is expelled: %s", i, world.error);
        take_answers(i);
        check_has(i);
    }
    if (sim.deadline && draw(30) == 0)
        world.now_ns += 2000000;
    act((int)draw(SEATS));
    sim.quiet = sim.most > most ? 0 : sim.quiet + 1;
    if (sim.quiet > 3000)
        fail_msg("nothing has happened for long in step %llu", (unsigned long long)most);
    if (draw(300) == 0)
        world.dies_in = 1 + (long)draw(40);
    return --sim.turns > 0 && draw(300) > 0;
}

/* Without changes: each gradient was applied once, and all in each step. */
static void check_steps(void)
{
    for (int part = 0; part < PARTS; part++) {
        float w = 0;
        for (uint64_t step = 0; step < sim.most; step++) {
            float sum = 0;
            for (int i = 0; i < SEATS; i++)
                sum += gradient(i, step, part) / SEATS;
            w -= sum;
            assert_true(sim.known[step][part]);
            assert_float_equal(sim.w[step][part], w, 0);
        }
    }
}

/* The same of a server whose answers are coded. */
static void check_sums(const tg_server *s)
{
    for (int part = 0; part < PARTS; part++) {
        const tg__region *r = s->regions;
        while (r->bucket != part / SLICES)
            r = r->next;
        float w = 0;
        for (uint64_t step = 0; step < r->ended[part % SLICES]; step++) {
            float sum = 0;
            for (int i = 0; i < SEATS; i++)
                sum += gradient(i, step, part - part % SLICES * (step % 3 != 2)) / SEATS;
            w -= sum;
        }
        assert_float_equal(r->w[HALF * (part % SLICES)], w, 0);
    }
}

/* Without changes, where each gradient is an update: each that the server has taken was applied
 * once. */
static void check_each(const tg_server *s)
{
    for (int part = 0; part < PARTS; part++) {
        const tg__region *r = s->regions;
        while (r->bucket != part / SLICES)
            r = r->next;
        float w = 0;
        for (int i = 0; i < SEATS; i++) {
            const member *m = &sim.at[i];
            for (uint64_t step = m->begun; m->state == TRAINS && step <= m->step; step++) {
                const bool whole = world.codec != NULL && step % 3 != 2;
                const int of = part - (whole ? part % SLICES : 0);
                if (step < m->step || (m->number[of] > 0 && m->number[of] <= s->in[i].number))
                    w -= gradient(i, step, of);
            }
        }
        assert_float_equal(r->w[HALF * (part % SLICES)], w, 0);
    }
}

/* With a deadline, without changes: each step took the gradients that were not late, once. Of the
 * last steps, some answers are still to come. */
static void check_late(void)
{
    int fewer = 0;
    for (int part = 0; part < PARTS; part++)
        for (uint64_t step = 1; step + 8 < sim.most; step++) {
            float sum = 0;
            int count = 0;
            for (int i = 0; i < SEATS; i++)
                if (sim.took[step][part] >> i & 1) {
                    sum += gradient(i, step, part);
                    count++;
                }
            fewer += count < SEATS;
            assert_true(count >= 2);
            if (sim.known[step][part] && sim.known[step - 1][part])
                assert_float_equal(sim.w[step][part], sim.w[step - 1][part] - sum / (float)count,
                                   1e-3);
        }
    assert_true(fewer > 0);
}

/* mode  NULL: one in which steps take the gradients of all */
static void play_at_random(uint64_t seed, int turns, const char *mode, const char *codec)
{
    char folder[] = "/tmp/tg-round-XXXXXX";
    assert_non_null(mkdtemp(folder));
    memset(&world, 0, sizeof world);
    world.codec = codec;
    memset(&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.turns = turns;
    sim.changes = seed % 2 == 1;
    sim.apart = mode != NULL;
    sim.deadline = !sim.apart && seed % 4 < 2;
    const how h = {.mode = sim.apart       ? mode
                           : seed % 3 == 2 ? "async:staleness=0"
                                           : "sync",
                   .journal = folder,
                   .journal_bytes = seed % 5 == 0 ? 1 : 4000,
                   .min_workers = sim.apart      ? 0
                                  : sim.changes  ? (int)draw(2)
                                  : sim.deadline ? 2
                                                 : SEATS,
                   .deadline_ms = sim.deadline};
    tg_server *s = create(&h);
    while (sim.turns > 0) {
        world.dies_in = 0;
        run(s, turn, NULL);
        tg_server *after = create(&h);
        if (world.status == TG_E_STOPPED) /* nothing was going on */
            compare(s, after);
        tg_server_destroy(s);
        s = after;
        for (int i = 0; i < SEATS; i++) {
            member *m = &sim.at[i];
            if (m->leaves && world.seat[i].dropped)
                *m = (member){.state = NOT_THERE};
            m->away = world.seat[i].returns = m->state != NOT_THERE;
            m->leaves = false;
        }
    }
    if (sim.apart && !sim.changes)
        check_each(s);
    else if (codec != NULL && !sim.apart && !sim.changes && !sim.deadline)
        check_sums(s);
    else if (codec != NULL)
        assert_true(sim.changes_of[0] + sim.changes_of[1] > 5);
    else if (!sim.changes && sim.deadline)
        check_late();
    else if (!sim.changes)
        check_steps();
    if (sim.apart && codec != NULL)
        assert_true(sim.changes_of[0] + sim.changes_of[1] > 5);
    assert_true(sim.most > 5);
    tg_server_destroy(s);
    remove_folder(folder);
}

/* More of it: TELEGRAD_SEED is the first of TELEGRAD_SEEDS seeds. */
static void test_at_random(void **state)
{
    const char *from = getenv("TELEGRAD_SEED"), *count = getenv("TELEGRAD_SEEDS");
    const uint64_t first = from == NULL ? 1 : strtoull(from, NULL, 10),
                   seeds = count == NULL ? 4 : strtoull(count, NULL, 10);
    (void)state;
    if (count ==
        NULL) { /* an answer that waited for the disk while the next round ended; rounds that
                            ended in another order */
        play_at_random(32, 6000, NULL, NULL);
        play_at_random(16, 6000, NULL, NULL);
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        const int turns = count == NULL ? 1000 : 6000;
        const char *quantizer = seed % 2 == 0 ? "2bit:threshold=auto" : "qsgd:bits=4";
        play_at_random(seed, turns, NULL, NULL);
        play_at_random(seed, turns, NULL, "topk:density=0.1,values=f32");
        play_at_random(seed, turns, NULL, quantizer);
        play_at_random(seed, turns, "async", NULL);
        play_at_random(seed, turns, "async", "topk:density=0.1,values=f32");
        play_at_random(seed, turns, "async:staleness=2", "topk:density=0.1,values=f32");
        play_at_random(seed, turns, seed % 4 < 2 ? "async" : "async:staleness=1", quantizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
