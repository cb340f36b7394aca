/* Warn before a run whose method sends more than dense exchanges would. */
#ifndef TG_CLI_TRAFFIC_NOTE_H
#define TG_CLI_TRAFFIC_NOTE_H

#include "command/job/options.h"

/* Add a warning to o->settled if, among the run's workers, the method's exchange sends more bytes
 * than a dense one. It names the best exchange that the method has, or dense. Methods with a
 * threshold are left out, because what they send depends on the gradients.
 * method  the run's, parsed */
void traffic_note_add(struct run_options *o, const tg_spec *method);

#endif
