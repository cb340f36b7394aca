/* The strategy of a session for which none is chosen. */
#ifndef TG_SESSION_DEFAULT_STRATEGY_H
#define TG_SESSION_DEFAULT_STRATEGY_H

#include "telegrad/base.h"

/* tg_registry_default_strategy for a session, which must not take a lack of memory for an answer:
 * its ranks would have different strategies.
 * strategy_p  [out] a constant string
 * Errors      TG_E_NOMEM and others; a spec that does not parse is none */
TG_NODISCARD tg_status tg__default_strategy(const char *method, const char *const *rules,
                                            size_t nrules, const char *optimizer,
                                            const char **strategy_p);

#endif
