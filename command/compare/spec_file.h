/* The file of compare --spec:
 *
 *     # a comment, as a line or at the end of one
 *     --batch 32                       an option of all runs; the command line's wins
 *     --no-eval
 *     CD-SGD: method=2bit;strategy=cd:k=5
 */
#ifndef TG_CLI_SPEC_FILE_H
#define TG_CLI_SPEC_FILE_H

#include "command/compare/compare_plan.h"

/* Read `path`: add its runs to plan, and set its options in common unless they were given before.
 * The text stays in plan->spec_text, which common then points into. Errors TG_E_IO, TG_E_NOMEM,
 * TG_E_SPEC (the message names file and line) */
TG_NODISCARD tg_status spec_file_read(const char *path, struct run_options *common,
                                      struct compare_plan *plan);

#endif
