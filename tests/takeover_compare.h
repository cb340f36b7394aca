/* For tests of resuming with another number of ranks: what the ranks that load must have of what
 * was saved, and the folder that it is saved in: the state of each test. */
#ifndef TESTS_TAKEOVER_COMPARE_H
#define TESTS_TAKEOVER_COMPARE_H

#include "takeover_run.h"

#include <unistd.h>

/* The mean over the ranks that have it; returns how many. */
static inline int mean_of(const had *h, int world, const char *key, double *mean, size_t n)
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

/* Sums of all ranks compare exactly if means need not be rounded: from a power of two. */
static inline void compare_means(const job *j, int before, bool exact)
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

/* The pieces of all ranks, one after the other. */
static inline size_t whole_of(const had *h, int world, const char *key, float *whole)
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

static inline size_t compare_pieces(const job *j, int before)
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

static inline void clear(const char *dir)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    assert_int_equal(system(command), 0);
}

/* Saved by `before`, loaded by `after`. */
static inline void check_loaded_once(job j, int before, int after, const char *dir, bool exact)
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

/* From files; to three ranks also from memory. */
static inline void check_loaded(job j, int before, int after, const char *dir, bool exact)
{
    check_loaded_once(j, before, after, dir, exact);
    const uint64_t end = loaded[0].end_hash;
    if (after != 3)
        return;
    j.from_memory = before;
    check_loaded_once(j, before, after, dir, exact);
    assert_true(loaded[0].end_hash == end);
}

static const int changes[][2] = {{4, 3}, {4, 8}, {3, 1}, {1, 3}};

static inline job job_of(const char *method, const char *strategy)
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

static char folder[] = "/tmp/telegrad-takeover-XXXXXX";

static inline int make_folder(void **state)
{
    *state = mkdtemp(folder);
    return *state == NULL;
}

static inline int remove_folder(void **state)
{
    clear(*state);
    forget(saved);
    forget(loaded);
    for (int r = 0; r < RANKS; r++)
        free(image[r]);
    return rmdir(*state);
}

#endif
