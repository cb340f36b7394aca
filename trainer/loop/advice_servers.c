/* Whether parameter servers pay. Steps are those in the long run, as in advice.c. */
#include "trainer/loop/advice_impl.h"
#include "trainer/loop/run_times.h"
#include "telegrad/server.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one simulation -------------------------------------------------------------------------- */

static double pace(void *arg, int rank, uint64_t step)
{
    return run_pace_of(arg, rank, step);
}

static bool is_async(const char *mode)
{
    return strncmp(mode, "async", 5) == 0;
}

/* Without a bound, the mean over many workers settles in a few steps. */
static uint64_t first_quarter(const advice *a, const char *mode)
{
    return a->world > TG_RANKS_MAX && strcmp(mode, "async") == 0 ? ADVICE_LEAST_STEPS / 3
                                                                 : ADVICE_LEAST_STEPS;
}

/* The seconds that the last three quarters of a simulation take, per step.
 * servers  0: none; ranks exchange gradients in step, by the method's own exchange
 * bytes_p  that a rank sends in a step; NULL: not wanted */
static tg_status simulate(const advice *a, const advice_network *net, unsigned servers,
                          const char *mode, const advice_served *w, double *step_s_p,
                          double *bytes_p)
{
    tg_simulation *sim = w->twoway ? a->twoway[w->method] : a->sim[w->method];
    const uint64_t quarter = first_quarter(a, mode);
    const train_sim_info about = train_sim_about(a->steps);
    const bool async = is_async(mode);
    tg_sim_end first = {.struct_size = sizeof first}, last = first;
    int *rank;
    TG_TRY(tg_alloc((size_t)a->world, sizeof *rank, &rank));
    tg_sim_run all = {.struct_size = sizeof all,
                      .strategy = async ? "server" : "ssgd",
                      .world = a->world,
                      .link = net->link,
                      .work = about.work,
                      .nwork = about.nwork,
                      .rank = rank,
                      .nranks = run_paced_ranks(net->job, a->world, rank),
                      .pace = pace,
                      .steps = quarter,
                      .arg = (void *)(uintptr_t)net->job,
                      .servers = servers,
                      .server_mode = async ? mode : NULL,
                      .server = net->server};
    tg_status status = tg_simulation_run(sim, &all, &first);
    all.steps = 4 * quarter;
    if (status == TG_OK)
        status = tg_simulation_run(sim, &all, &last);
    free(rank);
    TG_TRY(status);
    *step_s_p = (last.ns - first.ns) / 1e9 / (double)(3 * quarter);
    if (bytes_p)
        *bytes_p = last.bytes / (double)all.steps;
    return TG_OK;
}

/* ---- which methods --------------------------------------------------------------------------- */

static const char *const stars[] = {"star", "twoway"};

/* Servers that code round what ranks have rounded already. */
static double distance_of(const advice_served *w)
{
    return advice_method_distance(w->method) + (w->twoway ? 0.5 : 0);
}

/* Of the ways within ADVICE_NEAR of the fastest: that of the method nearest to plain SGD, of those
 * the one with the fewest servers. */
static bool better(const advice_served *a, const advice_served *b)
{
    const double far = distance_of(a) - distance_of(b);
    if (fabs(far) > 1e-6)
        return far < 0;
    return a->servers != b->servers ? a->servers < b->servers : a->step_s < b->step_s;
}

static const advice_served *choose(const advice_served *way, size_t count)
{
    double fastest = INFINITY;
    const advice_served *best = NULL;
    for (size_t i = 0; i < count; i++)
        fastest = fmin(fastest, way[i].step_s);
    for (size_t i = 0; i < count; i++)
        if (way[i].step_s <= ADVICE_NEAR * fastest && (!best || better(&way[i], best)))
            best = &way[i];
    return best;
}

/* The best method with so many servers in this mode, of those that it takes; servers 0: without. */
static tg_status best_with(const advice *a, const advice_network *net, unsigned servers,
                           const char *mode, advice_served *best_p)
{
    advice_served way[TG_COUNT(stars) * ADVICE_METHODS];
    size_t count = 0;
    for (size_t i = 0; i < TG_COUNT(way); i++) {
        const size_t m = i / TG_COUNT(stars), star = i % TG_COUNT(stars);
        advice_served *w = &way[count];
        if (a->unfit[m] || (servers > 0 ? !advice_has_exchange(m, stars[star]) : star > 0))
            continue;
        *w = (advice_served){.servers = servers,
                             .method = m,
                             .twoway = star > 0,
                             .method_text = star > 0 ? a->twoway_text[m] : advice_methods[m]};
        snprintf(w->mode, sizeof w->mode, "%s", mode);
        const tg_status status = simulate(a, net, servers, mode, w, &w->step_s, &w->bytes);
        if (!is_async(mode) || !advice_refused(status)) /* methods of several rounds */
            TG_TRY(status);
        count += status == TG_OK;
    }
    *best_p = *choose(way, count);
    return TG_OK;
}

/* ---- who waits ------------------------------------------------------------------------------- */

/* In step as chosen; async with that number, and the method that is best without a bound. */
static tg_status list_modes(const advice *a, const advice_network *net, advice_answer_served *r)
{
    static const char *const modes[] = {"async:staleness=1",  "async:staleness=2",
                                        "async:staleness=4",  "async:staleness=8",
                                        "async:staleness=16", "async"};
    _Static_assert(TG_COUNT(modes) + 1 == ADVICE_MODES, "room for all modes");
    advice_served best, in_step;
    TG_TRY(best_with(a, net, r->best->servers, "async", &best));
    in_step = best;
    TG_TRY(simulate(a, net, best.servers, "sum", &best, &in_step.step_s, &in_step.bytes));
    r->mode[0] = *r->best;
    r->modes = 1;
    for (size_t i = 0; i < TG_COUNT(modes); i++) {
        advice_served *w = &r->mode[r->modes++];
        *w = best;
        w->bytes = in_step.bytes; /* async, ranks that are ahead when it ends have sent more */
        snprintf(w->mode, sizeof w->mode, "%s", modes[i]);
        TG_TRY(simulate(a, net, w->servers, w->mode, w, &w->step_s, NULL));
    }
    double fastest = INFINITY;
    for (size_t i = 0; i < r->modes; i++)
        fastest = fmin(fastest, r->mode[i].step_s);
    r->taken = 0;
    if (fastest < ADVICE_PAYS * r->mode[0].step_s)
        while (r->mode[r->taken].step_s > ADVICE_HIDDEN * fastest)
            r->taken++;
    return TG_OK;
}

tg_status advice_serve(const advice *a, const advice_network *net, unsigned most,
                       advice_answer_served *r)
{
    *r = (advice_answer_served){.counts = 0};
    if (most < 1 || most > TG_SERVERS_MAX)
        return tg_fail(TG_E_ARG, "%u servers: allowed: 1 to %d", most, TG_SERVERS_MAX);
    TG_TRY(best_with(a, net, 0, "none", &r->without));
    for (unsigned n = 1;; n = 2 * n < most ? 2 * n : most) {
        TG_TRY(best_with(a, net, n, "sum", &r->count[r->counts++]));
        if (n == most)
            break;
    }
    r->best = choose(r->count, r->counts);
    TG_TRY(list_modes(a, net, r));
    r->pays = r->mode[r->taken].step_s < ADVICE_PAYS * r->without.step_s;
    return TG_OK;
}
