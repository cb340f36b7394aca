#include "command/catalog/methods_card.h"

/* The fields in the order in which they are shown. */
static const struct {
    const char *name, *heading;
    size_t at;
} fields[] = {
    {"sends", "sends", offsetof(tg_method_card, sends)},
    {"bits", "bits per element", offsetof(tg_method_card, bits)},
    {"keeps", "keeps", offsetof(tg_method_card, keeps)},
    {"cost", "cost", offsetof(tg_method_card, cost)},
    {"use", "use it for", offsetof(tg_method_card, use)},
    {"limit", "limiting case", offsetof(tg_method_card, limit)},
};
#define FIELDS (sizeof fields / sizeof fields[0])

static const char *field(const tg_method_card *card, size_t i)
{
    const char *text = *(const char *const *)(const void *)((const char *)card + fields[i].at);
    return text ? text : "";
}

void methods_card_print(const tg_method_card *card, FILE *out)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (field(card, i)[0])
            fprintf(out, "      %-6s %s\n", fields[i].name, field(card, i));
}

json_t *methods_card_json(const tg_method_card *card)
{
    json_t *object = json_pack("{s:s}", "family", card->family);
    for (size_t i = 0; object && i < FIELDS; i++)
        if (json_object_set_new(object, fields[i].name, json_string(field(card, i))) != 0) {
            json_decref(object);
            object = NULL;
        }
    return object;
}

void rate_hint_print(const tg_rate_hint *hint, FILE *out)
{
    if (!hint)
        return;
    if (hint->factor > 0)
        fprintf(out,
                "      rate   %g times that of dense SGD, with momentum=0; known to learn with "
                "lr / (1 - momentum) from %g to %g times%s\n",
                hint->factor, hint->low, hint->high,
                hint->plain ? ", and without momentum only" : "");
    if (hint->expect)
        fprintf(out, "      expect %s%s%s\n", hint->expect, hint->instead ? "; instead: " : "",
                hint->instead ? hint->instead : "");
}

json_t *rate_hint_json(const tg_rate_hint *hint)
{
    if (!hint)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:b, s:b, s:s?, s:s?, s:s?}", "factor", hint->factor, "low",
                     hint->low, "high", hint->high, "methods", (int)hint->methods, "plain",
                     (int)hint->plain, "expect", hint->expect, "instead", hint->instead, "key",
                     hint->key);
}

static void print_cell(const char *text)
{
    putchar(' ');
    for (; *text; text++) {
        if (*text == '|' || *text == '*' || *text == '_' || *text == '<')
            putchar('\\');
        putchar(*text);
    }
    fputs(" |", stdout);
}

void methods_card_markdown(const tg_entry *const *entries, size_t count,
                           bool (*wanted)(const void *arg, const tg_entry *entry), const void *arg)
{
    fputs("| method |", stdout);
    for (size_t i = 0; i < FIELDS; i++)
        print_cell(fields[i].heading);
    puts(" source |");
    for (size_t i = 0; i < FIELDS + 2; i++)
        fputs("|---", stdout);
    puts("|");
    for (size_t e = 0; e < count; e++) {
        if (!wanted(arg, entries[e]))
            continue;
        printf("| `%s` |", entries[e]->name);
        const tg_method_card *card = tg_registry_method_card(entries[e]->name);
        for (size_t i = 0; i < FIELDS; i++)
            print_cell(field(card, i));
        print_cell(entries[e]->source && entries[e]->source[0] ? entries[e]->source : "-");
        putchar('\n');
    }
}
