#include "command/train/run_defaults.h"
#include "command/job/launch.h"
#include "command/job/spec_words.h"
#include "command/train/loss_notes.h"
#include "command/train/optimizer_default.h"
#include "command/train/rate_hints.h"
#include "command/train/run_notes.h"
#include "trainer/data/shard.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FUSION_LEAST 1000 /* bytes; fewer are warned of */

/* The exchange with servers that a method's spec asks for; NULL: none. */
static const char *star_of(const char *method)
{
    static const char *const stars[] = {"star", "twoway"};
    tg_spec *spec;
    if (tg_registry_parse(TG_KIND_METHOD, method, &spec) != TG_OK)
        return NULL; /* creating the session reports the error */
    const char *word = tg_spec_given(spec, "exchange") ? tg_spec_word(spec, "exchange") : "";
    const char *star = NULL;
    for (size_t i = 0; i < TG_COUNT(stars); i++)
        star = strcmp(word, stars[i]) == 0 ? stars[i] : star;
    tg_spec_free(spec);
    return star;
}

static tg_status refuse_star(const char *option, const char *value, const char *star)
{
    return tg_fail(TG_E_SPEC,
                   "--%s %.200s: this job has no server for exchange=%s: use --servers N", option,
                   value, star);
}

static tg_status check_without_servers(const struct run_options *o)
{
    const char *star = star_of(options_method(o));
    if (star)
        return refuse_star("method", options_method(o), star);
    for (size_t i = 0; i < o->rule_count; i++) {
        const char *equals = strchr(o->rules[i], '=');
        star = equals ? star_of(equals + 1) : NULL;
        if (star)
            return refuse_star("rule", o->rules[i], star);
    }
    return TG_OK;
}

/* With servers, a method that can use them does so unless its spec says otherwise. */
static tg_status settle_method(struct run_options *o)
{
    tg_spec *spec;
    const char *text = options_method(o);
    if (o->servers == 0 && !o->net.server)
        return check_without_servers(o);
    if (tg_registry_parse(TG_KIND_METHOD, text, &spec) != TG_OK)
        return TG_OK; /* creating the session reports the error */
    const bool given = tg_spec_given(spec, "exchange");
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (strcmp(key->name, "exchange") != 0)
        key++;
    const bool can = strstr(key->choices, "star") != NULL;
    char name[64];
    snprintf(name, sizeof name, "%s", tg_spec_name(spec));
    tg_spec_free(spec);
    if (star_of(text))
        return TG_OK;
    if (given || !can)
        return tg_fail(TG_E_SPEC,
                       given ? "--server%s with --method %.200s: servers are for exchange=star "
                               "and twoway: leave one of them out"
                             : "--server%s with --method %.200s: this method does not have "
                               "exchange=star, so servers cannot sum its gradients",
                       o->net.server ? "" : "s", given ? text : name);
    if (strlen(text) > sizeof o->settled.method - 32)
        return tg_fail(TG_E_SPEC, "--method of %zu characters: allowed: %zu", strlen(text),
                       sizeof o->settled.method - 32);
    snprintf(o->settled.method, sizeof o->settled.method, "%s%cexchange=star", text,
             strchr(text, ':') ? ',' : ':');
    return TG_OK;
}

/* Options that have no effect on a single worker. */
static void check_alone(struct run_options *o)
{
    const char *more = launch_ranks_option(&o->net);
    if (launch_ranks_told(&o->net, o->workers) != 1)
        return;
    if (o->servers == 0 && (o->link || o->links_of_count > 0))
        run_notes_add(
            o, true,
            "--%s with one worker, which sends nothing: it has no effect; allowed: %s with "
            "N >= 2",
            o->link ? "link" : "link-of", more);
    if (o->shard && strcmp(o->shard, "iid") != 0)
        run_notes_add(o, true,
                      "--shard %.64s with one worker, which has all data: it has no effect; "
                      "allowed: %s with N >= 2",
                      o->shard, more);
}

/* A kind of shards whose one key was left out. */
static tg_status check_shard(struct run_options *o)
{
    tg_spec *spec;
    if (!o->shard)
        return TG_OK;
    TG_TRY(shard_parse(o->shard, &spec));
    const tg_key *key = tg_spec_entry(spec)->keys;
    if (key && key->name && !tg_spec_given(spec, key->name))
        run_notes_add(o, false, "--shard %s: %s=%s, since none is given (%s)", tg_spec_name(spec),
                      key->name, key->def, key->help);
    tg_spec_free(spec);
    return TG_OK;
}

static void check_threads(struct run_options *o)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores > 0 && o->codec_threads > (uint64_t)cores)
        run_notes_add(o, true,
                      "--codec-threads %d, but this machine has %ld core%s: compression gets "
                      "slower, not faster",
                      (int)o->codec_threads, cores, cores == 1 ? "" : "s");
}

/* --fusion 25 may mean megabytes, as PyTorch's bucket_cap_mb does. */
static void check_fusion(struct run_options *o)
{
    if (o->fusion > 1 && o->fusion < FUSION_LEAST)
        run_notes_add(o, true,
                      "--fusion %d means %d bytes: nearly every tensor has a bucket of its own; in "
                      "megabytes: --fusion %dMB",
                      (int)o->fusion, (int)o->fusion, (int)o->fusion);
}

/* A run by epochs may be longer. */
static void check_slow(struct run_options *o)
{
    for (size_t i = 0; i < o->slow_count; i++)
        if (o->steps > 0 && o->slow[i].from > o->steps)
            run_notes_add(o, true,
                          "--slow %d:...@%" PRIu64 "-%" PRIu64 ": these steps come after the end "
                          "of this run, which has %" PRIu64 " steps",
                          o->slow[i].rank, o->slow[i].from, o->slow[i].to, o->steps);
}

/* Warn of values that are allowed, and with which nothing is learned. */
static tg_status check_optimizer(struct run_options *o)
{
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, options_optimizer(o), &spec));
    if (tg_spec_real(spec, "lr") == 0)
        run_notes_add(o, true, "optimizer %s with lr=0: nothing is learned", tg_spec_name(spec));
    if (tg_spec_has(spec, "momentum") && tg_spec_real(spec, "momentum") == 1)
        run_notes_add(o, true,
                      "optimizer %s with momentum=1: the velocity never decays, so steps grow "
                      "without bound; usual: 0.9",
                      tg_spec_name(spec));
    tg_spec_free(spec);
    return TG_OK;
}

/* Say where the figures of a simulation are only a guess. */
static void check_simulated(struct run_options *o)
{
    static const char *const adapt[] = {"adacomp", "strom"};
    for (size_t i = 0; o->sim_only && i < sizeof adapt / sizeof adapt[0]; i++)
        if (spec_same_name(options_method(o), adapt[i]))
            run_notes_add(o, false,
                          "--sim-only: what method %s sends depends on the gradients: its bytes "
                          "and times are those of random ones",
                          adapt[i]);
    const bool differ = o->slow_count > 0 || o->links_of_count > 0 || o->jitter > 0;
    if (o->sim_only && differ && spec_same_name(o->strategy, "gossip"))
        run_notes_add(o, false,
                      "--sim-only: strategy gossip is simulated as if each worker waited for all "
                      "others, not only for its partner: its times are at least those of a run");
}

/* Whether the checkpoint from which the run continues is of ssgd. */
static bool resumes_ssgd(const struct run_options *o)
{
    tg_weights *w;
    if (!o->resume_dir || tg_weights_open_saved(o->resume_dir, &w) != TG_OK)
        return false;
    const char *strategy = tg_weights_metadata(w, "strategy");
    const bool is = strategy && strcmp(strategy, "ssgd") == 0;
    tg_weights_close(w);
    return is;
}

/* Whether the optimizer gets averages of what the method sends in every step. To be asked if
 * `updates` is the default strategy. */
static tg_status averages_gradients(const char *strategy, bool *does_p)
{
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, strategy, &spec));
    const char *name = tg_spec_name(spec);
    *does_p = strcmp(name, "ssgd") == 0 || strcmp(name, "pipe") == 0;
    if (strcmp(name, "cd") == 0 && tg_spec_int(spec, "k") != 1)
        *does_p =
            tg_spec_has(spec, "eta_loc") || strcmp(tg_spec_word(spec, "average"), "gradients") == 0;
    tg_spec_free(spec);
    return TG_OK;
}

/* Take the default strategy that fits method and optimizer, and say so if it is not the usual one.
 * Warn if another one was chosen with which the optimizer learns badly; SGD learns only a little
 * worse. */
static tg_status settle_strategy(struct run_options *o)
{
    const char *optimizer = options_optimizer(o);
    const int name = (int)strcspn(optimizer, ":");
    const bool sgd = name == 3 && strncmp(optimizer, "sgd", 3) == 0;
    const char *found =
        tg_registry_default_strategy(options_method(o), o->rules, o->rule_count, optimizer);
    const bool open = !options_given(o, "strategy") && !resumes_ssgd(o);
    bool gradients;
    if (o->net.server || strcmp(found, "ssgd") == 0)
        return TG_OK;
    TG_TRY(averages_gradients(o->strategy, &gradients));
    if (open && sgd)
        run_notes_remark(o,
                         "the default strategy is %s, in which momentum acts before the exchange "
                         "(--strategy ssgd: after it)",
                         found);
    else if (open)
        run_notes_add(
            o, false,
            "the default strategy is %s, in which each worker's optimizer acts before the "
            "exchange: %.*s learns badly from averages of gradients that arrive in parts "
            "(--strategy ssgd)",
            found, name, optimizer);
    else if (!sgd && gradients)
        run_notes_add(o, true,
                      "strategy %.*s: %.*s learns badly from averages of gradients that arrive in "
                      "parts, as the method sends them; instead: --strategy %s",
                      (int)strcspn(o->strategy, ":"), o->strategy, name, optimizer, found);
    if (open)
        o->strategy = found;
    return TG_OK;
}

tg_status run_defaults_settle(struct run_options *o)
{
    o->settled = (struct run_settled){.notes = 0};
    if (o->net.server && !options_given(o, "strategy"))
        o->strategy = "server";
    TG_TRY(optimizer_default_settle(o));
    TG_TRY(settle_method(o));
    TG_TRY(settle_strategy(o));
    check_alone(o);
    TG_TRY(check_shard(o));
    check_threads(o);
    check_simulated(o);
    check_fusion(o);
    check_slow(o);
    TG_TRY(check_optimizer(o));
    TG_TRY(rate_hints_check(o));
    return loss_notes_check(o);
}
