/* Specs of data sets: NAME, NAME:PATH, NAME:key=value,... or NAME:PATH,key=value,... A path ends
 * before `,key=`, and may contain blanks. */
#ifndef TG_TRAIN_DATA_SPEC_H
#define TG_TRAIN_DATA_SPEC_H

#include "trainer/data/data.h"
#include "telegrad/spec.h"

typedef struct data_spec {
    const data_set *set;
    char *path; /* NULL: not given */
    tg_spec *keys;
} data_spec;

/* Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status data_spec_parse(const char *text, data_spec *spec_p);
void data_spec_free(data_spec *spec);

#endif
