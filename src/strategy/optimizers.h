/* The inside of an optimizer. Each is one file and one line in optimizers.def. */
#ifndef TG_STRATEGY_OPTIMIZERS_H
#define TG_STRATEGY_OPTIMIZERS_H

#include "base/keys.h"
#include "telegrad/optimizer.h"

enum { TG__OPTIMIZER_SLOTS = 2 };

typedef struct tg__optimizer_ops {
    tg_entry entry;
    const char *slot_names[TG__OPTIMIZER_SLOTS];
    tg_status (*init)(tg_optimizer *o); /* read o->spec, set the fields below */
    /* dst = one step from w with gradient g; see tg_optimizer_step. If dst is not w, it is only a
     * preview, with the same bits: w and the slots are only read. */
    void (*step)(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                 const float *g, size_t n, float *const *slot);
    bool counts; /* reads tg_update.number */
    /* An element's step depends on the other elements of its tensor. */
    bool whole;
    /* A step is not a sum of gradients times lr. So plain SGD with the same lr, or a method that
     * accumulates momentum in place of this optimizer, would behave differently. */
    bool adaptive;
} tg__optimizer_ops;

struct tg_optimizer {
    const tg__optimizer_ops *ops;
    tg_spec *spec;
    size_t slots;                      /* vectors it keeps with these settings */
    double lr, momentum, weight_decay; /* 0 if it has none */
    double clip;                       /* largest norm of the averaged gradient; 0: no limit */
    bool needs_all; /* a tensor's update depends on the gradients of all tensors (clip) */
    double beta1, beta2, eps, trust;
    bool nesterov;
    bool decoupled; /* weight decay shrinks w, and is not added to the gradient */
    bool exempt_1d; /* tensors of fewer than two dimensions have no weight decay (LARS: no trust
                     * ratio either) */
};

/* The keys of all optimizers, with the defaults of lr, weight_decay and exempt. */
#define TG__OPTIMIZER_KEY_LR(value) \
    TG__KEY(REAL, "lr", value, 0, 1e30, "learning rate before its schedule")
#define TG__OPTIMIZER_KEY_DECAY(value, text) TG__KEY(REAL, "weight_decay", value, 0, 1e30, text)
#define TG__OPTIMIZER_KEYS_LAST(exempted, text)                                    \
    TG__CHOICE("exempt", exempted, "none|1d", text),                               \
        TG__KEY(REAL, "clip", NULL, 0, 1e30,                                       \
                "scale the averaged gradient to a norm <= clip, over all tensors", \
                .min_open = true),                                                 \
    {                                                                              \
        .name = NULL                                                               \
    }

/* Read lr, weight_decay, exempt, clip. */
void tg__optimizer_common(tg_optimizer *o);
/* Weight decay of a tensor of ndim dimensions. */
double tg__optimizer_decay(const tg_optimizer *o, size_t ndim);
/* The factor by which decoupled decay multiplies w before a step: 1 - lr*wd; 1 if decay is
 * coupled. */
float tg__optimizer_keep(const tg_optimizer *o, const tg_update *u);

/* Adam and AdamW. They differ in where the decay is applied. (optimizer_adam.c) */
TG_NODISCARD tg_status tg__adam_init(tg_optimizer *o);
void tg__adam_step(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                   const float *g, size_t n, float *const *slot);
#define TG__ADAM_KEYS                                                     \
    TG__KEY(REAL, "beta1", "0.9", 0, 0.9999999,                           \
            "decay of the first moment, the mean of gradients"),          \
        TG__KEY(REAL, "beta2", "0.999", 0, 0.9999999,                     \
                "decay of the second moment, the mean of their squares"), \
        TG__KEY(REAL, "eps", "1e-08", 1e-30, 1e30, "added to the root of the second moment")

/* The same optimizer without momentum (momentum 0, not Nesterov), for methods that own the
 * momentum. Not for adaptive optimizers.
 * Errors  TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_NODISCARD tg_status tg__optimizer_without_momentum(const tg_optimizer *o, tg_optimizer **o_p);

#endif
