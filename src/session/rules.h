/* Rules: a tensor uses the method of the first rule whose pattern matches its name, else the
 * session's method. */
#ifndef TG_SESSION_RULES_H
#define TG_SESSION_RULES_H

#include "method/method.h"
#include "telegrad/spec.h"

typedef struct tg__rule {
    char *pattern; /* NULL: matches every name */
    char *method;  /* the spec as written; methods are created from it */
    tg_spec *spec;
    const tg__method_def *def;
    size_t same; /* index of the first entry with an equal spec; tensors of both share buckets */
} tg__rule;

typedef struct tg__rules {
    tg__rule *rule; /* (count) in the order of the configuration, then the session's method */
    size_t count;
    tg__owned owned; /* memory */
} tg__rules;

/* Parse rules. Free r in any case, also after a failure.
 * text    (n) "PATTERN=METHOD"
 * method  of all other tensors
 * Errors  TG_E_SPEC (names the rule), TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_init(tg__rules *r, const char *const *text, size_t n,
                                      const char *method);
void tg__rules_free(tg__rules *r);
/* Fix the default warm-ups of the methods for a run of this length (tg__spec_settle).
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_settle(tg__rules *r, uint64_t total_steps,
                                        uint64_t steps_per_epoch);
/* Pass the optimizer's momentum to methods that own momentum and do not set it.
 * momentum  NaN: the optimizer sets none
 * nesterov  0, 1; -1: the optimizer does not set it
 * Errors    TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_take_momentum(tg__rules *r, double momentum, int nesterov);
/* Methods that can use servers do so, unless their specs give another exchange.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_take_servers(tg__rules *r);
/* True if any method has a warm-up that depends on the length of the run. */
bool tg__rules_are_open(const tg__rules *r);
/* The index of the entry for tensor `name`. Patterns match bytes, whatever the thread's locale: "?"
 * is one byte, not a letter of UTF-8. */
size_t tg__rules_find(const tg__rules *r, const char *name);
/* Check that every rule is used by some tensor.
 * name    (n) the tensors
 * Errors  TG_E_SPEC (names the pattern and the tensors) */
TG_NODISCARD tg_status tg__rules_all_used(const tg__rules *r, const char *const *name, size_t n);

static inline const tg__rule *tg__rules_default(const tg__rules *r)
{
    return &r->rule[r->count - 1];
}

#endif
