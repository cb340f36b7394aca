/* What a rank asks of servers when it saves or loads a checkpoint. Each server's part of the
 * exchange is a request, by the combine "state"; the answer is as long:
 *
 *    0  4  what is asked for; in the answer a tg_status, 0: done
 *    4  4  bytes that follow the head; of an error they are its text
 *    8  8  where they begin in the state; in the answer to COLLECT, and in EXPECT: bytes of the
 *          whole state
 *   16     bytes
 * A server's state is a file of sections (state/checkpoint.h), which ranks do not look into. */
#ifndef TG_EXCHANGE_STAR_STATE_H
#define TG_EXCHANGE_STAR_STATE_H

#include "base/mem.h"
#include "exchange/exchange.h"

#define TG__ASK_HEAD ((size_t)16)    /* bytes */
#define TG__ASK_LEAST ((size_t)1024) /* bytes of a request, with its head */
#define TG__ASK_MOST ((size_t)256 << 10)

enum tg__state_request {
    TG__ASK_COLLECT = 1, /* put the state together, as it is now */
    TG__ASK_READ,        /* send the bytes from there on */
    TG__ASK_WRITE,       /* these bytes of the state that is expected follow those before */
    TG__ASK_TAKE,        /* the state that was written is complete: take it */
    TG__ASK_CUT,         /* the states of all servers were taken: keep what this one has now */
    TG__ASK_EXPECT       /* a state is going to be written: of a session (tg__state_of: 16 bytes) */
};

/* The session to which a state belongs. */
typedef struct tg__state_of {
    uint64_t elements, tensors;
} tg__state_of;

#define TG__STATE_ELEMENTS_MOST (UINT64_C(1) << 40)
#define TG__STATE_TENSORS_MOST (UINT64_C(1) << 24)

/* Most bytes of a server's state: 16 f32 for each element of the session. A server keeps 4 at most
 * (parameters, 2 of the optimizer and what workers have; or 2 residuals) and the last results of
 * rounds; when the number of servers has changed, also elements of others. For each tensor 256 KiB
 * of heads, runs and what codecs remember; 1 MiB for the rest. */
static inline uint64_t tg__state_most(tg__state_of of)
{
    return 64 * of.elements + (of.tensors << 18) + (1 << 20);
}

/* Check the length of a state that is going to come.
 * Errors  TG_E_CORRUPT */
static inline tg_status tg__state_check(tg__state_of of, uint64_t len)
{
    if (of.elements > TG__STATE_ELEMENTS_MOST || of.tensors > TG__STATE_TENSORS_MOST)
        return tg_fail(TG_E_CORRUPT,
                       "a state of %llu elements in %llu tensors: allowed: at most 2^40 in 2^24",
                       (unsigned long long)of.elements, (unsigned long long)of.tensors);
    if (len > tg__state_most(of))
        return tg_fail(TG_E_CORRUPT,
                       "a state of %llu bytes: allowed: at most %llu, for %llu elements in %llu "
                       "tensors",
                       (unsigned long long)len, (unsigned long long)tg__state_most(of),
                       (unsigned long long)of.elements, (unsigned long long)of.tensors);
    return TG_OK;
}

typedef struct tg__state_head {
    uint32_t what, len;
    uint64_t at;
} tg__state_head;

static inline tg__state_head tg__state_head_read(const uint8_t *at)
{
    return (tg__state_head){tg__get32(at), tg__get32(at + 4), tg__get64(at + 8)};
}

static inline void tg__state_head_write(uint8_t *at, tg__state_head head)
{
    tg__put32(at, head.what);
    tg__put32(at + 4, head.len);
    tg__put64(at + 8, head.at);
}

/* Of one rank, whose part goes to the server as it is, and back. */
extern const tg__combine tg__combine_state;

#endif
