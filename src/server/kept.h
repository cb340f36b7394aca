/* What servers have between steps, as it lies in a checkpoint: pieces, each of some elements of one
 * vector. A job that resumes may have other servers, with other parts of the vectors: a server
 * takes its elements from all pieces that have some. */
#ifndef TG_SERVER_KEPT_H
#define TG_SERVER_KEPT_H

#include "state/state.h"

enum tg__kept_kind {
    TG__KEPT_W,       /* parameters */
    TG__KEPT_SLOT,    /* the optimizer's memory, by number */
    TG__KEPT_UPDATES, /* numbers of updates: two words, for each run of elements */
    TG__KEPT_CENTER,  /* the last result of combine=clipped, by round of the method */
    TG__KEPT_RESIDUAL,
    TG__KEPT_BEFORE, /* the residual from before the last answer */
    TG__KEPT_MEMORY, /* of the codec that codes answers, for each tensor */
    TG__KEPT_SENT,   /* what workers have of the parameters, if answers are coded */
    TG__KEPT_KINDS
};

/* Which vector. */
typedef struct tg__kept_key {
    uint16_t channel; /* of the session; not in the file */
    uint16_t bucket;
    uint16_t kind;
    uint16_t number; /* of the slot, or of the round */
} tg__kept_key;

/* Of elements [begin, begin + n), `width` words of 4 bytes for each run of them. */
typedef struct tg__piece {
    tg__kept_key key;
    uint64_t begin;
    size_t n, width;
    size_t runs;         /* 0: each element stands alone */
    const uint32_t *run; /* (runs) elements of each */
    const void *words;   /* (width * runs or n) */
} tg__piece;

/* ---- writing --------------------------------------------------------------------------------- */

/* A state that is being put together: a file in memory, for one channel. */
typedef struct tg__kept_writer {
    tg__ckpt_writer *file;
    uint16_t channel;
    size_t count;
    uint64_t *table; /* of all pieces; from malloc */
    size_t table_cap;
} tg__kept_writer;

/* Begin.
 * identity  what a server that takes the state must have in common: lines key=value
 * Errors    TG_E_NOMEM */
TG_NODISCARD tg_status tg__kept_begin(tg__kept_writer *w, uint16_t channel, const char *identity);
/* Write a piece; one without elements, or of another channel, is left out. */
TG_NODISCARD tg_status tg__kept_put(tg__kept_writer *w, const tg__piece *p);
/* End, with the state's bytes (len), to be released with free(). */
TG_NODISCARD tg_status tg__kept_end(tg__kept_writer *w, void **bytes_p, size_t *len_p);
void tg__kept_abandon(tg__kept_writer *w);

/* ---- reading --------------------------------------------------------------------------------- */

/* Pieces that wait until what they belong to is there. Zero it first. */
typedef struct tg__kept {
    struct tg__kept_piece *piece; /* (count) by key; of one key, those added last come first */
    size_t count, cap;
} tg__kept;

/* Add the pieces of a state.
 * bytes     (len) aligned to 8
 * Errors    TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (identity), TG_E_NOMEM; some pieces may have
 *           been added then */
TG_NODISCARD tg_status tg__kept_add(tg__kept *k, const void *bytes, size_t len, uint16_t channel,
                                    const char *identity);
/* Once all states of a job are added: keep what is of server `index` of so many. */
void tg__kept_cut(tg__kept *k, uint16_t channel, int index, int servers);
bool tg__kept_any(const tg__kept *k, uint16_t channel);
/* Whether a piece without runs, of another kind than the key's but else of its vector, waits. */
bool tg__kept_waits(const tg__kept *k, tg__kept_key key, enum tg__kept_kind kind);
/* The pieces in turn; before NULL: the first. Valid until one is added or taken. */
const tg__piece *tg__kept_next(const tg__kept *k, const tg__piece *before);
/* Copy what is kept of elements [begin, begin + n) of a vector without runs to dst, and forget it.
 * A piece of just these elements comes before others that have some of them.
 * Returns whether there was any. */
bool tg__kept_take(tg__kept *k, tg__kept_key key, uint64_t begin, size_t n, float *dst);
/* The words (width) of the run that element `at` is in; NULL: none. Valid until tg__kept_free. */
const uint32_t *tg__kept_at(const tg__kept *k, tg__kept_key key, uint64_t at, size_t width);
void tg__kept_free(tg__kept *k);

#endif
