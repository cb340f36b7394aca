/* Schedules of the learning rate whose reductions come after the end of the run. */
#ifndef TG_CLI_LATE_RATES_H
#define TG_CLI_LATE_RATES_H

#include "trainer/loop/train.h"

/* Warn before the run. title: the run's name if there are several; "": none */
void late_rates_warn(const train_start_info *info, const char *title);

#endif
