/* For tests: the settings of every codec of the registry, without a list of their own: the
 * defaults, then each choice and flag of each key alone. */
#ifndef TESTS_CODEC_SPECS_H
#define TESTS_CODEC_SPECS_H

#include "telegrad/base.h"
#include <stdio.h>
#include <string.h>

enum { CODEC_SPEC_MAX = 200 };

/* Number 0, 1, ... of an entry; returns false behind the last. */
static inline bool codec_spec(const tg_entry *entry, size_t number, char spec[CODEC_SPEC_MAX])
{
    size_t at = 0;
    snprintf(spec, CODEC_SPEC_MAX, "%s", entry->name);
    if (number == at++)
        return true;
    for (const tg_key *key = entry->keys; key && key->name; key++) {
        const char *p = key->type == TG_KEY_CHOICE ? key->choices
                        : key->type == TG_KEY_FLAG ? "yes|no"
                                                   : "";
        while (*p) {
            size_t len = strcspn(p, "|");
            snprintf(spec, CODEC_SPEC_MAX, "%s:%s=%.*s", entry->name, key->name, (int)len, p);
            if (number == at++)
                return true;
            p += len + (p[len] == '|');
        }
    }
    return false;
}

#endif
