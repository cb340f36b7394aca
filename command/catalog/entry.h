/* An entry of a registry, as `telegrad methods`, `telegrad models` and the like show it. */
#ifndef TG_CLI_ENTRY_H
#define TG_CLI_ENTRY_H

#include <jansson.h>
#include "telegrad/registry.h"
#include "telegrad/spec.h"

/* A tg_kind, or this: a model is no part of the library, but is named by the same kind of string.
 */
#define KIND_MODEL TG_KIND_COUNT
#define KINDS (KIND_MODEL + 1)

/* "strategy"; "strategies", which is the command that lists them. */
const char *entry_kind(int kind);
const char *entry_kinds(int kind);
/* The kind of either name; -1: none. */
int entry_kind_find(const char *name);

const tg_entry *const *entries_of(int kind, size_t *count_p);
const tg_entry *entry_find(int kind, const char *name); /* NULL: none */

/* The failure to find a name among a kind: says whether it is one of another kind, or is near one.
 * Errors TG_E_SPEC, always */
TG_NODISCARD tg_status entry_unknown(int kind, const char *name);

/* A line for each entry of a kind, in its families; no line is longer than `most` characters (0:
 * any). */
void entry_print_table(int kind, int most);

/* Its card: its line and those of its keys, broken likewise. Errors TG_E_NOMEM */
TG_NODISCARD tg_status entry_print(int kind, const tg_entry *entry, int most);

/* name, summary, source, spec (the default in normal form), keys; a method's card. The object is
 * the caller's. Errors TG_E_NOMEM, TG_E_SPEC (a default that cannot be read back) */
TG_NODISCARD tg_status entry_json(int kind, const tg_entry *entry, json_t **object_p);

/* "integer"; whether there are bounds. */
const char *entry_key_type(const tg_key *key);
bool entry_key_has_range(const tg_key *key);

#endif
