/* A registry entry, as `telegrad methods`, `telegrad models` and the like show it. */
#ifndef TG_CLI_ENTRY_H
#define TG_CLI_ENTRY_H

#include <jansson.h>
#include "telegrad/registry.h"
#include "telegrad/spec.h"

/* A kind is a tg_kind or KIND_MODEL: models are not part of the library, but are also named by spec
 * strings. */
#define KIND_MODEL TG_KIND_COUNT
#define KINDS (KIND_MODEL + 1)

/* "strategy"; and "strategies", the command that lists them. */
const char *entry_kind(int kind);
const char *entry_kinds(int kind);
/* The kind with either name; -1: none. */
int entry_kind_find(const char *name);

const tg_entry *const *entries_of(int kind, size_t *count_p);
const tg_entry *entry_find(int kind, const char *name); /* NULL: none */

/* Fail because a kind has no such name. The message says if the name belongs to another kind, or
 * resembles one of this kind. Errors TG_E_SPEC, always */
TG_NODISCARD tg_status entry_unknown(int kind, const char *name);

/* Print a line for each entry of a kind, grouped by family; a line has at most `most` characters
 * (0: no limit). */
void entry_print_table(int kind, int most);

/* Print an entry's card: its line and those of its keys, wrapped likewise. Errors TG_E_NOMEM */
TG_NODISCARD tg_status entry_print(int kind, const tg_entry *entry, int most);

/* An object with name, summary, source, spec (the defaults in normal form), keys; for a method also
 * its card. The caller owns it. Errors TG_E_NOMEM, TG_E_SPEC (a default that cannot be parsed) */
TG_NODISCARD tg_status entry_json(int kind, const tg_entry *entry, json_t **object_p);

/* The type of a key's values, such as "integer"; whether the key has bounds. */
const char *entry_key_type(const tg_key *key);
bool entry_key_has_range(const tg_key *key);

#endif
