/* The transports of the command, by the names of --transport and of records. Those between
 * processes fill the functions. A new one is a file, and a line in transports.def. */
#ifndef TG_CLI_TRANSPORTS_H
#define TG_CLI_TRANSPORTS_H

#include "command/job/net_options.h"
#include "telegrad/transport.h"

#define JOB_COMMAND 100 /* most bytes of job_call.command, with the NUL */

/* Append to a job_call.command. What does not fit is represented by a hash of everything. */
void job_command_add(char command[JOB_COMMAND], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* How a process joins others. */
struct job_call {
    const struct net_options *net; /* borrowed until the job is closed */
    const char *command; /* "train over --link 1gbit": ranks that do not say the same do not meet */
    double timeout_s;    /* until all have joined */
    int rank;            /* to be, if it joins others; 0: any */
    const char *optimizer;   /* that servers must have, if they keep the parameters */
    const char *server_mode; /* that servers must have; NULL: any */
    bool trains; /* has steps, and calls look; rank 0 of tcp then reads --allow anew on SIGHUP */
};

struct job_transport {
    const char *name, *about;
    /* For errors: what it requires, "--listen (rank 0) or --join (the others)"; and what sets the
     * number of ranks, "--ranks N". inproc requires nothing. */
    const char *requires, *count;
    /* What started this process as a rank of such a job, or asks for one: "under mpirun". Reads
     * only the environment and the options. Returns NULL if nothing did. NULL: the ranks are
     * threads of this process. */
    const char *(*started)(const struct net_options *net);
    /* Each process was started by itself and has a user of its own, perhaps on another machine. */
    bool alone;
    /* Join the job. Errors TG_E_PEER (it did not start), TG_E_UNSUPPORTED, TG_E_MISMATCH (another
     * command); for tcp those of tcp_join */
    tg_status (*open)(const struct job_call *call, int *rank_p, int *size_p);
    void (*close)(tg_status status); /* that the command ends with */
    /* Create a transport over all processes of the job (collective call). */
    tg_status (*connect)(tg_transport **t_p);
    /* Find the machine of each process: nodes (size of the job), in the form that session.h expects
     * (collective call). */
    tg_status (*nodes)(int *nodes);
    /* Between steps, and while one waits for another rank: do what a signal asked for. Any thread,
     * while the last transport lives. NULL: nothing */
    void (*look)(void);
    /* End all processes of the job with this exit status. Does not return. NULL: the processes
     * were started one by one, and each ends by itself. */
    void (*abort)(int exit_status);
    /* Print what it is built on, cut to room: "Open MPI v4.1.4". May be called before open. */
    void (*version)(char *text, size_t room);
};

/* NULL: there is none of this name in this build. */
const struct job_transport *job_transport_find(const char *name);
/* The same. Errors TG_E_SPEC (names those that there are) */
TG_NODISCARD tg_status job_transport_named(const char *name, const struct job_transport **t_p);
/* The transport of this process: inproc if nothing has started it as a rank of a job. how_p: what
 * its `started` returned; NULL for inproc. */
const struct job_transport *job_transport_own(const struct net_options *net, const char **how_p);

#endif
