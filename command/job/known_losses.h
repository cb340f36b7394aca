/* What methods and strategies lose with their defaults compared with dense training: the table in
 * docs/results/defaults.md, which cli_methods_test compares with this one. */
#ifndef COMMAND_JOB_KNOWN_LOSSES_H
#define COMMAND_JOB_KNOWN_LOSSES_H

#include "telegrad/registry.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A line for each spec of the entry that was trained, in its card. */
void known_losses_print(tg_kind kind, const char *name, FILE *out);

/* The same as an array of objects with spec, job, loss and unit. NULL: out of memory */
json_t *known_losses_json(tg_kind kind, const char *name);

typedef struct known_loss {
    const char *spec, *job, *unit;
    const char *change; /* how the spec asked for differs ("lower rank"); NULL: it does not */
    double trained;     /* the value of that key which was trained */
    int digits;         /* of the loss, to print */
    double loss;
    double seeds; /* losses up to this may be due to the seed */
} known_loss;

/* What a spec lost, in the longest job with a model of this kind. A spec of the table counts if it
 * gives the same keys the same values, its exchange aside (`none` is never meant). If there is no
 * such spec, one counts that differs only in a shorter delay, a higher density or a higher rank; of
 * several, the one that lost most. Returns false: none counts.
 * model  a model's spec */
bool known_losses_find(tg_kind kind, const tg_spec *spec, const char *model, known_loss *k);

#endif
