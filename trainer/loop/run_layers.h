/* The row of layers in the trace: forward passes, gradients of their tensors and of their
 * inputs. */
#ifndef TG_TRAIN_RUN_LAYERS_H
#define TG_TRAIN_RUN_LAYERS_H

#include "trainer/loop/run.h"

/* None of these does anything without job->trace. Call run_layers_make once the model exists;
 * run_layers_free undoes it. Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_layers_make(run *r);
void run_layers_free(run *r);

/* A layer's work begins, and the work before it ends; layers without tensors are skipped. */
void run_layers_begin(run *r, model_work work, size_t layer);
/* The current work ends, if there is any. */
void run_layers_end(run *r);

#endif
