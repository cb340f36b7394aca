#include "net/refusals.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>

/* Whether the text was told a short while ago. If not, it is now. */
static bool is_known(tg__refusals *r, int64_t now_ns)
{
    const uint64_t hash = tg_hash(TG_HASH_START, r->text, strlen(r->text)) | 1;
    for (size_t i = 0; i < TG__REFUSALS_KNOWN; i++)
        if (r->known[i].hash == hash && now_ns - r->known[i].told_ns < TG__REFUSALS_AGAIN_NS)
            return true;
    return false;
}

static bool is_too_many(tg__refusals *r, int64_t now_ns)
{
    const int64_t passed = (now_ns - r->paid_ns) / TG__REFUSALS_EVERY_NS;
    r->paid_ns = passed < r->told ? r->paid_ns + passed * TG__REFUSALS_EVERY_NS : now_ns;
    r->told = passed < r->told ? r->told - (int)passed : 0;
    return r->told >= TG__REFUSALS_AT_ONCE;
}

const char *tg__refusals_add(tg__refusals *r, int64_t now_ns, const char *host,
                             const tg__public_key *key, const char *why)
{
    char mark[TG_KEY_TEXT];
    if (key)
        tg__key_mark(key, mark);
    snprintf(r->text, sizeof r->text, "a call from %s%s%s failed: %s", host,
             key ? " that showed the key " : "", key ? mark : "", why);
    if (is_known(r, now_ns) || is_too_many(r, now_ns)) {
        r->untold++;
        return NULL;
    }
    r->known[r->next].hash = tg_hash(TG_HASH_START, r->text, strlen(r->text)) | 1;
    r->known[r->next].told_ns = now_ns;
    r->next = (r->next + 1) % TG__REFUSALS_KNOWN;
    r->told++;
    if (r->untold > 0)
        snprintf(r->telling, sizeof r->telling, "%s (after %llu more, which were not shown)",
                 r->text, (unsigned long long)r->untold);
    else
        snprintf(r->telling, sizeof r->telling, "%s", r->text);
    r->untold = 0;
    return r->telling;
}
