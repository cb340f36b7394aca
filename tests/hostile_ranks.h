/* Ranks as threads over one in-process transport; one of them is hostile. Include it after
 * cmocka.h. */
#ifndef TG_HOSTILE_RANKS_H
#define TG_HOSTILE_RANKS_H

#include "hostile_transport.h"

#include <pthread.h>

enum { HOSTILE_RANKS_MAX = 8 };

/* Make t (size); what rank `who` sends is changed. */
static inline void hostile_connect(int size, int who, hostile_change *change, void *arg,
                                   tg_transport **t)
{
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    t[who] = hostile_transport(t[who], change, arg);
}

/* Run each rank, element r of an array, in a thread; destroys the transports. Returns the number of
 * messages that rank `who` sent. */
static inline uint64_t hostile_run(int size, int who, tg_transport **t, void *(*run)(void *),
                                   void *ranks, size_t each)
{
    pthread_t thread[HOSTILE_RANKS_MAX];
    assert_true(size <= HOSTILE_RANKS_MAX);
    for (int r = 0; r < size; r++)
        assert_int_equal(
            pthread_create(&thread[r], NULL, run, (unsigned char *)ranks + (size_t)r * each), 0);
    for (int r = 0; r < size; r++)
        pthread_join(thread[r], NULL);
    const uint64_t sends = ((hostile *)t[who]->impl)->sends;
    for (int r = 0; r < size; r++)
        tg_transport_destroy(t[r]);
    return sends;
}

#endif
