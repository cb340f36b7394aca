/* What a rank sends to a server: the payload of a message of the exchange `star` is a head, then a
 * frame. The answer's payload is a frame; that to parameters, also the step (8) at which the worker
 * begins; that to a gradient that asks a server of parameters for coded answers, a tail.
 *
 *   0  1  version (2)            4  4  bytes of the coding, or of the tensors, behind the frame
 *   1  1  how to combine         8  8  first element of the frame, in the vector
 *   2  2  flags                 16  8  learning rate, f64; 0: unknown
 * docs/wire-format.md is the specification. */
#ifndef TG_EXCHANGE_STAR_H
#define TG_EXCHANGE_STAR_H

#include "base/settings.h"
#include "exchange/message.h"

#define TG__STAR_HEAD 24u
#define TG__STAR_VERSION 3
#define TG__STAR_STEP 8u /* bytes of the step in the answer to parameters */
/* The tail: what the frame is (4), zero (4), the number of these parameters (8; 0: unknown), and
 * the step (8) at which the worker goes on if its gradient was late, else 0. */
#define TG__STAR_TAIL 24u
enum tg__star_holds {
    TG__STAR_CHANGE = 1, /* what is to be added to the parameters with the number before */
    TG__STAR_WHOLE,      /* the parameters, in f32 */
    TG__STAR_LATE        /* likewise; the gradient was not applied */
};
/* More is refused: numbers with the step remain exact. */
#define TG__STAR_STEP_MOST (UINT64_C(1) << 53)
/* In the three highest bits of the step in the answer to parameters: how many steps the server has
 * seen. Of servers of ranks that stay: 0, or that ranks that are late leave out steps */
enum { TG__STAR_AGE_AT = 61, TG__STAR_AGED = 100 };
enum tg__star_age {
    TG__STAR_NEW = 1, /* none, and there is no journal */
    TG__STAR_EMPTY,   /* none, and the journal has none */
    TG__STAR_BEGUN,   /* no more than the first */
    TG__STAR_YOUNG,   /* less than TG__STAR_AGED */
    TG__STAR_OLD,
    TG__STAR_LEAVES_OUT
};

/* Rounds of the exchange, in tags and envelopes. */
enum { TG__STAR_PUSH, TG__STAR_PULL };

enum {
    TG__STAR_OWNS_MOMENTUM = 1, /* the optimizer's momentum is in the gradient already */
    TG__STAR_ANEW = 2,          /* of parameters: if no other worker is there, steps count from 0 */
    TG__STAR_TELLS = 4,         /* of parameters: the worker's settings follow the frame */
    TG__STAR_CODED = 8,         /* of a mean: a coding (star_coding.h) follows the frame, by which
                                   the server codes the answer */
    TG__STAR_FIRST = 16,        /* with CODED: the coding is complete; the residual begins at 0 */
    TG__STAR_DROPPED = 32,      /* with CODED: the last answer was not applied */
    TG__STAR_TENSORS = 64       /* of parameters: what the tensors are follows the frame */
};
#define TG__STAR_SETTINGS_MOST 4096u /* bytes */
#define TG__STAR_TENSORS_MOST \
    65536u /* bytes; a longer text is cut, and ends in a hash of the rest: */
#define TG__STAR_TENSORS_REST "rest="

typedef struct tg__star {
    const tg__combine *combine; /* one that servers know: tg__star_knows */
    uint16_t flags;
    uint64_t begin;
    double rate;
    uint32_t coding;  /* with CODED: its bytes */
    uint32_t tensors; /* with TENSORS: bytes of that text */
} tg__star;

/* Texts behind parameters, which may be anything; empty: none. */
typedef struct tg__star_texts {
    tg__settings tensors;  /* of the model, a line for each that is trained: its bucket, its name,
                              and its shape, as in "0 fc1.weight 32x784" */
    tg__settings settings; /* of the worker */
} tg__star_texts;

/* True if servers know the combine. */
bool tg__star_knows(const tg__combine *combine);
void tg__star_head(uint8_t head[TG__STAR_HEAD], const tg__star *star);
/* Read a head.
 * Errors  TG_E_CORRUPT, TG_E_VERSION */
TG_NODISCARD tg_status tg__star_read(const uint8_t head[TG__STAR_HEAD], tg__star *star);

/* Find the frame in a payload, behind its head, which has been read.
 * payload  (len) at least a head, and the head of a frame
 * len_p    [out] bytes of the frame
 * texts_p  [out] what is behind it. NULL: not wanted
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__star_frame(const uint8_t *payload, size_t len, const tg__star *star,
                                      size_t *len_p, tg__star_texts *texts_p);

typedef struct tg__star_tail {
    enum tg__star_holds holds;
    uint64_t number, step;
} tg__star_tail;
void tg__star_put_tail(uint8_t at[TG__STAR_TAIL], const tg__star_tail *tail);
/* Read the tail of a payload (len), behind its frame.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__star_read_tail(const uint8_t *payload, size_t len, tg__star_tail *tail);

/* Not a sum: the parameters that the ranks begin with, of which a server keeps the first to come.
 * The answer is what it has. */
extern const tg__combine tg__combine_parameters;

#endif
