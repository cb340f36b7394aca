/* A gathering: the frames of all ranks for one part of one exchange, their sum, and the answer. In
 * modes that apply each gradient separately, it has the frame of one rank. */
#ifndef TG_SERVER_GATHERING_H
#define TG_SERVER_GATHERING_H

#include "server/recoder.h"
#include "server/region.h"
#include "server/store.h"
#include "telegrad/transport.h"

/* A rank's message, which waits until those of lower ranks are here. */
typedef struct tg__pushed {
    uint8_t *msg; /* from the store; NULL: not here yet, or already added to the sum */
    size_t len;   /* bytes of the frame in it */
    size_t whole; /* bytes of the message */
    tg_request answer;
    bool open;    /* the answer is being sent to the rank */
    bool flagged; /* the message has the flag NONFINITE */
} tg__pushed;

typedef struct tg__gathering tg__gathering;
typedef struct tg__round tg__round;
struct tg__gathering {
    uint32_t tag;        /* of the ranks' messages */
    tg__envelope id;     /* the same in all messages; its sender is the first one's */
    tg__star star;       /* likewise */
    uint8_t codec, form; /* of the first frame */
    size_t n;
    uint16_t flags;       /* of all messages */
    int only;             /* the only rank of the gathering; -1: all ranks */
    int next;             /* the sum has the frames of all ranks below this one; P: it is complete.
                           With a robust rule 0 until all frames are here */
    int sending;          /* answers that are being sent */
    bool held;            /* complete, but not answered yet: its rank is too far ahead, or the
                           journal must be synced first */
    bool again;           /* its message was applied before, but the answer was lost */
    bool waits;           /* its frame is kept until its round ends: round.h */
    bool gone;            /* its worker is no longer there to be answered */
    bool first;           /* it is the first message of a worker that was not known */
    bool alone;           /* likewise, and no other was there, or may be back */
    bool anew;            /* its worker has joined, and steps count from 0 again */
    bool read;            /* what it is answered is there: the parameters after its round */
    bool late;            /* its round had ended without it: the answer has the step `told` */
    uint64_t told;        /* the step at which the worker goes on */
    int64_t from_ns;      /* when the first message arrived */
    tg__region *region;   /* the parameters that it updates; NULL: the answer is the sum */
    tg__robust *robust;   /* the rule that combines the frames; NULL: they are summed */
    tg__round *round;     /* in which it waits; NULL: in none */
    tg__recoder *recoder; /* codes the answer; NULL: it is dense f32 */
    uint8_t *coding;      /* (star.coding) how to code the answer; NULL: with recoder, or f32 */
    char *tensors;        /* (star.tensors) what they are, if that is new; from malloc */
    size_t coded_len;     /* bytes of the answer's coded frame; 0: it is dense f32 */
    uint64_t given;       /* with coding: the number of the parameters in the answer */
    uint8_t *answer;      /* from the store */
    tg__gathering *link;
    tg__pushed rank[]; /* (P) */
};

/* Begin with the first message, whose envelope has been opened.
 * g  all zero, with messages NULL
 * Errors  those of tg__gathering_add */
TG_NODISCARD tg_status tg__gathering_begin(tg__gathering *g, uint32_t tag, const tg__envelope *id,
                                           const uint8_t *payload, size_t len);
/* Get memory for the sum. A message of a few bytes can announce many elements, so check their
 * number first.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gathering_allocate(tg__gathering *g, tg__store *store);
/* Add a rank's message, whose envelope has been opened. Checks the payload, and adds the frames
 * that have arrived, in rank order. The gathering owns the message on success.
 * ranks   the number of ranks whose frames it needs; with g->only >= 0 it needs that one's only
 * Errors  TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH; the text does not name the rank */
TG_NODISCARD tg_status tg__gathering_add(tg__gathering *g, tg__store *store, int ranks, int rank,
                                         uint8_t *msg, size_t len, uint16_t flags);
/* Keep the coding behind the frame of its first message.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gathering_keep_coding(tg__gathering *g, const uint8_t *coding);
/* Once all frames have arrived: turn their sum into the result (such as the mean). With a robust
 * rule, combine the frames; the flag NONFINITE says whether that failed.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gathering_finish(tg__gathering *g, tg__store *store, int ranks);
/* Neither parameters that ranks offer nor the state of a checkpoint. */
bool tg__gathering_has_gradients(const tg__gathering *g);
/* The frame of a rank, of a gathering that keeps it. */
tg__robust_frame tg__gathering_frame(const tg__gathering *g, int rank);
/* The values (n) of the answer: at first the sum, at the end what is sent. */
float *tg__gathering_values(const tg__gathering *g);
/* Answer with a coded frame, of at most TG__F32_BYTES(g->n).
 * number  of the parameters that it leads to */
void tg__gathering_code(tg__gathering *g, const uint8_t *frame, size_t len, uint64_t number);
/* Seal the answer, with `sender` as its sender. Returns its length.
 * step  of answers to parameters and to late gradients: the step at which the worker goes on */
size_t tg__gathering_seal(tg__gathering *g, int sender, uint64_t step);

#endif
