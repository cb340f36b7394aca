/* One rank of three sends invalid content in valid envelopes: every exchange, codec and combine
 * ends with an error that names it, or finishes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/codec_impl.h"
#include "exchange_fixture.h"
#include "hostile_ranks.h"
#include "mutate.h"
#include "telegrad/spec.h"

enum { P = 3, HOSTILE = 1, N = 300, SEEDS = 64, FRAME_MAX = 8192 };

typedef struct scene {
    const tg__exchange_ops *x;
    const tg__combine *combine;
    const char *codec;
} scene;

typedef struct rank {
    const scene *s;
    tg_transport *t;
    tg_status status;
    char error[512];
    float result[N];
    uint16_t flags;
} rank;

static rank ranks[P];
static const tg_segment tensors[] = {{.n = 200, .rows = 10, .cols = 20},
                                     {.n = 100, .rows = 100, .cols = 1}};

static tg_status make(const scene *s, int r, tg_codec **codec_p, tg__exchange **x_p)
{
    TG_TRY(tg_codec_create(s->codec, codec_p));
    const tg_status status = tg__exchange_create(s->x, r, P, N, *codec_p, s->combine, x_p);
    if (status != TG_OK) {
        tg_codec_destroy(*codec_p);
        return status;
    }
    if (s->combine->room != NULL) {
        (*x_p)->segments = tensors;
        (*x_p)->nsegments = TG_COUNT(tensors);
        assert_int_equal(tg_alloc(s->combine->room(N, TG_COUNT(tensors), P), 1, &(*x_p)->room),
                         TG_OK);
    }
    return TG_OK;
}

static void unmake(tg_codec *codec, tg__exchange *x)
{
    free(x->room);
    tg__exchange_destroy(x);
    tg_codec_destroy(codec);
}

static tg_status go(rank *r, tg__exchange *x)
{
    tg__pump p;
    tg__flight f = {.x = x};
    tg__pump_init(&p, r->t, 5, INT64_C(60000000000));
    tg_status status = fixture_run(&p, &f, 0, r->result);
    r->flags = f.flags_in;
    (void)r->t->ops->shut(r->t);
    tg__flight_fini(&f);
    tg__pump_fini(&p);
    return status;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    tg_codec *codec;
    tg__exchange *x;
    r->status = make(r->s, r->t->rank, &codec, &x);
    if (r->status == TG_OK) {
        r->status = go(r, x);
        unmake(codec, x);
    }
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    return NULL;
}

static void run(const scene *s, mutation *m, uint64_t *sends_p)
{
    tg_transport *t[P];
    hostile_connect(P, HOSTILE, mutate, m, t);
    memset(ranks, 0, sizeof ranks);
    for (int i = 0; i < P; i++)
        ranks[i] = (rank){.s = s, .t = t[i]};
    *sends_p = hostile_run(P, HOSTILE, t, run_rank, ranks, sizeof *ranks);
}

/* Plain floats are accepted as they are, including NaN, if the codec is f32 or falls back to it; an
 * honest rank sets a flag if its gradient is not finite. Then a sum may not be finite, and no rank
 * is named. */
static bool is_explained(const rank *r)
{
    return r->status == TG_OK || strstr(r->error, "rank 1") != NULL ||
           strstr(r->error, "not finite") != NULL;
}

static void judge(const scene *s, const mutation *m, size_t *errors_p)
{
    for (int i = 0; i < P; i++) {
        const rank *r = &ranks[i], *other = &ranks[P - 1 - i];
        if (i == HOSTILE)
            continue;
        *errors_p += r->status != TG_OK;
        if (!is_explained(r) && (other->status == TG_OK || !is_explained(other)))
            fail_msg("%s, %s, %s, seed %d, message %d, kind %d, rank %d: %s; rank %d: %s",
                     s->x->entry.name, s->codec, s->combine->name, (int)m->seed, (int)m->number,
                     (int)mutation_draw(m, 0, MUTATIONS), i, r->error, P - 1 - i, other->error);
        /* Signs have no other values; where owners send sums, these are plain floats. */
        const bool signs =
            s->combine == &tg__combine_vote && strcmp(s->x->entry.name, "allgather") == 0;
        for (size_t k = 0; r->status == TG_OK && signs && k < N; k++)
            if (!(fabsf(r->result[k]) <= 1))
                fail_msg("allgather, vote, seed %d, message %d, rank %d: element %d is %g",
                         (int)m->seed, (int)m->number, i, (int)k, (double)r->result[k]);
    }
}

/* A whole frame of another codec. */
static size_t other_frame(const char *spec, uint8_t *frame)
{
    float *v = fixture_vector(HOSTILE, 0, N);
    tg_codec *codec;
    size_t len = 0;
    assert_int_equal(tg_codec_create(spec, &codec), TG_OK);
    tg__part part = {.dst = frame, .cap = FRAME_MAX, .lo = 0, .hi = N};
    const tg_encode_context ctx = {.struct_size = sizeof ctx};
    assert_int_equal(tg__codec_encode(codec, &ctx, v, N, &part, 1, NULL), TG_OK);
    len = part.len;
    tg_codec_destroy(codec);
    free(v);
    return len;
}

static void attack(const scene *s, const char *other, size_t *jobs, size_t *errors)
{
    static uint8_t frame[FRAME_MAX];
    mutation m = {.number = UINT64_MAX, .last = UINT64_MAX};
    uint64_t sends, unused;
    run(s, &m, &sends);
    for (int i = 0; i < P; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s, %s, unharmed: %s", s->x->entry.name, s->codec, ranks[i].error);
    if (sends == 0)
        return;
    const size_t len = other_frame(other, frame);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        m = (mutation){.seed = seed + 1000 * *jobs, .other = frame, .other_len = len};
        m.number = mutation_draw(&m, 100, (size_t)sends);
        m.last = mutation_draw(&m, 101, 2) == 0 ? m.number : UINT64_MAX;
        run(s, &m, &unused);
        judge(s, &m, errors);
    }
    ++*jobs;
}

static void valid_seals_hostile_content(void **state)
{
    static const tg__combine *const combines[] = {&tg__combine_mean, &tg__combine_vote,
                                                  &tg__combine_clipped, &tg__combine_max};
    const char *names[FIXTURE_EXCHANGES_MAX];
    const size_t count = fixture_exchanges(names);
    size_t codecs, jobs = 0, errors = 0;
    const tg_entry *const *codec = tg__codec_entries(&codecs);
    (void)state;
    for (size_t x = 0; x < count; x++)
        for (size_t c = 0; c < codecs; c++)
            for (size_t k = 0; k < TG_COUNT(combines); k++) {
                const bool vote = combines[k] == &tg__combine_vote;
                const bool sign = strcmp(codec[c]->name, "sign") == 0;
                const bool f32 = strcmp(codec[c]->name, "f32") == 0;
                if ((vote && !sign) || (combines[k] == &tg__combine_max && !f32) ||
                    (combines[k] == &tg__combine_clipped && strcmp(names[x], "allgather") != 0))
                    continue;
                const scene s = {tg__exchange_find(names[x]), combines[k],
                                 vote ? "sign:scale=none" : codec[c]->name};
                tg_codec *made;
                tg__exchange *probe;
                if (make(&s, 0, &made, &probe) != TG_OK)
                    continue;
                unmake(made, probe);
                attack(&s, codec[(c + 1) % codecs]->name, &jobs, &errors);
            }
    print_message("%zu combinations, %d attacks on each; %zu times a rank ended\n", jobs, SEEDS,
                  errors);
    assert_true(jobs > 40 && errors > jobs * SEEDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(valid_seals_hostile_content)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
