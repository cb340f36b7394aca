/* The command to paste: the recommended way of training, and everything that the answer assumes. */
#include "command/advise/advise.h"
#include "command/advise/advise_known.h"
#include "command/job/options.h"
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

/* The keys that a run from the beginning needs: warm-ups, which the predicted steady state does not
 * have, and a threshold that suits any model. */
static const char *strategy_key(const advice_way *w)
{
    return w->family == ADVICE_OD || w->family == ADVICE_CD ? "warmup=1ep" : NULL;
}

static const char *method_key(const advice_way *w)
{
    if (advise_same_name(w->method_text, "dgc"))
        return "warmup=1ep";
    return advise_same_name(w->method_text, "2bit") ? "threshold=auto" : NULL;
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

static void put_command(FILE *f, const struct advise_answer *a)
{
    const struct run_options *o = a->options;
    const advice_way *w = &a->way[0];
    const bool net = net_options_join(&o->net);
    const bool mpi = !net && (a->processes || a->workers > TG_RANKS_MAX);
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
    put_spec(f, "strategy", w->strategy, strategy_key(w));
    put_spec(f, "method", w->method_text, method_key(w));
    fprintf(f, " --epochs %d", ADVISE_EPOCHS);
    if (net)
        put_net(f, &o->net);
}

tg_status advise_command(const struct advise_answer *a, char **text_p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f)
        put_command(f, a);
    if (!f || fclose(f) != 0 || !text)
        return tg_fail(TG_E_NOMEM, "out of memory: a command");
    *text_p = text;
    return TG_OK;
}
