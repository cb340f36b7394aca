/* A region: a server's block of a bucket's parameters, with the optimizer's memory. Ranks push
 * gradients of the whole region, or of slices of it. */
#ifndef TG_SERVER_REGION_H
#define TG_SERVER_REGION_H

#include "exchange/star.h"
#include "server/mode.h"
#include "server/sent.h"

enum { TG__REGION_SLICES = 64, TG__REGION_SLOTS = 2 };

/* A rank's progress in a region. */
typedef struct tg__pace_of {
    bool counts;     /* the bound of staleness includes it */
    bool fresh;      /* no gradient of it has arrived since it joined */
    uint64_t clock;  /* its complete steps; one that joins later begins with the slowest rank's */
    uint64_t step;   /* the step that is arriving */
    size_t elements; /* of it that have arrived */
    uint64_t came;   /* with rounds: the slices of its step `clock` that have come: bits */
    uint64_t late, late_step; /* its last late gradient: bits of slices, and its step */
    uint64_t known;           /* updates[0] when the rank was last answered */
    uint64_t has;   /* the slices of which it has what it was last sent (tg__region_sent): bits */
    tg__sent *sent; /* what it has, if each rank has something of its own, and its answers are coded
                       or the mode compensates; NULL: not needed */
} tg__pace_of;

typedef struct tg__region tg__region;
struct tg__region {
    uint16_t channel, bucket;
    int ranks;
    size_t lo, n; /* elements [lo, lo + n) of the bucket */
    float *w;
    float *slot[TG__REGION_SLOTS];
    float *g;       /* scratch */
    tg__sent *sent; /* what all ranks have, once answers are coded; NULL: w, or rank[].sent */
    bool told;      /* ... a checkpoint has told it, but not yet the memory of its codec */
    uint8_t *frame; /* (frame_room) the last coded answer */
    size_t frame_len, frame_room;
    uint64_t updates[TG__REGION_SLICES];
    uint64_t ended[TG__REGION_SLICES]; /* with rounds: 1 + the step of the last that has ended */
    uint64_t began;                    /* clock of the fastest rank when the server was restarted */
    tg__region *next;
    tg__pace_of rank[]; /* (ranks) */
};

/* Create a region with the parameters w (n).
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__region_create(const tg__mode *m, int ranks, size_t lo, const float *w,
                                         size_t n, tg__region **r_p);
void tg__region_destroy(tg__region *r);
/* The region that a message is about; NULL: none. */
tg__region *tg__region_find(tg__region *list, const tg__envelope *id);

/* One step of the optimizer on elements [star->begin, star->begin + n) of the bucket, which are in
 * the region.
 * g      (n) overwritten if the mode compensates
 * slice  of the exchange
 * rank   whose gradient it is; -1: the mean of all ranks'
 * Returns  false if parameters or the optimizer's memory would not be finite: then nothing is
 *          changed */
TG_NODISCARD bool tg__region_update(tg__region *r, const tg__mode *m, const tg__star *star,
                                    uint16_t slice, int rank, float *g, size_t n);
/* What the rank was last sent; -1: all ranks. NULL: w */
tg__sent *tg__region_sent(const tg__region *r, int rank);
/* The rank asks for parameters: the codec of its answers begins anew. If the mode compensates,
 * remember what it is answered from now on.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__region_see(tg__region *r, const tg__mode *m, int rank);
/* Include a new rank in the bound of staleness from now on, as if it had made `base` steps. */
void tg__region_admit(tg__region *r, int rank, uint64_t base);
/* The rank will not be back. */
void tg__region_forget(tg__region *r, int rank);
/* Before the update by gradients that ask for coded answers: note by which coding, of the message
 * `star` with frames in this codec. (Only complete codings matter.)
 * rank    whose gradient it is; -1: those of all ranks, who have the same
 * Errors  those of tg__sent_adopt */
TG_NODISCARD tg_status tg__region_begin_sending(tg__region *r, int rank, const tg__star *star,
                                                uint8_t codec, const uint8_t *coding);
/* The gradients of elements [begin, begin + n), of which `star` is one, are applied, or dropped:
 * what their ranks have changes to what they are sent. Unless r->frame_len is 0, r->frame is for
 * those who have what they were last sent; all others must read elements.
 * rank    -1: all ranks
 * codec   of their frames
 * step    for random numbers
 * coding  behind a frame; NULL: they do not ask for coded answers, and get w
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__region_send(tg__region *r, int rank, const tg__star *star, size_t n,
                                       uint8_t codec, uint64_t step, const uint8_t *coding,
                                       bool dropped);
/* Copy elements [begin, begin + n) of what all ranks have, or else those of now, to w, as the
 * answer to a rank; -1: to all ranks. */
void tg__region_read(tg__region *r, int rank, size_t begin, float *w, size_t n);
/* The rank has the parameters of now, from element `begin` on; also without reading them, when a
 * journal is replayed. r NULL: nothing */
void tg__region_answered(tg__region *r, int rank, uint64_t begin);
/* Steps of the first slice since a rank was last answered. */
uint64_t tg__region_staleness(const tg__region *r, int rank);
/* The rank goes on at a step, if it is a later one. */
void tg__pace_move(tg__pace_of *p, uint64_t step);
/* The bits of slices in tg__pace_of: all for a whole region. */
uint64_t tg__slice_bits(const tg__region *r, uint16_t slice, size_t n);
/* Count n elements of a rank's gradient that have arrived, of its step `step`. True if all have. */
bool tg__region_count(tg__region *r, int rank, uint64_t step, size_t n);
/* The same, which are those of its step `clock`. */
void tg__region_note(tg__region *r, int rank, uint64_t step, size_t n);

#endif
