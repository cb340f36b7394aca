/* Which method a tensor is exchanged by: the first rule whose pattern its name matches, else the
 * session's own method. */
#ifndef TG_SESSION_RULES_H
#define TG_SESSION_RULES_H

#include "method/method.h"
#include "telegrad/spec.h"

typedef struct tg__rule {
    char *pattern; /* NULL: everything else */
    char *method;  /* as written: what methods are made from */
    tg_spec *spec;
    const tg__method_def *def;
    size_t same; /* first entry with an equal spec: its tensors share buckets with these */
} tg__rule;

typedef struct tg__rules {
    tg__rule *rule; /* (count) in the order of the configuration, then the session's method */
    size_t count;
} tg__rules;

/* text (n) "PATTERN=METHOD"; method: that of the other tensors. All zero or all set on failure:
 * free it either way. Errors TG_E_SPEC (naming the rule), TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_init(tg__rules *r, const char *const *text, size_t n,
                                      const char *method);
void tg__rules_free(tg__rules *r);
/* Methods' warm-ups that are left open become those of a run of this length: tg__spec_settle.
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_settle(tg__rules *r, uint64_t total_steps,
                                        uint64_t steps_per_epoch);
/* Methods that own the momentum and do not name theirs have the optimizer's from here on: momentum
 * (NaN: it names none) and nesterov (0, 1; -1: it names none). Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__rules_take_momentum(tg__rules *r, double momentum, int nesterov);
/* Whether any method leaves a warm-up open. */
bool tg__rules_are_open(const tg__rules *r);
/* The entry that tensor `name` falls under. */
size_t tg__rules_find(const tg__rules *r, const char *name);
/* Whether every rule is some tensor's. Errors TG_E_SPEC, naming the pattern and the tensors */
TG_NODISCARD tg_status tg__rules_all_used(const tg__rules *r, const char *const *name, size_t n);

static inline const tg__rule *tg__rules_default(const tg__rules *r)
{
    return &r->rule[r->count - 1];
}

#endif
