/* What the ranks of compare must have in common before they can talk. */
#ifndef TG_CLI_COMPARE_AGREE_H
#define TG_CLI_COMPARE_AGREE_H

#include "command/compare/compare_plan.h"
#include "command/job/transports.h"

/* Write the number of runs, and their links. The first run compares its settings before it trains;
 * those of the others are represented by hashes, so that ranks that differ do not train before they
 * find it out. */
void compare_agree_describe(const struct compare_plan *plan, char text[JOB_COMMAND]);

/* The status of joining with that text. If it is TG_E_MISMATCH, the message says which run differs,
 * in the place of hashes. */
tg_status compare_agree_explain(tg_status status, const struct compare_plan *plan);

#endif
