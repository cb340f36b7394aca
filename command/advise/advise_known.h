/* What the project's own runs say about accuracy: rows of docs/results, for telegrad advise. */
#ifndef TG_CLI_ADVISE_KNOWN_H
#define TG_CLI_ADVISE_KNOWN_H

#include "trainer/loop/advice.h"

struct known_runs {
    const char *about; /* "LeNet-5 on MNIST, 4 workers, 3 epochs, mean of three seeds" */
    const char *model; /* "lenet5" */
    const char *what;  /* "test accuracy" */
    const char *dense; /* the result of plain SGD there; several: one a seed */
    const char *document;
};

struct known_row {
    const struct known_runs *runs;
    const char *strategy, *method; /* specs */
    const char *result;            /* as dense */
};

enum { ADVISE_KNOWN_MOST = 4 };

/* The rows that tell most about a way of training this model (a spec): those of its strategy, best
 * with its method and a number near its own, and those of its method with ssgd. row: room for
 * ADVISE_KNOWN_MOST. Returns how many; 0 for plain means at every step, which cost nothing. */
size_t advise_known(const char *model, const advice_way *way, const struct known_row **row);

/* Whether some row is of the model and of that strategy (its name), or of the method with any
 * strategy. NULL: not asked for. */
bool advise_is_known(const char *model, const char *strategy, const char *method);

/* Of a spec its name: "cd" of "cd:k=5". Whether both are of one name. */
bool advise_same_name(const char *spec, const char *other);

/* Whether the way is plain means at every step, in full precision. */
bool advise_costs_nothing(const advice_way *way);

#endif
