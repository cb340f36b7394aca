/* The inside of an optimizer. Each is one file and one line in optimizers.def. */
#ifndef TG_STRATEGY_OPTIMIZERS_H
#define TG_STRATEGY_OPTIMIZERS_H

#include "telegrad/optimizer.h"
#include "telegrad/spec.h"

enum { TG__OPTIMIZER_SLOTS = 2 };

typedef struct tg__optimizer_ops {
    tg_entry entry;
    const char *slot_names[TG__OPTIMIZER_SLOTS];
    tg_status (*init)(tg_optimizer *o); /* read o->spec, set the fields below */
    /* w = one step from w with gradient g; see tg_optimizer_step */
    void (*step)(const tg_optimizer *o, const tg_update *u, float *w, const float *g, size_t n,
                 float *const *slot);
    /* dst = the result of a step from w, bit for bit; w and the slots are only read. dst must not
     * be w. */
    void (*preview)(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
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
#define TG__OPTIMIZER_KEY_LR(value)                                             \
    {                                                                           \
        .name = "lr", .type = TG_KEY_REAL, .def = value, .min = 0, .max = 1e30, \
        .help = "learning rate before its schedule"                             \
    }
#define TG__OPTIMIZER_KEY_DECAY(value, text)                                              \
    {                                                                                     \
        .name = "weight_decay", .type = TG_KEY_REAL, .def = value, .min = 0, .max = 1e30, \
        .help = text                                                                      \
    }
#define TG__OPTIMIZER_KEYS_LAST(exempted, text)                                      \
    {.name = "exempt",                                                               \
     .type = TG_KEY_CHOICE,                                                          \
     .def = exempted,                                                                \
     .choices = "none|1d",                                                           \
     .help = text},                                                                  \
        {.name = "clip",                                                             \
         .type = TG_KEY_REAL,                                                        \
         .min = 0,                                                                   \
         .min_open = true,                                                           \
         .max = 1e30,                                                                \
         .help = "scale the averaged gradient to a norm <= clip, over all tensors"}, \
    {                                                                                \
        .name = NULL                                                                 \
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
void tg__adam_step(const tg_optimizer *o, const tg_update *u, float *w, const float *g, size_t n,
                   float *const *slot);
void tg__adam_preview(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                      const float *g, size_t n, float *const *slot);
#define TG__ADAM_KEYS                                                                  \
    {.name = "beta1",                                                                  \
     .type = TG_KEY_REAL,                                                              \
     .def = "0.9",                                                                     \
     .min = 0,                                                                         \
     .max = 0.9999999,                                                                 \
     .help = "decay of the first moment, the mean of gradients"},                      \
        {.name = "beta2",                                                              \
         .type = TG_KEY_REAL,                                                          \
         .def = "0.999",                                                               \
         .min = 0,                                                                     \
         .max = 0.9999999,                                                             \
         .help = "decay of the second moment, the mean of their squares"},             \
    {                                                                                  \
        .name = "eps", .type = TG_KEY_REAL, .def = "1e-08", .min = 1e-30, .max = 1e30, \
        .help = "added to the root of the second moment"                               \
    }

/* The same optimizer without momentum (momentum 0, not Nesterov), for methods that own the
 * momentum. Not for adaptive optimizers.
 * Errors  TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_NODISCARD tg_status tg__optimizer_without_momentum(const tg_optimizer *o, tg_optimizer **o_p);

#endif
