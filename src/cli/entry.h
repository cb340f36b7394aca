/* An entry of a registry, as `telegrad methods` and `telegrad models` show it. */
#ifndef TG_CLI_ENTRY_H
#define TG_CLI_ENTRY_H

#include <jansson.h>
#include "telegrad/registry.h"

/* A tg_kind, or this: a model is no part of the library, but is named by the same kind of string.
 */
#define KIND_MODEL TG_KIND_COUNT

/* Its line and those of its keys. */
void print_entry(int kind, const tg_entry *entry);

/* name, summary, source, spec (the default in normal form), keys; a method's card. The object is
 * the caller's. Errors TG_E_NOMEM, TG_E_SPEC (a default that cannot be read back) */
TG_NODISCARD tg_status entry_json(int kind, const tg_entry *entry, json_t **object_p);

#endif
