/* telegrad/registry.h - what exists: names, keys, defaults, ranges, papers. */
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

/* What one wants to know before choosing a method; a row of docs/methods.md. */
typedef struct tg_method_card {
    const char *sends;  /* what goes over the wire */
    const char *bits;   /* an element, at its defaults */
    const char *keeps;  /* state between steps, in vectors of the model's size */
    const char *cost;   /* of encoding and its exchange: passes, rounds, one-way delays */
    const char *use;    /* when to take it */
    const char *limit;  /* the known algorithm that it becomes, or what holds exactly */
    const char *family; /* "dense", "quantisation", "signs", "sparsification" or "low rank" */
} tg_method_card;

/* The card of a method; NULL if there is no method of that name. Static.
 * Threads any */
TG_API const tg_method_card *tg_registry_method_card(const char *method);

/* The method that a strategy has where none is named: that of its paper ("dct" for "demo",
 * "blocktopk" for "sparseloco"), and "dense" for the others. `strategy` is a name or a spec string,
 * or NULL. Static. Threads any */
TG_API const char *tg_registry_strategy_method(const char *strategy);

/* The optimizer that a strategy needs where none is named ("sgd:lr=0.001" for "demo", whose steps
 * are signs); NULL: any. `strategy` is a name or a spec string, or NULL. Static. Threads any */
TG_API const char *tg_registry_strategy_optimizer(const char *strategy);

/* How a method or a strategy learns, where that is not as dense gradients do that are exchanged in
 * every step (`dense`, `ssgd`). Rates are multiples of one: the `lr` with which dense SGD with
 * momentum 0.9 learns the same model. The command takes 0.05 for that. */
typedef struct tg_rate_hint {
    double factor;    /* of the lr to take, with momentum 0; 0: none is known that helps */
    double low, high; /* lr / (1 - momentum) is known to learn from low to high; both 0: it is not
                         known where */
    bool methods; /* of a strategy: what a method makes of gradients is applied as in ssgd, so that
                     rates of methods matter beside it */
    bool plain;   /* the optimizer's momentum harms at any rate */
    const char *expect;  /* what its defaults come to beside dense, measured; NULL: as much */
    const char *instead; /* what to take in their place; NULL without expect */
    const char *key;     /* the key on whose default that hangs: where it is given there is nothing
                            to warn of; NULL: any spec */
    /* later versions add fields here */
} tg_rate_hint;

/* The hint of a method, for runs with the strategy `ssgd`, or of a strategy. NULL: it learns as
 * dense gradients do, or there is nothing of that name, or `kind` is another. `name` is a name or a
 * spec string, or NULL. Only the commands train and compare apply hints: a session takes the
 * optimizer that it is given. Static. Threads any */
TG_API const tg_rate_hint *tg_registry_rate_hint(tg_kind kind, const char *name);

/* "method", "codec", ...; "?" for a number that is none. */
TG_API const char *tg_kind_name(tg_kind kind);

/* All entries of a kind, in a fixed order; static. NULL and count 0 for a number that is none.
 * Threads any */
TG_API const tg_entry *const *tg_registry_entries(tg_kind kind, size_t *count_p);

/* Parse a spec string of a kind; the caller frees it (tg_spec_free).
 * Errors  TG_E_SPEC
 * Threads any */
TG_API TG_NODISCARD tg_status tg_registry_parse(tg_kind kind, const char *text, tg_spec **spec_p);

#ifdef __cplusplus
}
#endif
#endif
