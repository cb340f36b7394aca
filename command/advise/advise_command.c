/* The command to paste: the recommended way of training, and everything that the answer assumes. */
#include "command/advise/advise.h"
#include "command/advise/advise_known.h"
#include "command/job/options.h"
#include "command/job/spec_words.h"
#include "command/output/format.h"
#include "telegrad/tools.h"
#include "telegrad/transport.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_word(FILE *f, const char *word)
{
    char *quoted = format_shell(word);
    fputs(quoted ? quoted : word, f);
    free(quoted);
}

static void put_option(FILE *f, const char *name, const char *value)
{
    fprintf(f, " --%s ", name);
    put_word(f, value);
}

/* Print an option with a spec, and one more key if `key` is not NULL. */
static void put_spec(FILE *f, const char *name, const char *spec, const char *key)
{
    fprintf(f, " --%s %s", name, spec);
    if (key)
        fprintf(f, "%c%s", strchr(spec, ':') ? ',' : ':', key);
}

/* The keys that a run from the beginning needs: warm-ups, which the predicted steady state, and so
 * a simulation of it, does not have, and a threshold that suits any model. */
static const char *strategy_key(const advice_way *w, bool simulated)
{
    return w->family != ADVICE_OD && w->family != ADVICE_CD ? NULL
           : simulated                                      ? "warmup=0"
                                                            : "warmup=1ep";
}

static const char *method_key(const advice_way *w, bool simulated)
{
    if (spec_same_name(w->method_text, "dgc"))
        return simulated ? "warmup=0" : "warmup=1ep";
    return spec_same_name(w->method_text, "2bit") ? "threshold=auto" : NULL;
}

/* For rank 0; the others join it with options of their own. */
static void put_net(FILE *f, const struct net_options *net)
{
    const struct {
        const char *name, *value;
    } all[] = {{"listen", net->listen},
               {"advertise", net->advertise},
               {"key", net->key},
               {"allow", net->allow}};
    for (size_t i = 0; i < TG_COUNT(all); i++)
        if (all[i].value)
            put_option(f, all[i].name, all[i].value);
    fprintf(f, " --ranks %" PRIu64 "%s", net->ranks, net->insecure ? " --insecure" : "");
}

/* Servers with their links, and how they are used: in step they sum, by any strategy. */
static void put_servers(FILE *f, const struct advise_answer *a)
{
    const advice_served *w = &a->served.mode[a->served.taken];
    fprintf(f, " --servers %u", w->servers);
    for (unsigned i = 0; a->server_link_text && i < w->servers; i++) {
        char link[128];
        snprintf(link, sizeof link, "%u=%s", (unsigned)a->workers + i, a->server_link_text);
        put_option(f, "link-of", link);
    }
    if (a->served.taken > 0)
        fprintf(f, " --strategy server --server-mode %s", w->mode);
}

/* served: the choice with servers. */
static void put_command(FILE *f, const struct advise_answer *a, bool served)
{
    const struct run_options *o = a->options;
    const advice_way *w = &a->way[0];
    const char *method = served ? a->served.mode[a->served.taken].method_text : "";
    const advice_way plain = {.family = ADVICE_SSGD, .method_text = method};
    const bool net = net_options_join(&o->net);
    const bool mpi = !net && a->processes, simulated = a->workers > TG_RANKS_MAX;
    if (mpi)
        fprintf(f, "mpirun -n %d ", a->workers);
    fputs("telegrad train", f);
    put_option(f, "model", o->model);
    if (o->data)
        put_option(f, "data", o->data);
    if (!net && !mpi)
        fprintf(f, " --workers %d", a->workers);
    fprintf(f, " --batch %" PRIu64, o->batch);
    if (o->precision != TRAIN_FP32)
        put_option(f, "precision", train_precision_names[o->precision]);
    if (o->driver != TG_DRIVER_AUTO)
        put_option(f, "driver", options_driver_name(o->driver));
    if (o->link)
        put_option(f, "link", o->link);
    if (served)
        put_servers(f, a);
    else if (w->family != ADVICE_SSGD) /* else train chooses ssgd or updates */
        put_spec(f, "strategy", w->strategy, strategy_key(w, simulated));
    w = served ? &plain : w;
    put_spec(f, "method", w->method_text, method_key(w, simulated));
    if (simulated)
        fprintf(f, " --steps %d --clock virtual --tau %.6gms --sim-only", ADVISE_SIM_STEPS,
                1e3 * advice_tau(a->advice));
    else
        fprintf(f, " --epochs %d", ADVISE_EPOCHS);
    if (net)
        put_net(f, &o->net);
}

static tg_status make_text(const struct advise_answer *a, bool served, char **text_p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f)
        put_command(f, a, served);
    if (!f || fclose(f) != 0 || !text)
        return tg_fail(TG_E_NOMEM, "out of memory: a command");
    *text_p = text;
    return TG_OK;
}

tg_status advise_command(const struct advise_answer *a, char **text_p)
{
    return make_text(a, false, text_p);
}

tg_status advise_served_command(const struct advise_answer *a, char **text_p)
{
    return make_text(a, true, text_p);
}
