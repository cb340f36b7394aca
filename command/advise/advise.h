/* What the files of telegrad advise share. */
#ifndef TG_CLI_ADVISE_H
#define TG_CLI_ADVISE_H

#include <jansson.h>
#include "command/job/launch.h"
#include "trainer/loop/advice.h"

#define ADVISE_WAYS_MAX 64
#define ADVISE_WHY 500   /* bytes of a reason */
#define ADVISE_EPOCHS 10 /* of the command to paste, of which the first warms up */

/* Figures of the transport as it is: --measure. Seconds. */
struct advise_measured {
    double tau, phi, psi, delta, alpha, beta; /* beta: a byte */
    double ssgd, bit;                         /* short runs: T_ssgd, T_bit */
};

struct advise_answer {
    const struct run_options *options;
    const advice *advice;
    int workers;
    bool mpi; /* under mpirun */
    tg_link link;
    const char *link_text;
    const struct advise_measured *measured; /* NULL: nothing was */
    advice_way way[ADVISE_WAYS_MAX];
    size_t ways;
    size_t coded;       /* the method that psi and delta are of */
    advice_times times; /* of it */
    unsigned k;         /* of T_cd */
    advice_ranges compression, delay;
};

/* Work it out. Errors those of advice.h */
TG_NODISCARD tg_status advise_answer_make(struct advise_answer *a);
/* Why way[0]: a sentence without its full stop. */
void advise_why(const struct advise_answer *a, char *text, size_t room);

/* The command that trains as recommended, warm-ups included, for a shell. text_p: the caller's, for
 * free(). Errors TG_E_NOMEM */
TG_NODISCARD tg_status advise_command(const struct advise_answer *a, char **text_p);

/* To standard output. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status advise_print(const struct advise_answer *a);
TG_NODISCARD tg_status advise_print_json(const struct advise_answer *a);

/* Step time against rate and against delay, a picture. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status advise_draw(const struct advise_answer *a, const char *path);

#endif
