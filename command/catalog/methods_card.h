/* What a method is good for, at a glance: the card of `telegrad methods`, as text, as JSON, and as
 * a row of docs/methods.md. */
#ifndef TG_CLI_METHODS_CARD_H
#define TG_CLI_METHODS_CARD_H

#include <jansson.h>
#include <stdio.h>
#include "telegrad/registry.h"
#include "telegrad/spec.h"

/* Print the lines of the card below an entry of `telegrad methods`. */
void methods_card_print(const tg_method_card *card, FILE *out);

/* The card as an object; NULL: out of memory. */
json_t *methods_card_json(const tg_method_card *card);

/* The learning rate that suits a method or strategy, as lines below its entry and as an object
 * (null: the same as for dense gradients; NULL: out of memory). hint may be NULL. */
void rate_hint_print(const tg_rate_hint *hint, FILE *out);
json_t *rate_hint_json(const tg_rate_hint *hint);

/* Print a Markdown table with a row for each entry (count) for which wanted(arg, entry) is true. */
void methods_card_markdown(const tg_entry *const *entries, size_t count,
                           bool (*wanted)(const void *arg, const tg_entry *entry), const void *arg);

#endif
