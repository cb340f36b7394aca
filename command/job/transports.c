#include "command/job/transports.h"
#include "telegrad/tools.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TG_TRANSPORT(name) extern const struct job_transport job_transport_##name;
#include "command/job/transports.def"
#undef TG_TRANSPORT

static const struct job_transport *const all[] = {
#define TG_TRANSPORT(name) &job_transport_##name,
#include "command/job/transports.def"
#undef TG_TRANSPORT
};
enum { COUNT = sizeof all / sizeof all[0] };

const struct job_transport *job_transport_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

tg_status job_transport_named(const char *name, const struct job_transport **t_p)
{
    char names[200] = "";
    for (size_t i = 0, at = 0; i < COUNT && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s (%s)", i ? ", " : "",
                               all[i]->name, all[i]->about);
    *t_p = job_transport_find(name);
    return *t_p ? TG_OK : tg_fail(TG_E_SPEC, "--transport \"%.64s\": allowed: %s", name, names);
}

const struct job_transport *job_transport_own(const struct net_options *net, const char **how_p)
{
    for (size_t i = 0; i < COUNT; i++)
        if (all[i]->started && (*how_p = all[i]->started(net)))
            return all[i];
    *how_p = NULL;
    return job_transport_find("inproc");
}

void job_command_add(char command[JOB_COMMAND], const char *format, ...)
{
    enum { MARK = 12 }; /* "...", eight digits, NUL */
    char whole[JOB_COMMAND + 1024];
    va_list args;
    const size_t used = strlen(command);
    memcpy(whole, command, used);
    va_start(args, format);
    vsnprintf(whole + used, sizeof whole - used, format, args);
    va_end(args);
    const size_t len = strlen(whole);
    if (len < JOB_COMMAND - MARK) {
        memcpy(command, whole, len + 1);
        return;
    }
    memcpy(command, whole, JOB_COMMAND - MARK);
    snprintf(command + JOB_COMMAND - MARK, MARK, "...%08x",
             (unsigned)tg_hash(TG_HASH_START, whole, len));
}
