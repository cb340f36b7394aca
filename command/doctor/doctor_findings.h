/* What `telegrad doctor` has found: of each rank's machine, and of each link. Ranks tell each other
 * as JSON text. */
#ifndef TG_CLI_DOCTOR_FINDINGS_H
#define TG_CLI_DOCTOR_FINDINGS_H

#include "command/doctor/doctor_measure.h"
#include <jansson.h>

struct doctor_machine {
    char host[64], version[64];       /* of telegrad */
    char system[64];                  /* "Linux 6.1.0" */
    char congestion[16];              /* what the connections use: "bbr" */
    bool idle_restart;                /* connections start slowly again after a pause */
    double receive_bytes, send_bytes; /* the most that the system buffers for a connection */
};

struct doctor_way {
    struct doctor_link link;
    bool relayed;        /* by way of the meeting point */
    bool local;          /* shared memory of one machine */
    double sent, resent; /* packets, while the rate was measured */
};

struct doctor_findings {
    int size;
    struct doctor_machine *machine; /* (size) */
    struct doctor_way *way;         /* (size, size) from the row's rank to the column's */
};

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status doctor_findings_create(int size, struct doctor_findings *f);
void doctor_findings_free(struct doctor_findings *f);

/* The machine of this process. */
void doctor_machine_look(struct doctor_machine *m);

/* What rank found. Owned by the caller; NULL: out of memory */
json_t *doctor_findings_of(const struct doctor_findings *f, int rank);
/* Take the text of what rank found. Errors TG_E_CORRUPT (it says something else) */
TG_NODISCARD tg_status doctor_findings_take(struct doctor_findings *f, int rank, const char *text);

/* What to change, from the most to the least important: one sentence at a time. */
void doctor_advise(const struct doctor_findings *f, void (*say)(void *arg, const char *sentence),
                   void *arg);

/* Print everything to standard output. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status doctor_report(const struct doctor_findings *f, bool json);

#endif
