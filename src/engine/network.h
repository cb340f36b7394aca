/* What the network between the ranks can do, found out by sending. */
#ifndef TG_NETWORK_H
#define TG_NETWORK_H

#include "exchange/predict.h"
#include "engine/engine.h"
#include "exchange/nodes.h"

/* Some small and some larger messages between all ranks at once, whose times give the delay and the
 * time of a byte: of the rank that has the longest, the same figures on all ranks. With nodes
 * (NULL: none) between their leaders, while the other ranks wait with more patience than a timeout.
 * All ranks call it at the same point. Blocking: about 20 delays, and about 0.25 s of bytes at 20
 * Mbit/s; up to 4 MB a rank where that is fast. One rank, or node: all zero. Errors TG_E_PEER,
 * TG_E_NOMEM, TG_E_CORRUPT */
TG_NODISCARD tg_status tg__network_measure(tg__engine *e, const tg__nodes *nodes,
                                           tg__network *net_p);

#endif
