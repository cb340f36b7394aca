/* Inside of an optimizer. One file and one line in optimizers.def each. */
#ifndef TG_STRATEGY_OPTIMIZERS_H
#define TG_STRATEGY_OPTIMIZERS_H

#include "telegrad/optimizer.h"

enum { TG__OPTIMIZER_SLOTS = 2 };

typedef struct tg__optimizer_ops {
    tg_entry entry;
    const char *slot_names[TG__OPTIMIZER_SLOTS];
    tg_status (*init)(tg_optimizer *o); /* read o->spec, set the fields below */
    /* w = one step from w with gradient g; see tg_optimizer_step */
    void (*step)(const tg_optimizer *o, double lr, float *w, const float *g, size_t n,
                 float *const *slot);
    /* dst = what step would make of w, bit for bit; w and slots are only read.
     * dst must not be w. */
    void (*preview)(const tg_optimizer *o, double lr, float *dst, const float *w, const float *g,
                    size_t n, float *const *slot);
} tg__optimizer_ops;

struct tg_optimizer {
    const tg__optimizer_ops *ops;
    tg_spec *spec;
    size_t slots;                      /* vectors it keeps with these settings */
    double lr, momentum, weight_decay; /* 0 if it has none */
    bool nesterov;
};

/* The same optimizer for use where the method owns the momentum: momentum 0, not Nesterov.
 * Errors TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_NODISCARD tg_status tg__optimizer_without_momentum(const tg_optimizer *o, tg_optimizer **o_p);

#endif
