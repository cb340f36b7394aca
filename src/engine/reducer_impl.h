/* What a reducer consists of: for reducer.c, which runs it, and reducer_memory.c. */
#ifndef TG_ENGINE_REDUCER_IMPL_H
#define TG_ENGINE_REDUCER_IMPL_H

#include "telegrad/reducer.h"
#include "engine/engine.h"
#include "exchange/nodes.h"

struct tg_reducer {
    tg_transport *transport;
    tg__engine *engine;
    tg__pool *pool;
    tg__nodes *nodes; /* NULL: one level */
    tg__state *state;
    tg__method *method;
    const volatile sig_atomic_t *stop;
    size_t n;
    uint64_t step;
    double ratio;
    tg__op op;
    bool running;
    bool delivered; /* op's mean is out, and the method has neither absorbed nor undone it */
    tg_dtype dtype; /* of the caller's vectors */
    float *wide;    /* (n) its gradient, if dtype has 16 bits; NULL before the first such */
    void *mean;
    void (*on_done)(void *arg, tg_status status);
    void *arg;
};

/* The mean of the last operation counts as applied from now on. */
void tg__reducer_settle(tg_reducer *r);

#endif
