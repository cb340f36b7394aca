/* What a spec string leaves to the run, key by key: warm-ups that follow from its length, and what
 * is `auto`. */
#ifndef TG_CLI_SETTLED_KEYS_H
#define TG_CLI_SETTLED_KEYS_H

#include "telegrad/registry.h"

typedef struct settled_key {
    tg_kind kind;
    const char *name;        /* of the method or strategy */
    const char *key, *value; /* as the run has it: "93", "4ep", "auto" */
    const char *why;         /* a phrase */
} settled_key;

/* Call each(arg, key) for such keys of a spec: written, as on the command line, and settled, as a
 * session has it in a run of `steps` (tg_session_spec); 0: one that goes on from a checkpoint, which
 * has the warm-ups. Texts live as long as the call.
 * Errors TG_E_SPEC, those of each */
TG_NODISCARD tg_status settled_keys(tg_kind kind, const char *written, const char *settled,
                                    uint64_t steps,
                                    tg_status (*each)(void *arg, const settled_key *key),
                                    void *arg);

#endif
