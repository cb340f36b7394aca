/* A rank's messages in any exchange, with any codec and combine, contain what the input says,
 * behind valid seals. Receivers refuse them, naming the rank, or accept them. Nobody's honest
 * message is refused; nothing depends on the memory after a message; a result that is not finite is
 * reported.
 *
 *     0  1  exchange, by number       1  1  codec      2  1  number of its spec (codec_specs.h)
 *     3  1  combine                   4  1  ranks and which of them lies
 *     5  1  elements                  6     lies (fuzz_lies.h) */
#include "fuzz_lies.h"

#include "codec_specs.h"
#include "exchange_fixture.h"
#include "hand_exchange.h"

enum { HEAD = 6, N_MAX = 300, SIZES = 4 };

typedef struct scene {
    const tg__exchange_ops *x;
    const tg__combine *combine;
    char codec[CODEC_SPEC_MAX];
    size_t n;
    int size, who;
    tg_segment segments[CODEC_SEGMENTS];
    size_t nsegments;
} scene;

typedef struct outcome {
    tg_status status[SIZES];
    int refused[SIZES];
    bool finished[SIZES], overflow[SIZES];
    float result[SIZES][N_MAX];
} outcome;

static bool read_scene(const uint8_t *head, scene *s)
{
    static const tg__combine *const combines[] = {&tg__combine_mean, &tg__combine_vote,
                                                  &tg__combine_clipped, &tg__combine_max};
    static const size_t lengths[] = {300, 40, 17, 1, 100, 16, 0, 129};
    const char *names[FIXTURE_EXCHANGES_MAX];
    const size_t count = fixture_exchanges(names);
    size_t codecs;
    const tg_entry *const *codec = tg__codec_entries(&codecs);
    const tg_entry *entry = codec[head[1] % codecs];
    *s = (scene){.x = tg__exchange_find(
                     head[0] % (count + 1) == count ? "reduce" : names[head[0] % (count + 1)]),
                 .combine = combines[head[3] % TG_COUNT(combines)],
                 .n = lengths[head[5] % TG_COUNT(lengths)],
                 .size = 2 + head[4] % (SIZES - 1)};
    s->who = head[4] / (SIZES - 1) % s->size;
    if (!codec_spec(entry, head[2], s->codec))
        snprintf(s->codec, sizeof s->codec, "%s", entry->name);
    s->nsegments = codec_segments(s->n, s->segments);
    /* As in methods: votes are of signs; the maximum, and sums over nodes, are of plain floats. */
    const bool f32 = strcmp(entry->name, "f32") == 0;
    if (s->combine == &tg__combine_vote)
        snprintf(s->codec, sizeof s->codec, "sign:scale=none");
    if (strcmp(s->x->entry.name, "reduce") == 0)
        return f32 && s->combine == &tg__combine_mean;
    return (s->combine != &tg__combine_max || f32) &&
           (s->combine != &tg__combine_clipped || strcmp(s->x->entry.name, "allgather") == 0);
}

static bool make(const scene *s, int r, tg_codec **codec_p, tg__exchange **x_p)
{
    tg__exchange *x;
    if (tg_codec_create(s->codec, codec_p) != TG_OK)
        return false;
    if (tg__exchange_create(s->x, r, s->size, s->n, *codec_p, s->combine, &x) != TG_OK) {
        tg_codec_destroy(*codec_p);
        return false;
    }
    x->segments = s->segments;
    x->nsegments = s->nsegments;
    if (s->combine->room != NULL)
        x->room = fuzz_copy(NULL, s->combine->room(s->n, s->nsegments, s->size));
    *x_p = x;
    return true;
}

static void unmake(tg_codec *codec, tg__exchange *x)
{
    free(x->room);
    tg__exchange_destroy(x);
    tg_codec_destroy(codec);
}

/* A refusal must be caused by the liar, and must name it. */
static void check_refusal(const scene *s, const hand *h, int r)
{
    if (h->status[r] == TG_OK)
        return;
    if (h->refused[r] != s->who)
        abort();
    if (h->status[r] != TG_E_CORRUPT && h->status[r] != TG_E_MISMATCH && h->status[r] != TG_E_PEER)
        abort();
}

static void take_outcome(const scene *s, const hand *h, int r, outcome *o)
{
    tg__exchange *x = h->x[r];
    check_refusal(s, h, r);
    o->status[r] = h->status[r];
    o->refused[r] = h->refused[r];
    o->finished[r] = h->status[r] == TG_OK && x->ops->finished(x);
    if (!o->finished[r])
        return;
    for (size_t i = 0; i < s->n; i++)
        o->result[r][i] = 7;
    x->ops->result(x, o->result[r]);
    o->overflow[r] = x->overflow;
}

/* Play the scene; returns whether the combination exists. */
static bool play(const scene *s, fuzz_liar liar, outcome *o)
{
    static hand h;
    tg_codec *codec[SIZES];
    tg__exchange *x[SIZES];
    memset(o, 0, sizeof *o);
    for (int r = 0; r < s->size; r++) {
        if (!make(s, r, &codec[r], &x[r])) {
            while (r-- > 0)
                unmake(codec[r], x[r]);
            return false;
        }
        assert_int_equal(fixture_encode(x[r], 0), TG_OK);
    }
    h = (hand){.x = x, .size = s->size, .change = fuzz_change, .arg = &liar};
    hand_play(&h);
    for (int r = 0; r < s->size; r++)
        take_outcome(s, &h, r, o);
    for (int r = 0; r < s->size; r++)
        unmake(codec[r], x[r]);
    return true;
}

/* Whether the exchange itself checks for values that are not finite. Parameters, and what gossip
 * pushes, are checked by their receivers. */
static bool looks(const tg__exchange_ops *x)
{
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i] == x)
            return strcmp(x->entry.name, "none") != 0;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static outcome a, b;
    scene s;
    if (size < HEAD || !read_scene(data, &s))
        return 0;
    fuzz_liar liar = {.lies = {.data = data + HEAD, .left = size - HEAD}, .who = s.who};
    if (!play(&s, liar, &a))
        return 0;
    liar.behind = 0xff;
    play(&s, liar, &b);
    if (memcmp(&a, &b, sizeof a) != 0)
        abort();
    for (int r = 0; r < s.size; r++)
        if (looks(s.x) && a.finished[r] && !a.overflow[r] &&
            !tg__kernel()->all_finite(a.result[r], s.n))
            abort();
    return 0;
}
