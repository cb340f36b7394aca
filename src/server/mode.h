/* What a server does with gradients, by spec string. */
#ifndef TG_SERVER_MODE_H
#define TG_SERVER_MODE_H

#include "server/robust.h"
#include "telegrad/optimizer.h"
#include "telegrad/spec.h"

#define TG__NO_BOUND INT64_MAX

typedef struct tg__mode {
    bool keeps;              /* it keeps parameters, and answers with them; false: with sums */
    bool gathers;            /* a step takes the gradients of all ranks; false: of one */
    int64_t staleness;       /* steps that a rank may be ahead of the slowest one; TG__NO_BOUND */
    double compensate;       /* lambda of DC-ASGD; 0: none */
    tg__robust_rule rule;    /* how gradients are combined; other rules than the mean gather */
    tg_optimizer *optimizer; /* NULL unless it keeps parameters */
    tg_optimizer *plain;     /* without momentum, for methods that have their own; NULL: none */
    tg_spec *spec;
} tg__mode;

/* The entries, for lists. */
const tg_entry *const *tg__mode_entries(size_t *count_p);
/* Errors  TG_E_SPEC, TG_E_UNSUPPORTED (the optimizer), TG_E_NOMEM */
TG_NODISCARD tg_status tg__mode_parse(const char *text, const char *optimizer, tg__mode *m);
void tg__mode_free(tg__mode *m);

#endif
