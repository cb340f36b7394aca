/* Shared by the files of telegrad advise. */
#ifndef TG_CLI_ADVISE_H
#define TG_CLI_ADVISE_H

#include <jansson.h>
#include "command/job/launch.h"
#include "trainer/loop/advice.h"

#define ADVISE_WAYS_MAX 64
#define ADVISE_WHY 500        /* bytes of a reason */
#define ADVISE_EPOCHS 10      /* epochs in the command to paste; the first is for warm-ups */
#define ADVISE_SIM_STEPS 2000 /* steps, where it simulates */

/* The measured figures of the transport (--measure), in seconds. */
struct advise_measured {
    double tau, phi, psi, delta, alpha, beta; /* beta: per byte */
    double ssgd, bit;                         /* T_ssgd and T_bit, from short runs */
};

struct advise_answer {
    const struct run_options *options;
    const advice *advice;
    int workers;
    bool processes; /* each worker is one */
    tg_link link;
    const char *link_text;
    const struct advise_measured *measured; /* NULL: not measured */
    advice_way way[ADVISE_WAYS_MAX];
    size_t ways;
    size_t coded;       /* the method that psi and delta apply to */
    advice_times times; /* of that method */
    unsigned k;         /* of T_cd */
    advice_ranges compression, delay;
    tg_link server_link;          /* of each server; with options->servers > 0 */
    const char *server_link_text; /* NULL: none */
    advice_answer_served served;  /* likewise */
};

/* Compute the answer. Errors those of advice.h */
TG_NODISCARD tg_status advise_answer_make(struct advise_answer *a);
/* Why way[0] is recommended: a sentence without its full stop. */
void advise_why(const struct advise_answer *a, char *text, size_t room);

/* The shell command that trains as recommended, warm-ups included. *text_p belongs to the caller,
 * who frees it with free(). Errors TG_E_NOMEM */
TG_NODISCARD tg_status advise_command(const struct advise_answer *a, char **text_p);

/* The same for the choice with servers. Errors TG_E_NOMEM */
TG_NODISCARD tg_status advise_served_command(const struct advise_answer *a, char **text_p);
/* Print whether servers pay (advise_servers.c). Errors TG_E_NOMEM, TG_E_IO */
TG_NODISCARD tg_status advise_served_print(const struct advise_answer *a);
/* NULL: out of memory */
json_t *advise_served_json(const struct advise_answer *a);

/* Print the answer to standard output. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status advise_print(const struct advise_answer *a);
TG_NODISCARD tg_status advise_print_json(const struct advise_answer *a);

/* Draw the step time against rate and against delay. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status advise_draw(const struct advise_answer *a, const char *path);

#endif
