/* Two levels: a method among nodes, dense sums within them.
 *
 *     all ranks of a node   --f32, reduce-->   its leader sums in rank order
 *     leaders               the method's own rounds: compensate, encode, exchange, decode
 *     leader                --f32, broadcast-->   the ranks of its node
 *
 * Gradient    With N nodes and P ranks, the method sees one rank per node, whose gradient is the
 *             sum over its node times N / P. The mean of these over nodes is the mean over all
 *             ranks, even if nodes have different numbers of ranks. Random numbers are those of N
 *             ranks.
 * Memory      The method's memory is held by the leaders (role LEADER).
 * Not finite  A node's gradient is not finite if that of one of its ranks is not, or if their sum
 *             overflows f32. Then the leader sends zeros, does not change its state, and informs
 *             all ranks, as a single rank does.
 * Timeouts    A leader waits one timeout for the ranks of its node, and two for other leaders.
 *             Other ranks wait two for each message of the method, because their leader may wait
 *             that long. After the first, a wait also ends if any rank is known to have given up
 *             because of another.
 * Refused     exchange=none; votes (signsgd, signum) if nodes have different numbers of ranks,
 *             because each node has one vote.
 * Limits      With one rank per node, tg__nodes_create returns NULL, and the method runs alone.
 *             With
 *             one node, the method has one rank and works on the mean; dense is the mean in rank
 *             order. */
#ifndef TG_TWO_LEVEL_H
#define TG_TWO_LEVEL_H

#include "method/method.h"
#include "exchange/nodes.h"

/* Turn m into a method of two levels; this changes its def. m has its spec and setup, with
 * setup.nodes set.
 * text    the method's spec, created again for the leaders. The other ranks create it as well, and
 *         discard it, so that all ranks report its errors
 * Errors  those of tg__method_create */
TG_NODISCARD tg_status tg__two_level_init(tg__method *m, const char *text);

#endif
