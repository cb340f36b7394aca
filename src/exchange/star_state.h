/* What a rank asks of servers when it saves or loads a checkpoint. Each server's part of the
 * exchange is a request, by the combine "state"; the answer is as long:
 *
 *    0  4  what is asked for; in the answer a tg_status, 0: done
 *    4  4  bytes that follow the head; of an error they are its text
 *    8  8  where they begin in the state; in the answer to COLLECT: bytes of the whole state
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
    TG__ASK_WRITE,       /* these bytes of a state follow those before; 0: a new one begins */
    TG__ASK_TAKE,        /* the state that was written is complete: take it */
    TG__ASK_CUT          /* the states of all servers were taken: keep what this one has now */
};

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
