/* telegrad advise: which strategy and method over a network, and why. */
#include "cli/advise.h"
#include "cli/cli.h"
#include "cli/cli_run.h"
#include "cli/console.h"
#include "cli/outfile.h"
#include <inttypes.h>
#include <string.h>

struct command {
    struct run_options o;
    bool json;
    const char *svg;
};

enum { MODEL = OPTIONS_KEY, LINK, WORKERS, BATCH, PRECISION, TAU, DRIVER, JSON, SVG };

static const struct argp_option options[] = {{.name = "model", .key = MODEL, .arg = "SPEC"},
                                             {.name = "link", .key = LINK, .arg = "LINK"},
                                             {.name = "workers", .key = WORKERS, .arg = "N"},
                                             {.name = "batch", .key = BATCH, .arg = "N"},
                                             {.name = "precision", .key = PRECISION, .arg = "P"},
                                             {.name = "tau", .key = TAU, .arg = "measured|TIME"},
                                             {.name = "driver", .key = DRIVER, .arg = "D"},
                                             {.name = "json", .key = JSON},
                                             {.name = "svg", .key = SVG, .arg = "FILE"},
                                             {0}};

static tg_status set(struct command *c, int key, const char *arg)
{
    if (key == JSON)
        c->json = true;
    else if (key == SVG)
        c->svg = arg;
    else /* as train takes them */
        return options_set(&c->o, OPT_TRAIN, options[key - MODEL].name, arg);
    return TG_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key < MODEL || key > SVG)
        return ARGP_ERR_UNKNOWN;
    if (set(state->input, key, arg) == TG_OK)
        return 0;
    console_error("%s", tg_error());
    return EINVAL;
}

static tg_status check(const struct command *c)
{
    const struct run_options *o = &c->o;
    if (o->workers < 2)
        return tg_fail(TG_E_SPEC, "--workers %" PRIu64 ": nothing to exchange: allowed: 2 to %d",
                       o->workers, TG_SIM_WORLD_MAX);
    if (!o->link)
        return tg_fail(TG_E_SPEC, "no --link: allowed: --link RATE,DELAY, as 100mbit,20ms");
    if (o->tau && o->tau_ns == 0)
        return tg_fail(TG_E_SPEC, "--tau \"%.64s\": allowed: measured, or a time as 150ms", o->tau);
    return c->svg ? outfile_check("--svg", c->svg, false) : TG_OK;
}

static tg_status answer(const struct command *c, struct advise_answer *a)
{
    TG_TRY(advise_answer_make(a));
    if (c->svg)
        TG_TRY(advise_draw(a, c->svg));
    return c->json ? advise_print_json(a) : advise_print(a);
}

static tg_status advise(const struct command *c)
{
    const train_job job = run_job_of(&c->o, NULL);
    const advice_request request = {.job = &job, .world = (int)c->o.workers};
    struct advise_answer a = {
        .options = &c->o, .workers = (int)c->o.workers, .link_text = c->o.link};
    advice *made;
    TG_TRY(tg_link_parse(c->o.link, &a.link));
    TG_TRY(advice_create(&request, &made));
    a.advice = made;
    const tg_status status = answer(c, &a);
    advice_destroy(made);
    return status;
}

int cmd_advise(int argc, char **argv)
{
    const struct argp parser = {.options = options, .parser = parse};
    struct command c = {.json = false};
    options_defaults(&c.o, 4);
    const int result = options_parse(&parser, "advise", help_advise, argc, argv, &c);
    if (result >= 0)
        return result;
    tg_status status = check(&c);
    if (status == TG_OK)
        status = advise(&c);
    if (status == TG_OK)
        return CLI_OK;
    console_error("%s", tg_error());
    return cli_exit_status(status);
}
