/* Notes to print before a run: what was chosen for it, and what to expect of it. */
#ifndef TG_CLI_RUN_NOTES_H
#define TG_CLI_RUN_NOTES_H

#include <jansson.h>
#include "command/job/options.h"

/* Add a note to o->settled. Long notes are cut; those beyond OPT_MAX_NOTES are dropped. */
void run_notes_add(struct run_options *o, bool warns, const char *format, ...) TG_PRINTF(3, 4);
/* One that is printed only where remarks are. */
void run_notes_remark(struct run_options *o, const char *format, ...) TG_PRINTF(2, 3);

/* Print each on stderr. title: the run's name if there are several; "": none */
void run_notes_say(const struct run_options *o, const char *title);

/* All of them as one text; null: none. NULL: out of memory */
json_t *run_notes_record(const struct run_options *o);

#endif
