/* The sections of a snapshot, for its writer (snapshot.c) and its reader (snapshot_read.c). */
#ifndef TG_SERVER_SNAPSHOT_LAYOUT_H
#define TG_SERVER_SNAPSHOT_LAYOUT_H

#include "server/server_impl.h"
#include <stdio.h>

/* A region in the section "regions": numbers, little-endian. The vectors of region 3 are sections:
 * "w 3 0", "slot 3 1", "seen 3 5", which is what rank 5 was answered. */
enum { HEAD = 6, ENTRY = 8 * (HEAD + TG__REGION_SLICES) };
/* A seat in the section "workers": tg__stamp.worker (4), number of the last message taken (8), step
 * at which it began (8). */
enum { WORKER = 20 };
/* A seat in the section "clocks 3 0", of region 3: clock (8), step that is coming (8), elements of
 * it that have come (8), fresh (8), updates[0] when it was answered last (8). */
enum { CLOCK = 40 };
/* The section "late 3 0", which is there if steps have ended in rounds: 1 + the last step, of each
 * slice (8); then for each seat its late slices (8), their step (8), and the slices of the step
 * that is coming (8). */
enum { ENDED = 8 * TG__REGION_SLICES, LATE = 24 };

/* If answers of region 3 are coded, sections "sent 3 0", how often they were (8), and the coding if
 * one was told; "v 3 0", what workers have; "coder 3 0", the codec's memory if it has one. If each
 * rank has something of its own, "sent 3 5" of rank 5 alone: it is answered with all of w next. */
enum { SENT = 8 };
/* The section "centers", with combine=clipped: for each last result, channel (8), bucket (8), round
 * (8), first element (8), elements (8). Result 3 is the section "center 3 0". */
enum { CENTER = 40 };
/* The section "tensors 1": what the tensors are whose parameters channel 1 has (tensors.h). */

static inline const char *section(char text[64], const char *what, size_t region, size_t k)
{
    snprintf(text, 64, "%s %zu %zu", what, region, k);
    return text;
}

/* What must be the same when it is read. The learning rate comes with each gradient. */
TG_NODISCARD tg_status tg__snapshot_identity(const tg_server *s, char *text, size_t room);
/* Read snapshot s->journal.number. */
TG_NODISCARD tg_status tg__snapshot_read(tg_server *s);

#endif
