/* The keys of a spec string that the run chooses: warm-ups, which depend on its length, and keys
 * that are `auto`. */
#ifndef TG_CLI_SETTLED_KEYS_H
#define TG_CLI_SETTLED_KEYS_H

#include "telegrad/registry.h"

typedef struct settled_key {
    tg_kind kind;
    const char *name;        /* of the method or strategy */
    const char *key, *value; /* value in the run: "93", "4ep", "auto" */
    const char *why;         /* a phrase */
} settled_key;

/* Call each(arg, key) for every such key of a spec. written: as on the command line. settled: as in
 * a session for a run of `steps` (tg_session_spec). steps 0: the run resumes a checkpoint, which
 * has the warm-ups. Texts are valid during the call.
 * Errors TG_E_SPEC, those of each */
TG_NODISCARD tg_status settled_keys(tg_kind kind, const char *written, const char *settled,
                                    uint64_t steps,
                                    tg_status (*each)(void *arg, const settled_key *key),
                                    void *arg);

#endif
