#include "command/tune/tune.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include "command/train/data_text.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EDGE_LEAST 3   /* values of a key, from which on the edges are worth a remark */
#define STEPS_LEAST 20 /* of the first rung; fewer are worth a remark */
#define WORSE 0.01     /* of accuracy, or of the loss as a share: what the winner may lose */

/* ---- parts ----------------------------------------------------------------------------------- */

static const char *state_of(const struct tune *t, size_t run)
{
    return tune_diverged(&t->run[run]) ? "diverged" : run == t->order[0] ? "winner" : "stopped";
}

static uint64_t steps_of(const struct tune_run *run)
{
    const int reached = tune_reached(run);
    return reached > 0 ? run->at[reached - 1] : 0;
}

/* The rank of each place: runs that were judged equal share one. */
static size_t rank_at(const struct tune *t, size_t place)
{
    while (place > 0 && !tune_diverged(&t->run[t->order[place]]) &&
           tune_tie(t, t->order[place - 1], t->order[place]))
        place--;
    return place + 1;
}

static bool varies(const struct tune *t, const char *option)
{
    for (size_t k = 0; k < t->o->grid.keys; k++)
        if (strcmp(t->o->grid.key[k].option, option) == 0)
            return true;
    return false;
}

/* The winner's value of an option that varies: the last of its keys has all that were added. */
static const char *winning(const struct tune *t, const char *option)
{
    const struct tune_grid *g = &t->o->grid;
    const size_t run = t->order[0];
    const char *value = NULL;
    for (size_t k = 0; k < g->keys; k++)
        if (strcmp(g->key[k].option, option) == 0 && (g->key[k].key || !value))
            value = g->key[k].key ? t->run[run].text[k] : tune_grid_value(g, run, k);
    return value;
}

/* Append a word, quoted for a shell where that is needed. */
static tg_status add_word(char **text, const char *word)
{
    char *quoted = word ? format_shell(word) : NULL, *longer = NULL;
    const bool ok = quoted && asprintf(&longer, "%s %s", *text, quoted) >= 0;
    free(quoted);
    if (!ok)
        return tg_fail(TG_E_NOMEM, "out of memory: the winner's command");
    free(*text);
    *text = longer;
    return TG_OK;
}

static tg_status add_option(char **text, const char *name, const char *value)
{
    char option[64];
    snprintf(option, sizeof option, "--%.60s", name);
    TG_TRY(add_word(text, option));
    return value ? add_word(text, value) : TG_OK;
}

static tg_status fill_command(const struct tune *t, char **text)
{
    static const char *const own[] = {"vary", "seeds", "holdout", "seed", "log-every"};
    const struct tune_options *o = t->o;
    char seed[24];
    for (size_t i = 0; i < o->words; i++) {
        bool left_out = varies(t, o->word[i].name);
        for (size_t k = 0; k < TG_COUNT(own); k++)
            left_out = left_out || strcmp(o->word[i].name, own[k]) == 0;
        if (!left_out)
            TG_TRY(add_option(text, o->word[i].name, o->word[i].value));
    }
    for (size_t k = 0; k < o->grid.keys; k++) {
        bool before = false;
        for (size_t i = 0; i < k; i++)
            before = before || strcmp(o->grid.key[i].option, o->grid.key[k].option) == 0;
        if (!before)
            TG_TRY(add_option(text, o->grid.key[k].option, winning(t, o->grid.key[k].option)));
    }
    snprintf(seed, sizeof seed, "%" PRIu64, o->common.seed);
    return add_option(text, "seed", seed);
}

/* "telegrad train ..." with the winner's values; freed by the caller. */
static tg_status command_of(const struct tune *t, char **text_p)
{
    char *text = strdup("telegrad train");
    if (!text)
        return tg_fail(TG_E_NOMEM, "out of memory: the winner's command");
    const tg_status status = fill_command(t, &text);
    if (status != TG_OK) {
        free(text);
        return status;
    }
    *text_p = text;
    return TG_OK;
}

/* Of the winner at full length; of losses if they rank the runs, else of accuracies. */
struct summary {
    double mean, low, high, loss; /* loss: the mean */
    bool diverged;                /* at least one seed did */
};

static struct summary summarize(const struct tune *t)
{
    struct summary s = {.low = INFINITY, .high = -INFINITY};
    for (uint64_t i = 0; i < t->o->seeds; i++) {
        const struct tune_result *r = &t->final[i];
        const double v = t->images ? r->accuracy : r->loss;
        s.diverged = s.diverged || r->diverged;
        s.mean += v / (double)t->o->seeds;
        s.loss += r->loss / (double)t->o->seeds;
        s.low = fmin(s.low, v);
        s.high = fmax(s.high, v);
    }
    return s;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_caption(const struct tune *t)
{
    const struct run_options *o = &t->o->common;
    if (!varies(t, "model"))
        printf("%s on ", o->model);
    printf("%s (%s), %s to train, %s held out; %" PRIu64 " worker%s", train_data_name(t->held),
           train_data_origin(t->held), format_count(train_data_train(t->held)).text,
           format_count(train_data_test(t->held)).text, o->workers, o->workers == 1 ? "" : "s");
    if (!varies(t, "batch"))
        printf(", batch %" PRIu64, o->batch);
    putchar('\n');
}

static void put_result(struct table *table, const struct tune *t, const struct tune_result *r)
{
    char text[64] = "-";
    if (r->known && r->diverged)
        snprintf(text, sizeof text, "diverged");
    else if (r->known && t->images)
        snprintf(text, sizeof text, "%.2f %% (%.4f)", 100 * r->accuracy, r->loss);
    else if (r->known)
        snprintf(text, sizeof text, "%.4f", r->loss);
    table_cell(table, text);
}

static void fill_table(struct table *table, const struct tune *t)
{
    const struct tune_grid *g = &t->o->grid;
    char text[32];
    table_row(table);
    table_cell(table, "rank");
    for (size_t k = 0; k < g->keys; k++)
        table_cell(table, g->key[k].name);
    table_cell(table, "at 1/9");
    table_cell(table, "at 1/3");
    table_cell(table, "steps");
    table_cell(table, "state");
    for (size_t i = 0; i < t->runs; i++) {
        const size_t run = t->order[i];
        table_row(table);
        snprintf(text, sizeof text, "%zu", rank_at(t, i));
        table_cell(table, text);
        for (size_t k = 0; k < g->keys; k++)
            table_cell(table, tune_grid_value(g, run, k));
        for (int rung = 0; rung < TUNE_RUNGS; rung++)
            put_result(table, t, &t->run[run].result[rung]);
        table_cell(table, format_count(steps_of(&t->run[run])).text);
        table_cell(table, state_of(t, run));
    }
}

static tg_status print_table(const struct tune *t)
{
    struct table *table = table_create(1 + t->o->grid.keys + TUNE_RUNGS + 2);
    if (!table)
        return tg_fail(TG_E_NOMEM, "out of memory: the table");
    table_fit(table, (size_t)console_out_columns());
    fill_table(table, t);
    const tg_status status = output_table(table);
    table_destroy(table);
    return status;
}

/* A winner at the edge of what was tried may not be the best there is. */
static void print_edges(const struct tune *t)
{
    for (size_t k = 0; k < t->o->grid.keys; k++) {
        const struct tune_key *key = &t->o->grid.key[k];
        const char *own = tune_grid_value(&t->o->grid, t->order[0], k);
        double v = 0, other = 0;
        bool least = true, most = true, numbers = tg_real_parse(own, &v);
        for (size_t i = 0; i < key->count && numbers; i++) {
            numbers = tg_real_parse(key->value[i], &other);
            least = least && v <= other;
            most = most && v >= other;
        }
        if (numbers && key->count >= EDGE_LEAST && (least || most))
            printf("! %s=%s is the %s of its values: a %s one may do better\n", key->name, own,
                   least ? "smallest" : "largest", least ? "smaller" : "larger");
    }
}

/* "76.00 to 76.40; seeds 1 to 3", or for one seed "seed 1". */
static void spread_text(const struct tune *t, const struct summary *s, char text[96])
{
    const uint64_t first = t->o->common.seed, last = first + t->o->seeds - 1;
    const double scale = t->images ? 100 : 1;
    if (last > first)
        snprintf(text, 96, "%.*f to %.*f; seeds %" PRIu64 " to %" PRIu64, t->images ? 2 : 4,
                 scale * s->low, t->images ? 2 : 4, scale * s->high, first, last);
    else
        snprintf(text, 96, "seed %" PRIu64, first);
}

static void print_final(const struct tune *t)
{
    const struct summary s = summarize(t);
    char spread[96];
    spread_text(t, &s, spread);
    if (s.diverged)
        printf("test           diverged at full length, with at least one seed\n");
    else if (t->images)
        printf("test           accuracy %.2f %% (%s), loss %.4f\n", 100 * s.mean, spread, s.loss);
    else
        printf("test           loss %.4f (%s)%s\n", s.mean, spread,
               data_text_per_token(train_data_unit(t->held), s.mean).text);
}

/* Runs that are judged after a few steps are judged by their beginning. */
static void print_few(const struct tune *t)
{
    uint64_t least = t->run[0].at[0];
    for (size_t i = 1; i < t->runs; i++)
        least = t->run[i].at[0] < least ? t->run[i].at[0] : least;
    if (least < STEPS_LEAST)
        printf("! the column at 1/9 is after %" PRIu64 " step%s, which may mislead: runs of at "
               "least %d steps are judged after %d\n",
               least, least == 1 ? "" : "s", STEPS_LEAST * TUNE_SHARE * TUNE_SHARE, STEPS_LEAST);
}

/* A winner that more training has made worse: the short runs have misled. */
static void print_worse(const struct tune *t)
{
    const struct summary s = summarize(t);
    const struct tune_result *before = &t->run[t->order[0]].result[TUNE_RUNGS - 1];
    if (s.diverged)
        printf("! the winner learned in a third of the length, and not at full length: a lower "
               "rate may do better\n");
    else if (t->images && s.mean < before->accuracy - WORSE)
        printf("! the winner is worse at full length, %.2f %%, than at 1/3, %.2f %%: the short "
               "runs misled; more steps, or lower rates, may do better\n",
               100 * s.mean, 100 * before->accuracy);
    else if (!t->images && s.mean > before->loss * (1 + WORSE))
        printf("! the winner is worse at full length, a loss of %.4f, than at 1/3, %.4f: the short "
               "runs misled; more steps, or lower rates, may do better\n",
               s.mean, before->loss);
}

tg_status tune_print(const struct tune *t)
{
    char picture[PATH_MAX], *command;
    TG_TRY(tune_path_picture(t->o->dir, picture));
    TG_TRY(command_of(t, &command));
    print_caption(t);
    const tg_status status = print_table(t);
    if (status != TG_OK) {
        free(command);
        return status;
    }
    if (t->runs > 1 && tune_tie(t, t->order[0], t->order[1]))
        printf("! %s did as well as the winner, and was given later\n", t->run[t->order[1]].name);
    print_edges(t);
    print_few(t);
    print_worse(t);
    printf("winner         %s\n", t->run[t->order[0]].name);
    print_final(t);
    printf("picture        %s\n%s\n", picture, command);
    free(command);
    return output_flush();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *values_json(const struct tune *t, size_t run)
{
    const struct tune_grid *g = &t->o->grid;
    json_t *values = json_object();
    for (size_t k = 0; k < g->keys; k++)
        json_object_set_new(values, g->key[k].name, jsonl_text(tune_grid_value(g, run, k)));
    return values;
}

static json_t *rungs_json(const struct tune_run *run)
{
    json_t *list = json_array();
    for (int i = 0; i < tune_reached(run); i++)
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)run->at[i], /**/
                            "accuracy", jsonl_real(run->result[i].accuracy),        /**/
                            "loss", jsonl_real(run->result[i].loss),                /**/
                            "params_hash", json_sprintf("%016" PRIx64, run->result[i].hash)));
    return list;
}

static json_t *row_json(const struct tune *t, size_t place)
{
    const size_t run = t->order[place];
    char file[32];
    tune_run_file(run, file);
    return json_pack("{s:I, s:s, s:o, s:o, s:I, s:s}", "rank", (json_int_t)rank_at(t, place), "run",
                     file, "values", values_json(t, run), "rungs", rungs_json(&t->run[run]),
                     "steps", (json_int_t)steps_of(&t->run[run]), "state", state_of(t, run));
}

static json_t *finals_json(const struct tune *t)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < t->o->seeds; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:o, s:b, s:o}",                       /**/
                            "seed", (json_int_t)(t->o->common.seed + i),       /**/
                            "test_accuracy", jsonl_real(t->final[i].accuracy), /**/
                            "test_loss", jsonl_real(t->final[i].loss),         /**/
                            "diverged", (int)t->final[i].diverged,             /**/
                            "params_hash", json_sprintf("%016" PRIx64, t->final[i].hash)));
    return list;
}

tg_status tune_print_json(const struct tune *t)
{
    char *command;
    TG_TRY(command_of(t, &command));
    tg_status status = TG_OK;
    for (size_t i = 0; i < t->runs && status == TG_OK; i++)
        status = jsonl_print_new(row_json(t, i));
    if (status == TG_OK)
        status = jsonl_print_new(json_pack("{s:o, s:o, s:o}", "winner", /**/
                                           values_json(t, t->order[0]), "seeds", finals_json(t),
                                           "command", jsonl_text(command)));
    free(command);
    return status;
}
