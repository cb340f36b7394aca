/* What methods and strategies lose with their defaults beside dense training: the table in
 * docs/results/defaults.md, which cli_methods_test compares with this one. */
#ifndef COMMAND_CATALOG_KNOWN_LOSSES_H
#define COMMAND_CATALOG_KNOWN_LOSSES_H

#include "telegrad/registry.h"

#include <jansson.h>
#include <stdio.h>

/* A line for each spec of the entry that was trained, in its card. */
void known_losses_print(tg_kind kind, const char *name, FILE *out);

/* The same as an array of objects with spec, job, loss and unit. NULL: out of memory */
json_t *known_losses_json(tg_kind kind, const char *name);

#endif
