/* What a step's work takes (train_times) as part of a record, and back. */
#ifndef TG_CLI_STEP_TIMES_H
#define TG_CLI_STEP_TIMES_H

#include <jansson.h>
#include "command/job/options.h"
#include "trainer/loop/train.h"

/* null for NULL. NULL: out of memory */
json_t *step_times_record(const train_times *times);

/* From the first start record of a run by a virtual clock in the file o->tau; release by
 * train_times_free. Errors TG_E_IO, TG_E_CORRUPT (no such record, or it is damaged), TG_E_MISMATCH
 * (a batch or a model of which a step takes another time), TG_E_NOMEM */
TG_NODISCARD tg_status step_times_read(const struct run_options *o, train_times *times_p);

#endif
