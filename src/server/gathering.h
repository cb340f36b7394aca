/* A gathering: the frames of all ranks for one part of one exchange, their sum, and the answer. In
 * modes in which each gradient counts by itself, it is that of one rank. */
#ifndef TG_SERVER_GATHERING_H
#define TG_SERVER_GATHERING_H

#include "server/region.h"
#include "server/store.h"
#include "telegrad/transport.h"

/* A message that waits for those of lower ranks. */
typedef struct tg__pushed {
    uint8_t *msg; /* from the store; NULL: not here, or in the sum already */
    size_t len;   /* bytes of the frame in it */
    tg_request answer;
    bool open;    /* the answer is on its way to the rank */
    bool flagged; /* with NONFINITE */
} tg__pushed;

typedef struct tg__gathering tg__gathering;
struct tg__gathering {
    uint32_t tag;        /* of the ranks' messages */
    tg__envelope id;     /* what all of them say; its sender is the first to come */
    tg__star star;       /* likewise */
    uint8_t codec, form; /* of the first frame */
    size_t n;
    uint16_t flags;     /* those of all */
    int only;           /* the rank that it is about; -1: all */
    int next;           /* the frames of ranks below it are in the sum; P: it is complete. With a
                           robust rule 0 until all frames are here */
    int sending;        /* answers on their way */
    bool held;          /* complete, but a rank is too far ahead to be answered */
    bool again;         /* its message was taken once already, but the answer was lost */
    int64_t from_ns;    /* when the first came */
    tg__region *region; /* whose elements it is about; NULL: the answer is the sum */
    tg__robust *robust; /* the rule that combines the frames; NULL: they are summed */
    uint8_t *answer;    /* from the store */
    tg__gathering *link;
    tg__pushed rank[]; /* (P) */
};

/* Begin with the first message to come, which has been opened.
 * g  zeroed but for its ranks' messages, which are NULL
 * Errors  those of tg__gathering_add */
TG_NODISCARD tg_status tg__gathering_begin(tg__gathering *g, uint32_t tag, const tg__envelope *id,
                                           const uint8_t *payload, size_t len);
/* Get memory for the sum: a few bytes can announce many elements, so first check that so many make
 * sense.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gathering_allocate(tg__gathering *g, tg__store *store);
/* Add a rank's message, which has been opened: its payload is checked, and the frames that have
 * arrived are added up in rank order. The message belongs to the gathering on success.
 * ranks   of which the gathering needs frames; g->only >= 0: of that one only
 * Errors  TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH; the text does not name the rank */
TG_NODISCARD tg_status tg__gathering_add(tg__gathering *g, tg__store *store, int ranks, int rank,
                                         uint8_t *msg, size_t len, uint16_t flags);
/* What has been gathered: the frames' sum becomes what it stands for. With a robust rule the frames
 * are combined, and the flag NONFINITE says whether that has failed.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gathering_finish(tg__gathering *g, tg__store *store, int ranks);
/* The values (n) of the answer: first the sum, in the end what is sent. */
float *tg__gathering_values(const tg__gathering *g);
/* Complete the answer: seal it as from `sender`. Returns its length. */
size_t tg__gathering_seal(tg__gathering *g, int sender);

#endif
