/* The card of an entry: its description and its keys. */
#include "command/catalog/entry.h"
#include "command/catalog/methods_card.h"
#include "command/job/known_losses.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bound as text, with up to 10 digits: powers of two and the like are shown exactly. */
static const char *bound(double v, char text[32])
{
    snprintf(text, 32, fabs(v) < 1e15 ? "%.10g" : "%.3g", v);
    return text;
}

static void print_allowed(const tg_key *key, FILE *out)
{
    char low[32], high[32];
    if (key->type == TG_KEY_CHOICE) {
        fprintf(out, "%s", key->choices);
    } else if (key->type == TG_KEY_FLAG) {
        fprintf(out, "yes|no");
    } else if (!entry_key_has_range(key)) {
        fprintf(out, "%s", entry_key_type(key));
    } else {
        fprintf(out, "%s", entry_key_type(key));
        /* A bound of 1e15 or more only protects the arithmetic: it is not shown. */
        if (isfinite(key->min) && fabs(key->min) < 1e15)
            fprintf(out, " %s %s", key->min_open ? ">" : ">=", bound(key->min, low));
        if (isfinite(key->max) && fabs(key->max) < 1e15)
            fprintf(out, "%s <= %s", isfinite(key->min) ? "," : "", bound(key->max, high));
        if (key->choices)
            fprintf(out, " or %s", key->choices);
    }
}

/* Print the defaults that a strategy sets. */
static void print_defaults(const char *name, FILE *out)
{
    const char *optimizer = tg_registry_strategy_optimizer(name);
    fprintf(out, "      default method: %s\n", tg_registry_strategy_method(name));
    if (optimizer)
        fprintf(out, "      default optimizer: %s\n", optimizer);
}

static void print_card(int kind, const tg_entry *entry, FILE *out)
{
    fprintf(out, "  %s: %s\n", entry->name, entry->summary);
    if (kind == TG_KIND_METHOD)
        methods_card_print(tg_registry_method_card(entry->name), out);
    if (kind == TG_KIND_STRATEGY)
        print_defaults(entry->name, out);
    if (kind != KIND_MODEL) {
        rate_hint_print(tg_registry_rate_hint((tg_kind)kind, entry->name), out);
        known_losses_print((tg_kind)kind, entry->name, out);
    }
    for (const tg_key *key = entry->keys; key && key->name; key++) {
        fprintf(out, "      %s%s%s  (", key->name, key->def ? "=" : "", key->def ? key->def : "");
        print_allowed(key, out);
        fprintf(out, ")  %s\n", key->help ? key->help : "");
    }
    if (entry->source && entry->source[0])
        fprintf(out, "      source: %s\n", entry->source);
}

/* Print a line wrapped at blanks; continuation lines are indented further than the first. */
static void print_broken(const char *line, size_t len, size_t most)
{
    const size_t indent = strspn(line, " ") + 4;
    for (size_t room = most; most > 2 * indent && len > room; room = most - indent) {
        size_t cut = room;
        while (cut > indent && line[cut] != ' ')
            cut--;
        if (cut <= indent) /* the word is longer than a line */
            cut = room + strcspn(line + room, " \n");
        if (cut >= len)
            break;
        printf("%.*s\n%*s", (int)cut, line, (int)indent, "");
        line += cut + 1;
        len -= cut + 1;
    }
    printf("%.*s\n", (int)len, line);
}

tg_status entry_print(int kind, const tg_entry *entry, int most)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out)
        print_card(kind, entry, out);
    if (!out || fclose(out) != 0 || !text) {
        free(text);
        return tg_fail(TG_E_NOMEM, "out of memory: card of %s", entry->name);
    }
    for (const char *line = text; *line;) {
        const size_t len = strcspn(line, "\n");
        print_broken(line, len, (size_t)most);
        line += len + 1;
    }
    free(text);
    return TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The family of an entry; NULL: the kind has no families. */
static const char *family(int kind, const tg_entry *entry)
{
    return kind == TG_KIND_METHOD ? tg_registry_method_card(entry->name)->family : NULL;
}

/* Whether an entry before number i has the same family. */
static bool seen_before(int kind, const tg_entry *const *entries, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(family(kind, entries[k]), family(kind, entries[i])) == 0)
            return true;
    return false;
}

static void print_line(const tg_entry *entry, int indent, int width, int most)
{
    const int room = most > 0 ? most - indent - width - 2 : INT_MAX;
    const int len = (int)strlen(entry->summary);
    printf("%*s%-*s  ", indent, "", width, entry->name);
    if (len <= room || room < 4)
        puts(entry->summary);
    else
        printf("%.*s...\n", room - 3, entry->summary);
}

void entry_print_table(int kind, int most)
{
    size_t count;
    int width = 0;
    const tg_entry *const *entries = entries_of(kind, &count);
    for (size_t i = 0; i < count; i++) {
        const int len = (int)strlen(entries[i]->name);
        width = len > width ? len : width;
    }
    for (size_t i = 0; i < count; i++) {
        const char *of = family(kind, entries[i]);
        if (!of) {
            print_line(entries[i], 0, width, most);
        } else if (!seen_before(kind, entries, i)) {
            puts(of);
            for (size_t k = i; k < count; k++)
                if (strcmp(family(kind, entries[k]), of) == 0)
                    print_line(entries[k], 2, width, most);
        }
    }
}
