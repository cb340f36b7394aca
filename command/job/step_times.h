/* The times of a step's work (train_times), as part of a record, and read back from it. */
#ifndef TG_CLI_STEP_TIMES_H
#define TG_CLI_STEP_TIMES_H

#include <jansson.h>
#include "command/job/options.h"
#include "trainer/loop/train.h"

/* A NULL argument gives a JSON null. Returns NULL when out of memory. */
json_t *step_times_record(const train_times *times);

/* Read the times from the first start record of a virtual-clock run in the file o->tau. Release
 * them with train_times_free. Errors TG_E_IO, TG_E_CORRUPT (no such record, or a damaged one),
 * TG_E_MISMATCH (another batch or model, whose steps take another time), TG_E_NOMEM */
TG_NODISCARD tg_status step_times_read(const struct run_options *o, train_times *times_p);
/* If a run failed because its buckets are others than those that were measured, say so with the
 * option. Returns status. */
tg_status step_times_explain(const struct run_options *o, tg_status status);

#endif
