/* The trace's row of layers: their forward passes, the gradients of their tensors and of their
 * inputs. */
#ifndef TG_TRAIN_RUN_LAYERS_H
#define TG_TRAIN_RUN_LAYERS_H

#include "trainer/loop/run.h"

/* All do nothing without job->trace. When the model is there; run_layers_free takes back. Errors
 * TG_E_NOMEM */
TG_NODISCARD tg_status run_layers_make(run *r);
void run_layers_free(run *r);

/* A layer's work begins, which ends that before it; layers without tensors are passed over. */
void run_layers_begin(run *r, model_work work, size_t layer);
/* What was begun is over; nothing if nothing was. */
void run_layers_end(run *r);

#endif
