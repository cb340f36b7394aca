/* Resuming with another number of ranks: for every method and every strategy, the global weights
 * are those that were saved, the means of single ranks' state are preserved, and training continues
 * the same on all ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"

#include "session/session_impl.h"
#include "state/slots.h"

#include <unistd.h>

enum { RANKS = 8, SLOTS = 256, N = FIXTURE_N };

/* One rank's state, right after a save or a load. */
typedef struct part {
    char key[160];
    tg__role role;
    size_t n, at;
    float *value;
} part;

typedef struct had {
    tg_status status;
    char error[512];
    uint64_t hash, first, end_hash; /* first: the step at which it begins */
    int64_t epoch_shift;
    char anew[256];
    float w[N], global[N], end[N];
    part part[SLOTS];
    size_t parts;
} had;

typedef struct job {
    fixture_job f;
    uint64_t steps_per_epoch;
    bool dyadic;
    bool look_at_load; /* inspect at the load, not at the save */
} job;

typedef struct rank {
    const job *job;
    tg_transport *transport;
    had *out;
} rank;

static had saved[RANKS], loaded[RANKS];

/* ---- inspecting a session -------------------------------------------------------------------- */

static void keep(had *h, const char *key, tg__role role, const float *value, size_t n, size_t at)
{
    assert_true(h->parts < SLOTS);
    part *p = &h->part[h->parts++];
    snprintf(p->key, sizeof p->key, "%s", key);
    p->role = role;
    p->n = n;
    p->at = at;
    p->value = malloc((n > 0 ? n : 1) * sizeof *value);
    assert_non_null(p->value);
    if (n > 0)
        memcpy(p->value, value, n * sizeof *value);
}

static void keep_slots(had *h, const tg_session *s)
{
    for (size_t i = 0; i < s->state->count; i++) {
        const tg__slot *slot = &s->state->slot[i];
        const bool owner = slot->role == TG__ROLE_OWNER;
        if (slot->role == TG__ROLE_REPLICATED || (!owner && slot->rescale == TG__RESCALE_COPY))
            continue;
        /* without the role, which nodes change */
        keep(h, strchr(slot->key + 5, ':'), slot->role, slot->data, slot->len / sizeof(float),
             slot->at);
    }
}

/* For exchanges in flight: what is owed to the memory, and what is pushed from rank to rank. */
static void keep_lanes(had *h, tg_session *s, float *whole)
{
    for (size_t b = 0; b < s->nbuckets; b++)
        for (size_t l = 0; l < s->lanes; l++) {
            const lane_op *o = &s->bucket[b].lane[l];
            char key[64];
            if (!o->waiting)
                continue;
            snprintf(key, sizeof key, "owed %zu %zu", b, l);
            if (s->lanes > 1 && o->owed != NULL && (s->nodes == NULL || s->nodes->index == 0))
                keep(h, key, TG__ROLE_RANK, o->owed, s->bucket[b].n, 0);
            const float *push = tg__session_aggregate(s, o);
            size_t at = 0;
            for (size_t i = 0; tg__session_was_pushed(s, o) && i < s->ntrained; i++) {
                const tensor *t = &s->tensor[s->trained[i]];
                for (size_t e = 0; t->bucket == b && e < t->n; e++)
                    whole[at + e] += push[t->offset + e];
                at += t->n;
            }
        }
}

static const float *slot_of(const tg_session *s, const char *name, size_t i)
{
    for (size_t r = 0; r < s->strategy->nslots; r++)
        if (strcmp(s->strategy->request[r].name, name) == 0)
            return s->strategy->slot[r][i];
    return NULL;
}

static void look(had *h, tg_session *s, const float *w)
{
    float whole[N];
    memcpy(h->w, w, sizeof h->w);
    memcpy(whole, w, sizeof whole);
    for (size_t i = 0, at = 0; i < s->ntrained; at += s->wtensor[i++].n) {
        memcpy(h->global + at, s->strategy->ops->global(s->strategy, i),
               s->wtensor[i].n * sizeof *w);
        if (s->strategy->pushes && slot_of(s, "mass", i) != NULL)
            memcpy(whole + at, slot_of(s, "mass", i), s->wtensor[i].n * sizeof *w);
    }
    keep_lanes(h, s, whole);
    if (s->strategy->pushes)
        keep(h, "whole", TG__ROLE_RANK, whole, N, 0);
    else
        keep(h, "w", TG__ROLE_RANK, w, N, 0);
    if (!s->strategy->pushes) /* masses are in `whole` */
        keep_slots(h, s);
}

/* ---- running --------------------------------------------------------------------------------- */

static tg_status step_once(const job *j, tg_session *s, int r, const uint32_t *id, float *w,
                           float *g)
{
    static const size_t apart[FIXTURE_TENSORS] = {0, 512, 544, 896};
    float flat[N];
    fixture_gradient(&j->f, r, tg_session_steps(s), w, flat);
    for (int i = FIXTURE_TENSORS - 1, at = N; i >= 0; i--) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        at -= (int)n;
        TG_TRY(tg_session_grad_wait(s, id[i]));
        memcpy(g + apart[i], flat + at, n * sizeof *g);
        if (!tg_session_idle(s))
            TG_TRY(tg_session_grad_ready(s, id[i]));
    }
    return tg_session_step(s, NULL);
}

static tg_status train(const rank *r, tg_session *s, float *w, float *g)
{
    static const size_t apart[FIXTURE_TENSORS] = {0, 512, 544, 896};
    const job *j = r->job;
    uint32_t id[FIXTURE_TENSORS];
    const void *extra;
    size_t len;
    TG_TRY(fixture_add_tensors(s, w, g, apart, id));
    if (j->f.load_dir == NULL)
        TG_TRY(tg_session_begin(s));
    else
        TG_TRY(tg_session_load(s, j->f.load_dir, &extra, &len));
    r->out->first = tg_session_steps(s);
    r->out->epoch_shift = s->epoch_shift;
    snprintf(r->out->anew, sizeof r->out->anew, "%s", s->from.anew);
    if (j->look_at_load) {
        look(r->out, s, w);
        TG_TRY(tg_session_params_hash(s, &r->out->hash));
    }
    while (tg_session_steps(s) < j->f.steps) {
        TG_TRY(step_once(j, s, r->transport->rank, id, w, g));
        if (j->f.save_dir == NULL || tg_session_steps(s) != j->f.save_at)
            continue;
        TG_TRY(tg_session_save(s, j->f.save_dir, "extra", 6));
        if (!j->look_at_load) {
            look(r->out, s, w);
            TG_TRY(tg_session_params_hash(s, &r->out->hash));
        }
    }
    TG_TRY(tg_session_finish(s));
    memcpy(r->out->end, w, sizeof r->out->end);
    return tg_session_params_hash(s, &r->out->end_hash);
}

static tg_status run_session(const rank *r)
{
    const job *j = r->job;
    tg_session *s;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->f.method,
                                      .strategy = j->f.strategy,
                                      .optimizer = j->f.optimizer,
                                      .seed = 11,
                                      .steps_per_epoch = j->steps_per_epoch,
                                      .timeout_ms = 20000,
                                      .driver = TG_DRIVER_INLINE,
                                      .bucket_bytes = j->f.bucket_bytes,
                                      .nodes = j->f.nodes};
    TG_TRY(tg_session_create(&config, r->transport, &s));
    float *w = calloc(N, sizeof *w), *g = calloc(1024, sizeof *g);
    fixture_initial(w);
    const tg_status status = train(r, s, w, g);
    tg_session_destroy(s);
    free(w);
    free(g);
    return status;
}

static void *run_rank(void *arg)
{
    const rank *r = arg;
    r->out->status = run_session(r);
    snprintf(r->out->error, sizeof r->out->error, "%s", r->out->status == TG_OK ? "" : tg_error());
    if (r->out->status != TG_OK)
        r->transport->ops->shut(r->transport);
    return NULL;
}

static void forget(had *h)
{
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < h[r].parts; i++)
            free(h[r].part[i].value);
        h[r].parts = 0;
    }
}

static void run(const job *j, had *out)
{
    tg_transport *transport[RANKS];
    pthread_t thread[RANKS];
    rank ranks[RANKS];
    forget(out);
    memset(out, 0, RANKS * sizeof *out);
    assert_int_equal(tg_transport_inproc(j->f.world, transport), TG_OK);
    for (int r = 0; r < j->f.world; r++) {
        ranks[r] = (rank){j, transport[r], &out[r]};
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < j->f.world; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < j->f.world; r++)
        tg_transport_destroy(transport[r]);
}

static void run_well(const job *j, had *out)
{
    run(j, out);
    for (int r = 0; r < j->f.world; r++) {
        if (out[r].status != TG_OK)
            fail_msg("%s, %s, rank %d of %d: %s", j->f.method, j->f.strategy, r, j->f.world,
                     out[r].error);
        if (out[r].end_hash != out[0].end_hash)
            fail_msg("%s, %s: rank %d of %d ends elsewhere", j->f.method, j->f.strategy, r,
                     j->f.world);
        for (size_t i = 0; i < N; i++)
            assert_true(isfinite(out[r].end[i]));
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* The mean over the ranks that have it; returns their number. */
static int mean_of(const had *h, int world, const char *key, double *mean, size_t n)
{
    int count = 0;
    memset(mean, 0, n * sizeof *mean);
    for (int r = 0; r < world; r++)
        for (size_t i = 0; i < h[r].parts; i++) {
            const part *p = &h[r].part[i];
            if (strcmp(p->key, key) != 0)
                continue;
            assert_int_equal(p->n, n);
            for (size_t e = 0; e < n; e++)
                mean[e] += (double)p->value[e];
            count++;
        }
    for (size_t e = 0; count > 0 && e < n; e++)
        mean[e] /= count;
    return count;
}

/* If means need no rounding (from a power of two), the sums of all ranks compare exactly. */
static void compare_means(const job *j, int before, bool exact)
{
    static double was[N], is[N];
    for (size_t i = 0; i < saved[0].parts; i++) {
        const part *p = &saved[0].part[i];
        double scale = 0;
        if (p->role == TG__ROLE_OWNER)
            continue;
        const int gave = mean_of(saved, before, p->key, was, p->n);
        const int have = mean_of(loaded, j->f.world, p->key, is, p->n);
        assert_true(gave > 0);
        if (have == 0)
            fail_msg("%s, %s: %s is gone", j->f.method, j->f.strategy, p->key);
        for (size_t e = 0; e < p->n; e++)
            scale = fmax(scale, fabs(was[e]));
        for (size_t e = 0; e < p->n; e++)
            if (exact ? was[e] != is[e] : !(fabs(was[e] - is[e]) <= 1e-6 * scale))
                fail_msg("%s, %s, %d to %d: %s of element %zu: mean %.9g was %.9g", j->f.method,
                         j->f.strategy, before, j->f.world, p->key, e, is[e], was[e]);
    }
}

/* Join the pieces of all ranks in order. */
static size_t whole_of(const had *h, int world, const char *key, float *whole)
{
    size_t n = 0;
    for (int r = 0; r < world; r++)
        for (size_t i = 0; i < h[r].parts; i++) {
            const part *p = &h[r].part[i];
            if (p->role != TG__ROLE_OWNER || strcmp(p->key, key) != 0)
                continue;
            assert_int_equal(p->at, n);
            memcpy(whole + n, p->value, p->n * sizeof *whole);
            n += p->n;
        }
    return n;
}

static size_t compare_pieces(const job *j, int before)
{
    static float was[N], is[N];
    size_t pieces = 0;
    for (int r = 0; r < before; r++)
        for (size_t i = 0; i < saved[r].parts; i++) {
            const part *p = &saved[r].part[i];
            if (p->role != TG__ROLE_OWNER)
                continue;
            const size_t n = whole_of(saved, before, p->key, was);
            assert_int_equal(n, whole_of(loaded, j->f.world, p->key, is));
            assert_memory_equal(was, is, n * sizeof *was);
            pieces++;
        }
    return pieces;
}

static void clear(const char *dir)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    assert_int_equal(system(command), 0);
}

/* Saved by `before`, loaded by `after`. */
static void check_loaded(job j, int before, int after, const char *dir, bool exact)
{
    j.f.world = after;
    j.f.load_dir = dir;
    j.f.save_dir = NULL;
    j.look_at_load = true;
    run_well(&j, loaded);
    for (int r = 0; r < after; r++) {
        assert_int_equal(loaded[r].first, j.f.save_at);
        if (loaded[r].hash != saved[0].hash)
            fail_msg("%s, %s, %d to %d: rank %d has other global weights than were saved",
                     j.f.method, j.f.strategy, before, after, r);
        assert_memory_equal(loaded[r].global, saved[0].global, sizeof saved[0].global);
    }
    if (loaded[0].anew[0] == '\0')
        compare_means(&j, before, exact);
    compare_pieces(&j, before);
}

/* ---- the lists ------------------------------------------------------------------------------- */

/* Settings that have an effect within a few steps; others are found by name. */
static const char *const settings[] = {"2bit:threshold=auto",
                                       "strom:threshold=auto,target=0.05",
                                       "topk:density=0.1",
                                       "randomk:density=0.1",
                                       "cltk:density=0.1,beta=0.5",
                                       "dgc:density=0.05,warmup=2",
                                       "csc:chunk=32,density=0.2,warmup=2",
                                       "atomo:rank=2",
                                       "powersgd:rank=2",
                                       "blocktopk:keep=7",
                                       "dct:keep=3",
                                       "int8:feedback=residual",
                                       "od:warmup=2",
                                       "cd:k=3,warmup=2",
                                       "pipe:width=3",
                                       "dga:delay=3",
                                       "local:every=4",
                                       "fedavg:every=4,clients=0.67",
                                       "diloco:every=4",
                                       "streaming:every=4,fragments=2,overlap=2,alpha=0.5",
                                       "eager:every=4",
                                       "gossip:overlap=2,mean=5",
                                       "sparseloco:every=4"};

static const char *setting_of(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strncmp(settings[i], name, len) == 0 && settings[i][len] == ':')
            return settings[i];
    return name;
}

static const int changes[][2] = {{4, 3}, {4, 8}, {3, 1}, {1, 3}};

static job job_of(const char *method, const char *strategy)
{
    job j = {.f = fixture_defaults(), .steps_per_epoch = 4};
    j.f.method = method;
    j.f.strategy = strategy;
    j.f.optimizer =
        strcmp(strategy, "demo") == 0 ? "sgd:lr=0.01" : "sgd:lr=0.25,momentum=0.5,weight_decay=0";
    j.f.bucket_bytes = 1400;
    j.f.steps = 13;
    j.f.save_at = 6;
    return j;
}

/* Test all changes of the number of ranks. Returns false if the method and the strategy cannot be
 * combined. */
static bool check_pair(const char *method, const char *strategy, const char *dir)
{
    job j = job_of(method, strategy);
    int before = 0;
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        if (changes[c][0] != before) {
            before = changes[c][0];
            clear(dir);
            j.f.world = before;
            j.f.save_dir = dir;
            run(&j, saved);
            if (saved[0].status == TG_E_UNSUPPORTED || saved[0].status == TG_E_SPEC)
                return false;
            run_well(&j, saved);
        }
        check_loaded(j, before, changes[c][1], dir, false);
    }
    return true;
}

static const char *name_of(const char *spec, char name[64])
{
    snprintf(name, 64, "%.*s", (int)strcspn(spec, ":"), spec);
    return name;
}

static void test_every_method(void **state)
{
    char *const dir = *state;
    static const char *const strategies[] = {"ssgd", "cd:k=3,warmup=2", "pipe:width=3"};
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    assert_true(count >= 20);
    for (size_t i = 0; i < count; i++) {
        int went = 0;
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++)
            went += check_pair(setting_of(list[i]->name), strategies[s], dir);
        if (went == 0)
            fail_msg("%s goes with none", list[i]->name);
    }
}

static void test_every_strategy(void **state)
{
    char *const dir = *state;
    char name[64];
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_STRATEGY, &count);
    assert_true(count >= 13);
    for (size_t i = 0; i < count; i++) {
        const char *strategy = setting_of(list[i]->name);
        const char *methods[] = {
            setting_of(name_of(tg_registry_strategy_method(list[i]->name), name)), "dense",
            "topk:density=0.1", "efsign"};
        int went = 0;
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
            went += check_pair(methods[m], strategy, dir);
        if (went == 0)
            fail_msg("%s goes with none", strategy);
    }
}

/* ---- exactly --------------------------------------------------------------------------------- */

/* If all sums are exact, the sums of pending values are P'/P times the old ones, to the bit: the
 * residual; the velocity and what it has accumulated; what is owed from exchanges in flight;
 * leftovers of sums. */
static void test_exact_sums(void **state)
{
    char *const dir = *state;
    static const char *const pairs[][2] = {
        {"topk:density=0.1,values=f32", "ssgd"},
        {"topk:density=0.1,values=f32", "pipe:width=3"},
        {"topk:density=0.1,values=f32,exchange=reducescatter", "ssgd"},
        {"topk:density=0.1,values=f32,exchange=reducescatter", "pipe:width=2"},
        {"topk:density=0.1,values=f32,exchange=gtopk", "ssgd"},
        {"randomk:density=0.1,values=f32", "ssgd"},
        {"cltk:density=0.1,values=f32", "ssgd"},
        {"2bit:threshold=0.25", "ssgd"},
        {"strom:threshold=0.5", "ssgd"},
        {"blocktopk:keep=7,values=f32,decay=1", "ssgd"},
        {"dgc:density=0.05,warmup=0,values=f32,momentum=0.5", "ssgd"},
        {"csc:chunk=32,density=0.2,warmup=2,momentum=0.5", "ssgd"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        job j = job_of(pairs[i][0], pairs[i][1]);
        j.f.optimizer = "sgd:lr=0.25";
        j.f.dyadic = true;
        j.f.world = 4;
        j.f.save_dir = dir;
        clear(dir);
        run_well(&j, saved);
        double waits = 0;
        for (size_t p = 0; p < saved[0].parts; p++)
            for (size_t e = 0; saved[0].part[p].key[0] == ':' && e < saved[0].part[p].n; e++)
                waits += fabs((double)saved[0].part[p].value[e]);
        assert_true(waits > 0);
        check_loaded(j, 4, 3, dir, true);
        check_loaded(j, 4, 8, dir, true);
        check_loaded(j, 4, 1, dir, true);
    }
}

/* Owners' residuals are cut into new blocks. */
static void test_owners(void **state)
{
    char *const dir = *state;
    job j = job_of("1bit:twoway=yes,rescale=yes", "ssgd");
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        clear(dir);
        j.f.world = changes[c][0];
        j.f.save_dir = dir;
        run_well(&j, saved);
        check_loaded(j, changes[c][0], changes[c][1], dir, false);
        j.f.world = changes[c][1];
        assert_true(compare_pieces(&j, changes[c][0]) >= FIXTURE_TENSORS);
    }
}

/* Leaders take over from leaders or from ranks that each had a memory, and the reverse. */
static void test_nodes(void **state)
{
    char *const dir = *state;
    static const int nodes[][8] = {{0, 0, 1, 1}, {0, 1, 1}, {0, 0, 0, 1, 1, 2, 2, 2}, {0, 1, 0, 1}};
    static const struct {
        int before, after;
        const int *had, *have;
    } cases[] = {{4, 3, nodes[0], nodes[1]}, {4, 8, nodes[0], nodes[2]}, {4, 3, nodes[3], NULL},
                 {3, 4, NULL, nodes[3]},     {8, 4, nodes[2], nodes[0]}, {3, 1, nodes[1], NULL}};
    static const char *const methods[] = {"topk:density=0.1", "powersgd:rank=2", "1bit:twoway=yes",
                                          "strom:threshold=auto,target=0.05",
                                          "topk:density=0.1,exchange=reducescatter"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            job j = job_of(methods[m], m == 4 ? "pipe:width=2" : m == 0 ? "cd:k=3" : "ssgd");
            clear(dir);
            j.f.world = cases[c].before;
            j.f.nodes = cases[c].had;
            j.f.save_dir = dir;
            run_well(&j, saved);
            j.f.nodes = cases[c].have;
            check_loaded(j, cases[c].before, cases[c].after, dir, false);
        }
}

/* State taken over from others is saved as the rank's own: continuing from that save gives the same
 * bits as an uninterrupted run. */
static void test_saved_again(void **state)
{
    char *const dir = *state;
    static const char *const pairs[][2] = {
        {"dgc:density=0.05,warmup=3ep", "ssgd"},
        {"2bit", "cd:k=3,warmup=2ep"},
        {"1bit:twoway=yes", "ssgd"},
        {"topk:density=0.1,exchange=auto", "ssgd"},
        {"topk:density=0.1", "streaming:every=4,overlap=2"},
        {"dense", "gossip:overlap=2,mean=5"},
        {"powersgd:rank=2,start=1ep", "local:every=4,after=1ep"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        job j = job_of(pairs[i][0], pairs[i][1]);
        clear(dir);
        j.f.world = 4;
        j.f.save_dir = dir;
        run_well(&j, saved);
        j.f.world = 3;
        j.steps_per_epoch = 5;
        j.f.load_dir = dir;
        j.f.save_at = 9;
        j.look_at_load = false;
        run_well(&j, saved);
        const uint64_t end = saved[0].end_hash;
        assert_int_equal(saved[0].first, 6);
        assert_true(saved[0].epoch_shift == -1); /* half an epoch of 4: position 7 of 5 */
        j.f.save_dir = NULL;
        run_well(&j, loaded);
        assert_int_equal(loaded[0].first, 9);
        assert_true(loaded[0].epoch_shift == -1);
        if (loaded[0].end_hash != end)
            fail_msg("%s, %s: saved again, it ends elsewhere", j.f.method, j.f.strategy);
    }
}

/* What cannot be taken over is reported; if nothing is in flight, nothing is lost. */
static void test_said(void **state)
{
    char *const dir = *state;
    for (uint64_t at = 6; at <= 8; at += 2)
        for (int clients = 0; clients < 2; clients++) {
            job j = job_of("dense", clients ? "fedavg:every=4,clients=0.5" : "local:every=4");
            clear(dir);
            j.f.world = 4;
            j.f.save_dir = dir;
            j.f.save_at = at;
            run_well(&j, saved);
            check_loaded(j, 4, 3, dir, false);
            assert_string_equal(loaded[0].anew,
                                clients && at == 6 ? "the round under way of strategy fedavg" : "");
            if (clients && at == 6)
                assert_memory_equal(loaded[1].w, loaded[1].global, sizeof loaded[1].w);
        }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void assert_refused(const job *j, tg_status status, const char *say)
{
    run(j, loaded);
    for (int r = 0; r < j->f.world; r++)
        if (loaded[r].status != status || strstr(loaded[r].error, say) == NULL)
            fail_msg("rank %d: %s: %s", r, tg_status_name(loaded[r].status), loaded[r].error);
}

static void shell(const char *format, const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, format, dir);
    assert_int_equal(system(command), 0);
}

static void test_refused(void **state)
{
    char *const dir = *state;
    job j = job_of("topk:density=0.1", "ssgd");
    clear(dir);
    j.f.world = 4;
    j.f.save_dir = dir;
    run_well(&j, saved);
    j.f.world = 3;
    j.f.save_dir = NULL;
    j.f.load_dir = dir;
    j.f.method = "fp16";
    assert_refused(&j, TG_E_MISMATCH, "method=topk");
    j.f.method = "topk:density=0.1";
    shell("mv %s/step-*/rank-0003.tg /tmp/telegrad-rank-3", dir); /* read only by rank 2 */
    assert_refused(&j, TG_E_IO,
                   "rank-0003.tg: No such file or directory: 3 ranks take over from 4");
    shell("cp %s/step-*/rank-0002.tg $(echo %1$s/step-*)/rank-0003.tg", dir);
    assert_refused(&j, TG_E_MISMATCH, "the file of rank 3 of 4 in step 6 is one of rank 2 of 4");
    shell("head -c 3000 /tmp/telegrad-rank-3 > $(echo %s/step-*)/rank-0003.tg", dir);
    assert_refused(&j, TG_E_CORRUPT, "rank-0003.tg");
    shell("mv /tmp/telegrad-rank-3 $(echo %s/step-*)/rank-0003.tg", dir);
    j.f.world = 4; /* the number that saved it: a rank's own file is missing */
    shell("mv %s/step-*/rank-0003.tg /tmp/telegrad-rank-3", dir);
    assert_refused(&j, TG_E_IO, "rank-0003.tg: No such file or directory");
    shell("mv /tmp/telegrad-rank-3 $(echo %s/step-*)/rank-0003.tg", dir);
    j.f.world = 3;
    run_well(&j, loaded);
}

static char folder[] = "/tmp/telegrad-takeover-XXXXXX";

static int make_folder(void **state)
{
    *state = mkdtemp(folder);
    return *state == NULL;
}

static int remove_folder(void **state)
{
    clear(*state);
    forget(saved);
    forget(loaded);
    return rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method), cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_exact_sums),   cmocka_unit_test(test_owners),
        cmocka_unit_test(test_nodes),        cmocka_unit_test(test_saved_again),
        cmocka_unit_test(test_said),         cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
