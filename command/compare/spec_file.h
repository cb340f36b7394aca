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

/* Read `path`: runs are added to plan, options set in common unless they were given before. The
 * text stays in plan->spec_text, where common then points to. Errors TG_E_IO, TG_E_NOMEM,
 * TG_E_SPEC: naming file and line */
TG_NODISCARD tg_status spec_file_read(const char *path, struct run_options *common,
                                      struct compare_plan *plan);

#endif
