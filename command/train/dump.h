/* Writes the gradients of a run to files: DIR/gradient-00000001.npy (step 1, all tensors flattened,
 * f32), and DIR/tensors.json, which describes their layout. */
#ifndef TG_CLI_DUMP_H
#define TG_CLI_DUMP_H

#include "trainer/loop/train.h"

struct dump;

/* Creates dir if it does not exist, and locks it until dump_close.
 * resumes  the run continues an earlier one, whose gradients may be there
 * Errors   TG_E_IO (names dir and reason: another run has it, or gradients are there), TG_E_NOMEM
 */
TG_NODISCARD tg_status dump_open(const char *dir, bool resumes, struct dump **d_p);
void dump_close(struct dump *d); /* NULL is fine */

/* Each file appears only when complete. Errors TG_E_IO */
TG_NODISCARD tg_status dump_gradient(struct dump *d, uint64_t step, const train_gradient *tensor,
                                     size_t count);

#endif
