/* The values that tune tries: every combination of those of its --vary options. */
#ifndef TG_CLI_TUNE_GRID_H
#define TG_CLI_TUNE_GRID_H

#include "command/job/options.h"

#define TUNE_KEYS 8    /* --vary options */
#define TUNE_VALUES 64 /* of one */
#define TUNE_RUNS 256  /* combinations */
#define TUNE_NAME 256  /* bytes of a combination's name */

/* One --vary: "optimizer.lr=0.05,0.1" or "batch=16,32". */
struct tune_key {
    char *text;                     /* what option, key and values point into; owned */
    char *name;                     /* "optimizer.lr"; owned */
    const char *option, *key;       /* "optimizer", "lr"; key NULL: the option itself varies */
    const char *value[TUNE_VALUES]; /* (count) */
    size_t count;
};

struct tune_grid {
    struct tune_key key[TUNE_KEYS]; /* (keys) */
    size_t keys;
};

/* Add a --vary. Errors TG_E_SPEC (the message names it and what is allowed), TG_E_NOMEM */
TG_NODISCARD tg_status tune_grid_add(struct tune_grid *g, const char *text);
void tune_grid_free(struct tune_grid *g);

/* Check that nothing that varies is also given, and that there are 2 to TUNE_RUNS combinations.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status tune_grid_check(const struct tune_grid *g, const struct run_options *common);
/* The number of combinations, once they have been checked. */
size_t tune_grid_runs(const struct tune_grid *g);
/* The value of key k in combination `run`. The values of the last key change fastest. */
const char *tune_grid_value(const struct tune_grid *g, size_t run, size_t k);
/* "optimizer.lr=0.1 batch=32" */
void tune_grid_name(const struct tune_grid *g, size_t run, char name[TUNE_NAME]);
/* Set the values of combination `run` in o, which has the common options.
 * text    [out] (TUNE_KEYS) specs that o then points into, else NULL; owned by the caller, also
 *         after an error
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tune_grid_set(const struct tune_grid *g, size_t run, struct run_options *o,
                                     char *text[TUNE_KEYS]);

#endif
