#include "command/job/transports.h"
#include <stdio.h>
#include <string.h>

static const struct job_transport inproc = {.name = "inproc",
                                            .about = "threads of one process, through memory"};

static const struct job_transport *const all[] = {
    &inproc,
#ifdef HAVE_MPI
    &job_transport_mpi,
#endif
#ifdef HAVE_NET
    &job_transport_tcp,
#endif
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
