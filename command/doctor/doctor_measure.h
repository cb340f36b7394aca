/* Measures the links between the ranks of a job: delay, rate and clocks of each pair. */
#ifndef TG_CLI_DOCTOR_MEASURE_H
#define TG_CLI_DOCTOR_MEASURE_H

#include "telegrad/transport.h"

/* The link from this rank to another one. */
struct doctor_link {
    double delay_s;  /* one way: half of the shortest round trip */
    double jitter_s; /* half of what the median round trip takes more */
    double ahead_s;  /* the other rank's wall clock minus this rank's */
    double rate_bps; /* bits a second, as they arrived there */
};

struct doctor_measure {
    double seconds;          /* of sending, for each direction of each pair */
    double timeout_s;        /* how long a rank may be silent */
    bool (*stop)(void *arg); /* asked often; true ends the measurement with TG_E_STOPPED */
    void (*begin)(void *arg, int peer); /* this pair is next */
    void (*end)(void *arg, int peer);   /* and done */
    void *arg;
};

/* Measure all pairs; those that share no rank at the same time (collective call).
 * links   [out] (size) those of this rank
 * Errors  TG_E_PEER (names the rank), TG_E_STOPPED, TG_E_CORRUPT, TG_E_NOMEM; the transport is
 *         shut then */
TG_NODISCARD tg_status doctor_measure(tg_transport *t, const struct doctor_measure *m,
                                      struct doctor_link *links);

/* Send each rank's text to all (collective call).
 * all     [out] (size) to be freed, each
 * Errors  as above */
TG_NODISCARD tg_status doctor_share(tg_transport *t, const struct doctor_measure *m,
                                    const char *text, char **all);

#endif
