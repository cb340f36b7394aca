/* A region: the parameters of a bucket's block that a server keeps, with the optimizer's memory.
 * Ranks push gradients of all of it, or of slices of it. */
#ifndef TG_SERVER_REGION_H
#define TG_SERVER_REGION_H

#include "exchange/star.h"
#include "server/mode.h"

enum { TG__REGION_SLICES = 64, TG__REGION_SLOTS = 2 };

/* A rank's progress in a region. */
typedef struct tg__pace_of {
    bool counts; /* others may have to wait for it */
    uint64_t
        clock; /* steps of which all elements have come; one that comes later begins with more */
    uint64_t step;   /* the step that is coming */
    size_t elements; /* those of it that have come */
    uint64_t known;  /* updates[0] when the rank was answered last */
    float *seen;     /* (n) what the rank was answered last, for compensation; NULL: no need */
} tg__pace_of;

typedef struct tg__region tg__region;
struct tg__region {
    uint16_t channel, bucket;
    size_t lo, n; /* elements [lo, lo + n) of the bucket */
    float *w;
    float *slot[TG__REGION_SLOTS];
    float *g; /* scratch */
    uint64_t updates[TG__REGION_SLICES];
    uint64_t began; /* clock of the fastest rank when the server was started again */
    tg__region *next;
    tg__pace_of rank[]; /* (ranks) */
};

/* Create a region with the parameters w (n).
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__region_create(const tg__mode *m, int ranks, size_t lo, const float *w,
                                         size_t n, tg__region **r_p);
void tg__region_destroy(tg__region *r, int ranks);

/* One step of the optimizer on elements [begin, begin + n) of the bucket, which the region has.
 * g      (n) overwritten if the mode compensates
 * slice  of the exchange
 * rank   whose gradient it is; -1: all ranks' */
void tg__region_update(tg__region *r, const tg__mode *m, const tg__star *star, uint16_t slice,
                       int rank, float *g, size_t n);
/* What the rank is answered from now on is remembered, if the mode compensates.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__region_see(tg__region *r, const tg__mode *m, int rank);
/* A rank counts from now on, with `base` steps behind it. */
void tg__region_admit(tg__region *r, int rank, uint64_t base);
/* Copy elements [begin, begin + n) to w, as an answer to a rank; -1: to all. */
void tg__region_read(tg__region *r, int rank, size_t begin, float *w, size_t n);
/* Steps since a rank was answered last, of the first slice. */
uint64_t tg__region_staleness(const tg__region *r, int rank);
/* A rank's gradient of n elements in a step has come. */
void tg__region_note(tg__region *r, int rank, uint64_t step, size_t n);

#endif
