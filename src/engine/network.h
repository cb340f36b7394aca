/* Measure the network between the ranks. */
#ifndef TG_NETWORK_H
#define TG_NETWORK_H

#include "exchange/predict.h"
#include "engine/engine.h"
#include "exchange/nodes.h"

/* Exchange some small and some larger messages among all ranks at once. Their durations give the
 * delay and the time per byte. All ranks call it at the same point, and get the same result: that
 * of the slowest rank. Blocking: about 25 delays, plus about 0.25 s of bytes at 20 Mbit/s; on a
 * fast network up to 4 MB per rank.
 * nodes   measure between the leaders; the other ranks wait longer than a timeout. NULL: one level
 * net_p   [out] all zero for a single rank or node
 * Errors  TG_E_PEER, TG_E_NOMEM, TG_E_CORRUPT */
TG_NODISCARD tg_status tg__network_measure(tg__engine *e, const tg__nodes *nodes,
                                           tg__network *net_p);

#endif
