/* telegrad/registry.h - all methods, codecs, strategies, ...: names, keys, defaults, ranges,
 * papers.
 *
 * Everything returned here is static, except what tg_registry_parse makes.
 * Threads  any */
#ifndef TELEGRAD_REGISTRY_H
#define TELEGRAD_REGISTRY_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tg_kind {
    TG_KIND_METHOD = 0,
    TG_KIND_CODEC = 1,
    TG_KIND_FEEDBACK = 2,
    TG_KIND_EXCHANGE = 3,
    TG_KIND_STRATEGY = 4,
    TG_KIND_OPTIMIZER = 5,
    TG_KIND_LR_SCHEDULE = 6,
    TG_KIND_COUNT = 7
} tg_kind;

/* A method at a glance: what to know before choosing it. A row of docs/methods.md. */
typedef struct tg_method_card {
    size_t struct_size; /* of the library's structure */
    const char *sends;  /* what goes over the wire */
    const char *bits;   /* bits per element, at its defaults */
    const char *keeps;  /* state between steps, in vectors of the model's size */
    const char *cost;   /* of encoding and exchange: passes, rounds, one-way delays */
    const char *use;    /* when to choose it */
    const char *limit;  /* the known algorithm in its limiting case, or what holds exactly */
    const char *family; /* "dense", "quantisation", "signs", "sparsification" or "low rank" */
} tg_method_card;

/* The card of a method; NULL if there is no method of that name. */
TG_API const tg_method_card *tg_registry_method_card(const char *method);

/* The default method of a strategy: that of its paper ("2bit" for "cd", "dct" for "demo",
 * "blocktopk" for "sparseloco"), "dense" for the others.
 * strategy  a name or a spec string; may be NULL */
TG_API const char *tg_registry_strategy_method(const char *strategy);

/* The default optimizer of a strategy that needs a particular one ("sgd:lr=0.001" for "demo", whose
 * steps are signs); NULL: any.
 * strategy  a name or a spec string; may be NULL */
TG_API const char *tg_registry_strategy_optimizer(const char *strategy);

/* The strategy of a run for which none is chosen: "updates" if the optimizer remembers earlier
 * gradients (adam, adamw, and sgd with momentum) and the method, or that of a rule, sends gradients
 * in parts and keeps the rest. Such an optimizer learns worse from their means than if it sees each
 * rank's own gradients (docs/strategies.md). Otherwise "ssgd", also for powersgd alone, and if any
 * of the methods keeps momentum (dgc, csc, fetchsgd), votes (signsgd, signum), or has a number as
 * its threshold, which is in units of the gradient.
 * method, optimizer  specs; NULL, or what does not parse: "ssgd", also if memory runs out
 * rules              (nrules) "PATTERN=METHOD"; may be NULL
 * Returns            a constant string, never NULL */
TG_API const char *tg_registry_default_strategy(const char *method, const char *const *rules,
                                                size_t nrules, const char *optimizer);

/* How a method or a strategy learns, if it does not learn like dense gradients that are exchanged
 * in every step (`dense`, `ssgd`). Rates are relative: multiples of the `lr` with which dense SGD
 * with momentum 0.9 learns the same model. The command takes 0.05 for that. */
typedef struct tg_rate_hint {
    size_t struct_size; /* of the library's structure */
    double factor;      /* recommended lr, with momentum 0; 0: no lr is known to help */
    double low, high;   /* range of lr / (1 - momentum) in which it is known to learn; both 0: the
                       * range is unknown */
    bool methods; /* of a strategy: it applies what a method makes of gradients as ssgd does, so the
                   * methods' own hints hold with it, too */
    bool plain;   /* the optimizer's momentum does harm at any rate */
    const char *expect;   /* result of its defaults, compared with dense; NULL: the same. Of a
                          * strategy with a range: outside of it */
    const char *instead;  /* what to use in place of the defaults; NULL without expect */
    const char *key;      /* the hint concerns this key's default: do not warn if the key is given.
                          * NULL: it concerns every spec */
    const char *dense;    /* of a strategy whose exchanges are all dense, so that no method is used:
                          * what to use instead with a method. NULL: it uses methods */
    const char *dense_if; /* the key and value, "k=1", with which `dense` holds; NULL: with all */
    const char *unless;   /* the key and value with which `expect` does not hold; NULL: none */
} tg_rate_hint;

/* The hint of a method (for runs with strategy `ssgd`) or of a strategy. Only the commands train
 * and compare apply hints; a session uses the optimizer that it is given.
 * kind     TG_KIND_METHOD or TG_KIND_STRATEGY
 * name     a name or a spec string; may be NULL
 * Returns  NULL if it learns like dense gradients, if the name is unknown, or for other kinds */
TG_API const tg_rate_hint *tg_registry_rate_hint(tg_kind kind, const char *name);

/* The name of a kind: "method", "codec", ...; "?" for an unknown number. */
TG_API const char *tg_kind_name(tg_kind kind);

/* All entries of a kind, in a fixed order. For an unknown number: NULL, and *count_p is 0. */
TG_API const tg_entry *const *tg_registry_entries(tg_kind kind, size_t *count_p);

/* Parse a spec string of a kind. Free the result with tg_spec_free.
 * Errors  TG_E_SPEC */
TG_API TG_NODISCARD tg_status tg_registry_parse(tg_kind kind, const char *text, tg_spec **spec_p);

#ifdef __cplusplus
}
#endif
#endif
