/* What is known about accuracy: rows of docs/results, from the project's own runs. */
#ifndef TG_CLI_ADVISE_KNOWN_H
#define TG_CLI_ADVISE_KNOWN_H

#include "trainer/loop/advice.h"

struct known_runs {
    const char *about; /* "LeNet-5 on MNIST, 4 workers, 3 epochs, mean of three seeds" */
    const char *model; /* "lenet5" */
    const char *what;  /* "test accuracy" */
    const char *dense; /* result of dense training in the same setting; several: one per seed */
    const char *document;
};

struct known_row {
    const struct known_runs *runs;
    const char *strategy, *method; /* specs */
    const char *result;            /* in the form of `dense` */
};

enum { ADVISE_KNOWN_MOST = 4 };

/* Find the rows that say most about a way of training this model (a spec): rows of its strategy,
 * best those with its method and a number close to its own, and rows of its method with ssgd. row:
 * room for ADVISE_KNOWN_MOST. Returns how many; 0 for plain averaging at every step, which costs no
 * accuracy. */
size_t advise_known(const char *model, const advice_way *way, const struct known_row **row);

/* Whether some row that says something about the way has the same method (method: true), or the
 * same strategy (false). */
bool advise_is_known(const char *model, const advice_way *way, bool method);

/* A sentence: what asynchronous steps cost, and the page that measured it. */
extern const char advise_known_async[];

/* Whether the way is plain averaging at every step, in full precision. */
bool advise_costs_nothing(const advice_way *way);

#endif
