/* Shared by the files of advice. */
#ifndef TG_TRAIN_ADVICE_IMPL_H
#define TG_TRAIN_ADVICE_IMPL_H

#include "trainer/loop/advice.h"

#define ADVICE_METHODS 9
#define ADVICE_LEAST_STEPS 24 /* in each half of a simulation */

struct advice {
    train_sim *steps;
    tg_simulation *sim[ADVICE_METHODS]; /* with strategy ssgd */
    /* the same with exchange=twoway; NULL: the method does not have it */
    tg_simulation *twoway[ADVICE_METHODS];
    char twoway_text[ADVICE_METHODS][48];
    bool unfit[ADVICE_METHODS]; /* the model's usual optimizer does not take it */
    int world;
    bool spare;
};

/* How far the method is from plain SGD (see advice_way). */
double advice_method_distance(size_t method);
/* True if the method, which gives no exchange itself, has this one. */
bool advice_has_exchange(size_t method, const char *exchange);

#endif
