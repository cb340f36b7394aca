/* What is to be said of a run before it begins: what was settled for it, what to expect of it. */
#ifndef TG_CLI_RUN_NOTES_H
#define TG_CLI_RUN_NOTES_H

#include <jansson.h>
#include "command/job/options.h"

/* One more in o->settled, cut where it is too long; past OPT_MAX_NOTES it is left out. */
void run_notes_add(struct run_options *o, bool warns, const char *format, ...) TG_PRINTF(3, 4);

/* Each on stderr. title: the run's, of several; "": none */
void run_notes_say(const struct run_options *o, const char *title);

/* All of them as one text; null: none. NULL: out of memory */
json_t *run_notes_record(const struct run_options *o);

#endif
