/* How long an exchange with servers takes: arithmetic on bytes and links, for links that differ.
 *
 * In step. All ranks send, the servers' links carry the frames of all in and the answers to all
 * out, and each rank's link carries one frame and one answer. In the long run, answers leave a
 * server one after the other, so ranks begin their next step at such distances, and a frame arrives
 * while earlier ones are still carried. So of what the frames take on a server's links, and what
 * the answers take, only the longer counts, and one rank's part of the other:
 *
 *     T = 2 delays + max((P-1) out + max(in, push), P in) + max(out, pull)
 *
 * With several servers, where the ranks' links are what limits, the answer of the first one comes
 * while the part for the next one leaves: what follows the last part is less than the whole answer.
 *
 * Slices (exchange_star.c): the answer to one slice leaves while the next one comes, so here, too,
 * the longer of both counts, and one slice of the other. So many slices are under way at once that
 * long delays count more than once. */
#ifndef TG_STAR_COST_H
#define TG_STAR_COST_H

#include "exchange/exchange.h"

/* Links, in seconds that a byte occupies them; 0: unlimited. */
typedef struct tg__star_net {
    int servers;
    double up, down;               /* a rank's */
    double server_up, server_down; /* a server's */
    double delay;                  /* of a message, seconds */
} tg__star_net;

/* Seconds that the messages of one rank occupy a link, in one exchange. */
typedef struct tg__star_load {
    double push, pull; /* its own link: frame, answer */
    double in, out;    /* a server's */
    uint32_t slices;   /* in which each server's part goes */
    int servers;
    double bytes, answer; /* that it sends, to all servers, and receives */
} tg__star_load;

/* Most bytes of an answer's slice, unless that takes more than TG__SLICES of them; an answer of
 * less than two slices goes as a whole. A server answers the first slice when all ranks' have come,
 * so its link carries nothing else for a slice of each rank at the beginning, and at the end. */
#define TG__STAR_SLICE_BYTES ((size_t)16 << 10)
#define TG__STAR_OPEN 32u /* slices in flight at once */

/* Whether vectors of this codec go in slices: dense f32 does. Coded ones stay whole, so that a rule
 * of a server (robust.h) may see a whole gradient. */
bool tg__star_cuts(const tg_codec *codec);
/* The number of slices in which each server's block of such a vector of n elements goes. */
uint32_t tg__star_slices(size_t n, int servers);
/* Load of a vector of n elements that is `frame` bytes when coded.
 * cuts   tg__star_cuts of its codec
 * coded  the answers are coded, too (twoway) */
tg__star_load tg__star_load_of(size_t n, double frame, bool cuts, bool coded,
                               const tg__star_net *net);
/* Seconds of an exchange of `ranks` in step. */
double tg__star_seconds(const tg__star_load *load, double ranks, double delay);

#endif
