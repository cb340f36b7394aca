/* What the files of tune share: the sweep, its runs and what became of them. */
#ifndef TG_CLI_TUNE_H
#define TG_CLI_TUNE_H

#include <jansson.h>
#include <limits.h>
#include "command/train/records.h"
#include "command/tune/tune_grid.h"

#define TUNE_RUNGS 2
#define TUNE_SHARE 3   /* the search takes a third of the length, the first rung a third of that */
#define TUNE_SEEDS 100 /* at most */

/* How a run did when it was tested last. */
struct tune_result {
    bool known;
    double accuracy, loss; /* NAN: the loss was lost for good */
    bool diverged;
    uint64_t hash; /* of the parameters */
};

/* A combination of values. */
struct tune_run {
    char name[TUNE_NAME];
    char *text[TUNE_KEYS]; /* see tune_grid_set; owned */
    struct run_options options;
    uint64_t at[TUNE_RUNGS], epoch;        /* steps: where it is judged, and of an epoch */
    struct tune_result result[TUNE_RUNGS]; /* on the samples held out */
    bool goes_on;                          /* to the second rung */
};

/* An option as it was given; value NULL: it takes none. */
struct tune_word {
    const char *name, *value;
};
#define TUNE_WORDS 256

struct tune_options {
    struct run_options common; /* first: shared options are set in it */
    struct tune_grid grid;
    struct tune_word word[TUNE_WORDS]; /* (words) what was given, in order */
    size_t words;
    uint64_t seeds;
    const char *dir;
    bool json;
};

struct tune {
    const struct tune_options *o;
    const struct launch *launch;
    const train_data *held; /* the data with samples held out */
    bool images;            /* runs are ranked by accuracy, else by loss */
    struct tune_run *run;   /* (runs) */
    size_t runs;
    size_t *order;                        /* (runs) from the best on, once all is known */
    struct tune_result final[TUNE_SEEDS]; /* of the winner at full length, on the test set */
    bool interrupted;
};

/* ---- the order of runs (tune_rank.c) --------------------------------------------------------- */

/* The number of the rungs that a run has been judged at. */
int tune_reached(const struct tune_run *run);
bool tune_diverged(const struct tune_run *run);
/* Whether two runs were judged equal at the rungs that both have reached last. */
bool tune_tie(const struct tune *t, size_t a, size_t b);
/* Sort t->order: runs that got further first, then better ones; among equals as they were given.
 * Runs that diverged come last. */
void tune_sort(const struct tune *t);
/* Once all runs have a first result, mark the better half (rounded up) that goes on. Returns their
 * number; those that diverged are never among them. */
size_t tune_halve(struct tune *t);

/* ---- the folder (tune_folder.c) -------------------------------------------------------------- */

struct tune_folder;

/* Open DIR, making it if it does not exist, for this process alone.
 * about   the first record, which says what is tuned; borrowed
 * past_p  [out] the later records of an interrupted sweep; belongs to the folder
 * Errors  TG_E_IO, TG_E_CORRUPT, TG_E_NOMEM, TG_E_SPEC (it holds something else, or another sweep:
 *         the message names an option that differs) */
TG_NODISCARD tg_status tune_folder_open(const char *dir, const json_t *about,
                                        struct tune_folder **f_p, const json_t **past_p);
/* Add a record, which is taken over; it is on its way to the disk when this returns. */
TG_NODISCARD tg_status tune_folder_add(struct tune_folder *f, json_t *record);
TG_NODISCARD tg_status tune_folder_close(struct tune_folder *f);
void tune_folder_abandon(struct tune_folder *f); /* NULL is fine */

/* The paths of a run's records ("DIR/runs/NAME.jsonl") and of its checkpoints
 * ("DIR/checkpoints/NAME"), and of the picture. Errors TG_E_IO (too long) */
TG_NODISCARD tg_status tune_path_records(const char *dir, const char *name, char path[PATH_MAX]);
TG_NODISCARD tg_status tune_path_checkpoint(const char *dir, const char *name, char path[PATH_MAX]);
TG_NODISCARD tg_status tune_path_picture(const char *dir, char path[PATH_MAX]);
/* "run-007" */
void tune_run_file(size_t run, char name[32]);
/* Remove a run's checkpoints, which nothing will resume. */
void tune_forget(const char *dir, const char *name);

/* ---- the search (tune_search.c) -------------------------------------------------------------- */

/* Train all runs to the first rung, the better half to the second, and the winner at full length.
 * past: what an interrupted sweep has done. Sets t->interrupted if a signal came.
 * Errors  those of the runs and of the folder; TG_E_NONFINITE: no run is left */
TG_NODISCARD tg_status tune_search(struct tune *t, struct tune_folder *f, const json_t *past);
/* How many trainings are done, and how many there are in all. */
void tune_count(const struct tune *t, size_t *done_p, size_t *all_p);

/* ---- the result (tune_report.c, tune_picture.c) ---------------------------------------------- */

/* Print the table, the winner and its command line; or the same as JSON lines. Errors TG_E_IO,
 * TG_E_NOMEM */
TG_NODISCARD tg_status tune_print(const struct tune *t);
TG_NODISCARD tg_status tune_print_json(const struct tune *t);
/* Draw the runs' curves, and for each numeric key how well its values did. Errors TG_E_IO,
 * TG_E_NOMEM, TG_E_CORRUPT */
TG_NODISCARD tg_status tune_draw(const struct tune *t);

#endif
