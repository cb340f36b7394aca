/* Two levels: a method among nodes, dense sums within them.
 *
 *     all ranks of a node   --f32, reduce-->   its leader sums in rank order
 *     leaders               the method's own rounds: compensate, encode, exchange, decode
 *     leader                --f32, broadcast-->   the ranks of its node
 *
 * What the method sees is a rank a node, whose gradient is the sum over its node times N / P
 * (N nodes, P ranks): the mean of these over nodes is the mean over all ranks, however many each
 * node has. Its memory is at the leaders (role LEADER). Its random numbers are those of N ranks.
 *
 * A node's gradient is not finite if one of its ranks' is not, or if their sum leaves the range of
 * f32: then the leader sends zeros and leaves its state alone, as a rank does, and all ranks are
 * told.
 *
 * A leader waits a timeout for the ranks of its node, two for other leaders, and a rank that does
 * not lead two for each message of the method, because its leader may wait so long; after one, it
 * also ends if any rank is known to have given up because of another.
 *
 * Refused: exchange=none; votes (signsgd, signum) where nodes have unequal numbers of ranks,
 * because each node has one vote.
 *
 * Limits: one rank a node: not made (tg__nodes_create gives NULL): the method alone. One node: the
 * method with one rank, on the mean; dense: the mean in rank order. */
#ifndef TG_TWO_LEVEL_H
#define TG_TWO_LEVEL_H

#include "method/method.h"
#include "exchange/nodes.h"

/* Make m (its spec and setup stand; setup.nodes is set) a method of two levels, whose def it
 * becomes. text: the method's, made anew for the leader; the others make it too, and drop it, so
 * that all ranks say what is wrong with it. Errors those of tg__method_create */
TG_NODISCARD tg_status tg__two_level_init(tg__method *m, const char *text);

#endif
