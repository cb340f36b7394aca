/* How long a rank that joins waits, and what it says then. */
#include "net/door.h"
#include "net/membership.h"
#include "telegrad/clock.h"
#include <stdio.h>

static bool is_late(const tg_net *n)
{
    return tg_now_ns(tg_clock_monotonic()) >= n->deadline_ns;
}

/* What to add to the text of a rank that is late. */
static const char *few_files(const tg_net *n, char text[TG__FILES_TEXT + 16])
{
    char files[TG__FILES_TEXT];
    *text = '\0';
    if (n->few_files)
        snprintf(text, TG__FILES_TEXT + 16, "; %s: ulimit -n", tg__files_text(files));
    return text;
}

tg_status tg__net_patience(tg_net *n, const char *waits_for)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    const tg_net_config *c = n->config;
    char files[TG__FILES_TEXT + 16];
    if (c->stop && c->stop(c->stop_arg))
        return tg_fail(TG_E_STOPPED, "joining was stopped while waiting for %s", waits_for);
    if (is_late(n))
        return tg_fail(TG_E_PEER, TG__TIMED_OUT " while waiting for %s%s", waits_for,
                       few_files(n, files));
    if (c->on_wait && now - n->told_ns > INT64_C(1000000000)) {
        n->told_ns = now;
        c->on_wait(c->on_wait_arg, waits_for);
    }
    return TG_OK;
}

tg_status tg__net_patience_for(tg_net *n, const char *waits, const char *lacks, const char *more)
{
    char text[TG__TEXT_MAX + 16], files[TG__FILES_TEXT + 16];
    if (is_late(n))
        return tg_fail(TG_E_PEER, TG__TIMED_OUT ": %s not joined within %g s%s%s%s", lacks,
                       (double)n->timeout_ns / 1e9, few_files(n, files), *more ? "; " : "", more);
    snprintf(text, sizeof text, "%s to join", waits);
    return tg__net_patience(n, text);
}
