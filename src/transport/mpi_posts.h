/* The MPI transport's requests: the meaning of their words, and the receives that wait for a
 * message. These are linked through their words, which are in the caller's memory. For mpi.c only:
 * one thread at a time, no errors. */
#ifndef TG_MPI_POSTS_H
#define TG_MPI_POSTS_H

#include "telegrad/mpi.h"
#include <string.h>

#define CHAINS 64

/* The words of a request. Two of them hold a waiting receive's data first, and its MPI_Request
 * later. */
enum {
    W_REQUEST = 0,
    W_BUF = 0,  /* waiting: the caller's buffer */
    W_NEXT = 1, /* waiting: the next receive in its chain */
    W_INDEX = 2,
    W_KEY = 3, /* peer << 32 | tag */
    W_CAP = 4,
    W_STATE = 5,
    W_LEN = 6,     /* bytes to send or to receive, once known */
    W_SCRATCH = 7, /* discarding: memory for the message */
};
_Static_assert(sizeof(MPI_Request) <= 2 * sizeof(uint64_t), "an MPI_Request fits two words");

enum {
    OVER,
    SENDING,
    WAITING,    /* for a message; MPI has no part of it */
    RECEIVING,  /* into the caller's buffer */
    DISCARDING, /* too long: into scratch memory */
    REFUSED,    /* too long even for scratch memory */
    BROKEN,     /* MPI_Imrecv failed, with the error in W_LEN */
};

typedef struct chain {
    tg_request *head, *last;
} chain;

/* Waiting receives, by W_KEY; each chain is in the order posted. Zero-initialise. */
typedef struct wait_list {
    chain chain[CHAINS];
} wait_list;

static inline int peer_of(const tg_request *req)
{
    return (int)(req->word[W_KEY] >> 32);
}

static inline void put_request(tg_request *req, MPI_Request request)
{
    memcpy(&req->word[W_REQUEST], &request, sizeof request);
}

static inline MPI_Request get_request(const tg_request *req)
{
    MPI_Request request;
    memcpy(&request, &req->word[W_REQUEST], sizeof request);
    return request;
}

static inline chain *chain_of(wait_list *w, uint64_t key)
{
    return &w->chain[key * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}
_Static_assert(CHAINS == 1 << (64 - 58), "chain_of gives 6 bits");

static inline tg_request *next_of(const tg_request *req)
{
    return (tg_request *)(uintptr_t)req->word[W_NEXT];
}

static inline void enqueue(wait_list *w, tg_request *req)
{
    chain *c = chain_of(w, req->word[W_KEY]);
    req->word[W_NEXT] = 0;
    if (c->head)
        c->last->word[W_NEXT] = (uint64_t)(uintptr_t)req;
    else
        c->head = req;
    c->last = req;
}

static inline void dequeue(wait_list *w, tg_request *req)
{
    chain *c = chain_of(w, req->word[W_KEY]);
    tg_request *before = NULL;
    for (tg_request *r = c->head; r != req; r = next_of(r))
        before = r;
    if (before)
        before->word[W_NEXT] = req->word[W_NEXT];
    else
        c->head = next_of(req);
    if (c->last == req)
        c->last = before;
}

/* The oldest receive that waits for the same message as req. */
static inline tg_request *oldest_like(wait_list *w, const tg_request *req)
{
    tg_request *r = chain_of(w, req->word[W_KEY])->head;
    while (r->word[W_KEY] != req->word[W_KEY])
        r = next_of(r);
    return r;
}

#endif
