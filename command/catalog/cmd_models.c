/* telegrad models: lists the networks of the trainer and their layers. */
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/catalog/entry.h"
#include "command/output/format.h"
#include "command/job/options.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include "trainer/model/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct models_options {
    bool json, markdown;
    model_input input; /* all zero: the model's usual input */
    struct cli_words specs;
};

/* A model made for a particular input. */
struct made {
    const tg_entry *entry;
    const char *data;      /* NULL: the input is not from a data set */
    const char *optimizer; /* the default of train */
    model *m;
    char spec[512]; /* in normal form */
};

/* ---- arguments ------------------------------------------------------------------------------- */

/* Read a number from 1 to `most` that ends at `end`; 0: there is none. */
static size_t number(const char **text, char end, size_t most)
{
    char *stop;
    const char *begin = *text;
    const unsigned long n = strtoul(begin, &stop, 10);
    const bool good = begin[0] >= '0' && begin[0] <= '9' && *stop == end && n >= 1 && n <= most;
    *text = good && end ? stop + 1 : stop;
    return good ? n : 0;
}

static bool read_input(const char *text, model_input *in)
{
    const bool images = strchr(text, 'x') != NULL;
    *in = (model_input){0};
    if (images) {
        in->height = number(&text, 'x', 65536);
        in->width = in->height ? number(&text, 'x', 65536) : 0;
        in->channels = in->width ? number(&text, ':', 65536) : 0;
    } else {
        in->context = number(&text, ':', 65536);
    }
    in->classes = in->channels || in->context ? number(&text, '\0', (size_t)1 << 24) : 0;
    return in->classes > 0;
}

enum { JSON = OPTIONS_KEY, MARKDOWN, INPUT };

static tg_status set(void *input, int key, char *arg)
{
    struct models_options *o = input;
    if (key == JSON)
        o->json = true;
    else if (key == MARKDOWN)
        o->markdown = true;
    else if (!read_input(arg, &o->input))
        return tg_fail(TG_E_SPEC,
                       "--input %.64s: allowed: HEIGHTxWIDTHxCHANNELS:CLASSES (32x32x3:10) or "
                       "CONTEXT:VOCABULARY (35:10000)",
                       arg);
    return TG_OK;
}

static struct cli_words *words_of(void *input)
{
    return &((struct models_options *)input)->specs;
}

/* ---- making ---------------------------------------------------------------------------------- */

static tg_status make(const struct models_options *o, const char *text, struct made *made_p)
{
    struct made made = {.m = NULL};
    model_input in;
    tg_spec *spec;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    if (!entry_find(KIND_MODEL, name))
        return entry_unknown(KIND_MODEL, name);
    TG_TRY(model_parse(text, &spec));
    made.entry = tg_spec_entry(spec);
    snprintf(made.spec, sizeof made.spec, "%s", tg_spec_text(spec));
    tg_spec_free(spec);
    TG_TRY(model_usual_data(text, &made.data, &in));
    TG_TRY(model_usual_optimizer(text, &made.optimizer));
    if (!made.optimizer)
        made.optimizer = OPT_OPTIMIZER;
    if (o->input.classes) {
        in = o->input;
        made.data = NULL;
    }
    if (!in.classes)
        return tg_fail(TG_E_ARG, "%s: its usual input is not known: give --input", made.spec);
    TG_TRY(model_create(text, &in, 1, 1, &made.m));
    *made_p = made;
    return TG_OK;
}

/* Call each() for every selected model. */
static tg_status for_all(const struct models_options *o,
                         tg_status (*each)(void *arg, const struct made *made), void *arg)
{
    size_t total;
    const tg_entry *const *entries = model_entries(&total);
    const size_t count = o->specs.count ? o->specs.count : total;
    for (size_t i = 0; i < count; i++) {
        struct made made;
        TG_TRY(make(o, o->specs.count ? o->specs.word[i] : entries[i]->name, &made));
        const tg_status status = each(arg, &made);
        model_destroy(made.m);
        TG_TRY(status);
    }
    return TG_OK;
}

static size_t trained(const model *m)
{
    size_t count = 0;
    for (size_t t = 0; t < m->ntensors; t++)
        count += m->tensors[t].kind == MODEL_TRAINED;
    return count;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void input_text(const struct made *made, char *text, size_t room)
{
    const model_input *in = &made->m->input;
    const char *data = made->data ? made->data : "", *comma = made->data ? ", " : "";
    if (in->context)
        snprintf(text, room, "%s%s%.16s tokens of %.16s", data, comma,
                 format_count(in->context).text, format_count(in->classes).text);
    else
        snprintf(text, room, "%s%s%zu x %zu x %zu, %zu class%s", data, comma, in->height, in->width,
                 in->channels, in->classes, in->classes == 1 ? "" : "es");
}

static void shape_text(const model_tensor *t, char *text, size_t room)
{
    size_t at = 0;
    for (size_t d = 0; d < t->ndim && at < room; d++)
        at += (size_t)snprintf(text + at, room - at, "%s%zu", d ? " x " : "", t->shape[d]);
}

static tg_status print_one(void *arg, const struct made *made)
{
    const model *m = made->m;
    bool *later = arg;
    char text[160];
    if (*later)
        putchar('\n');
    *later = true;
    TG_TRY(entry_print(KIND_MODEL, made->entry, console_out_columns()));
    input_text(made, text, sizeof text);
    printf("\n%s (%s)\n%s parameters in %zu tensors, %s a sample\ndefault optimizer: %s\n\n",
           made->spec, text, format_count(m->params_total).text, trained(m),
           format_ratio(m->flops / 1e6, " MFLOP").text, made->optimizer);
    struct table *t = table_create(4);
    table_fit(t, (size_t)console_out_columns());
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory");
    table_row(t);
    table_cell(t, "tensor");
    table_cell(t, "shape");
    table_cell(t, "elements");
    for (size_t i = 0; i < m->ntensors; i++) {
        table_row(t);
        table_cell(t, m->tensors[i].name);
        shape_text(&m->tensors[i], text, sizeof text);
        table_cell(t, text);
        table_cell(t, format_count(m->tensors[i].n).text);
        table_cell(t, m->tensors[i].kind == MODEL_STATISTIC ? "statistic" : "");
    }
    const tg_status status = output_table(t);
    table_destroy(t);
    return status;
}

static tg_status print_markdown(void *arg, const struct made *made)
{
    char text[160];
    (void)arg;
    input_text(made, text, sizeof text);
    printf("| `%s` | %s | %s | %s | %s |\n", made->spec, text,
           format_count(made->m->params_total).text, format_ratio(made->m->flops / 1e6, "").text,
           made->entry->source && made->entry->source[0] ? made->entry->source : "-");
    return TG_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *tensor_json(const model_tensor *t)
{
    json_t *shape = json_array();
    for (size_t d = 0; shape && d < t->ndim; d++) {
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:I, s:b}", "name", t->name, "shape", shape, "elements",
                     (json_int_t)t->n, "trained", (int)(t->kind == MODEL_TRAINED));
}

static tg_status append_json(void *arg, const struct made *made)
{
    const model *m = made->m;
    json_t *list = arg, *object;
    TG_TRY(entry_json(KIND_MODEL, made->entry, &object));
    json_t *tensors = json_array();
    int failed = json_array_append_new(list, object);
    for (size_t t = 0; t < m->ntensors && !failed; t++)
        failed = json_array_append_new(tensors, tensor_json(&m->tensors[t]));
    json_t *more = json_pack(
        "{s:s, s:s?, s:s, s:{s:I, s:I, s:I, s:I, s:I}, s:I, s:f, s:o}", "spec", made->spec, "data",
        made->data, "optimizer", made->optimizer, "input", "height", (json_int_t)m->input.height,
        "width", (json_int_t)m->input.width, "channels", (json_int_t)m->input.channels, "context",
        (json_int_t)m->input.context, "classes", (json_int_t)m->input.classes, "parameters",
        (json_int_t)m->params_total, "flops", m->flops, "tensors", tensors);
    failed = failed || !more || json_object_update(object, more) != 0;
    json_decref(more);
    return failed ? tg_fail(TG_E_NOMEM, "out of memory: %s", made->spec) : TG_OK;
}

static tg_status print_json(const struct models_options *o)
{
    json_t *list = json_array();
    json_t *all = json_pack("{s:s, s:o}", "version", tg_version(), "models", list);
    tg_status status =
        all ? for_all(o, append_json, list) : tg_fail(TG_E_NOMEM, "out of memory: list of models");
    if (status == TG_OK && json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0)
        putchar('\n');
    json_decref(all);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static tg_status print(const struct models_options *o)
{
    bool later = false;
    if (o->json && o->markdown)
        return tg_fail(TG_E_SPEC, "--json and --markdown cannot be combined");
    if (o->input.classes && !o->specs.count && !o->json && !o->markdown)
        return tg_fail(TG_E_SPEC, "--input requires a model: telegrad models SPEC --input INPUT");
    if (o->json)
        return print_json(o);
    if (o->markdown) {
        puts("| model | input | parameters | MFLOP a sample, forward | source |");
        puts("|---|---|---|---|---|");
        return for_all(o, print_markdown, NULL);
    }
    if (o->specs.count)
        return for_all(o, print_one, &later);
    entry_print_table(KIND_MODEL, console_out_columns());
    puts("\ntelegrad models NAME shows the keys, tensors and operations of one");
    return TG_OK;
}

static const struct cli_option options[] = {
    {.help = "Options"},
    {"input", INPUT, "INPUT", "that of the model's papers", NULL,
     "HxWxC:N for images of that height, width and number of channels in N classes, or T:N for "
     "samples of T tokens out of N"},
    {"json", JSON, NULL, NULL, NULL, "print everything as one JSON object"},
    {"markdown", MARKDOWN, NULL, NULL, NULL, "print the table of docs/models.md"},
    {0}};

static int cmd_models(int argc, char **argv)
{
    struct models_options o = {.json = false};
    const int parsed = options_parse(&command_models, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    tg_status status = print(&o);
    if (status == TG_OK)
        status = output_flush();
    return cli_end(status);
}

const struct cli_command command_models = {
    .name = "models",
    .run = cmd_models,
    .lists = true,
    .summary = "list the networks",
    .usage = "[OPTION]... [SPEC]...",
    .about = "List the networks that can be trained; with SPECs, their tensors, parameters and "
             "operations (of the forward pass of a sample; a multiplication and its addition are "
             "two). SPEC is NAME or NAME:key=value,... as in telegrad train --model.",
    .operands = "models",
    .options = options,
    .set = set,
    .words_of = words_of,
    .examples = "telegrad models resnet20 vgg11:bn=no --input 32x32x3:100"};
