/* A hostile rank. The test changes what it sends over `inner`, and the message is sealed again, so
 * that every envelope is valid. Include it after cmocka.h. */
#ifndef TG_HOSTILE_TRANSPORT_H
#define TG_HOSTILE_TRANSPORT_H

#include "base/mem.h"
#include "kernel/kernel.h"
#include "telegrad/transport.h"
#include "wire/envelope.h"

#include <stdlib.h>
#include <string.h>

enum { HOSTILE_ROOM = 4096 }; /* bytes by which a payload may grow */

/* Change message `number` (0, 1, ..) of this rank in place: its payload (*len_p, room for
 * HOSTILE_ROOM more) and its flags. */
typedef void hostile_change(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload,
                            size_t *len_p);

typedef struct hostile_copy {
    struct hostile_copy *next;
    uint8_t msg[];
} hostile_copy;

typedef struct hostile {
    tg_transport base;
    tg_transport *inner;
    hostile_change *change;
    void *arg;
    uint64_t sends;
    hostile_copy *copies; /* kept until the end: the inner transport may still read them */
} hostile;

enum { AT_FLAGS = 6, AT_LENGTH = TG__ENVELOPE_BYTES - 12, AT_CRC = TG__ENVELOPE_BYTES - 4 };

static inline void hostile_seal(uint8_t *msg, uint16_t flags, size_t len)
{
    const tg__kernels *k = tg__kernel();
    tg__put16(msg + AT_FLAGS, flags);
    tg__put64(msg + AT_LENGTH, len);
    tg__put32(msg + AT_CRC, k->crc32c(k->crc32c(0, msg, AT_CRC), msg + TG__ENVELOPE_BYTES, len));
}

static inline tg_transport *hostile_inner(tg_transport *t)
{
    return ((hostile *)t->impl)->inner;
}

static inline tg_status hostile_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                          size_t len, tg_request *req)
{
    hostile *h = t->impl;
    tg_transport *inner = h->inner;
    hostile_copy *copy = malloc(sizeof *copy + len + HOSTILE_ROOM);
    if (copy == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory");
    memcpy(copy->msg, buf, len);
    memset(copy->msg + len, 0, HOSTILE_ROOM);
    size_t payload = len - TG__ENVELOPE_BYTES;
    uint16_t flags = tg__get16(copy->msg + AT_FLAGS);
    h->change(h->arg, h->sends++, &flags, copy->msg + TG__ENVELOPE_BYTES, &payload);
    hostile_seal(copy->msg, flags, payload);
    copy->next = h->copies;
    h->copies = copy;
    return inner->ops->post_send(inner, peer, tag, copy->msg, TG__ENVELOPE_BYTES + payload, req);
}

static inline tg_status hostile_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf,
                                          size_t cap, tg_request *req)
{
    tg_transport *inner = hostile_inner(t);
    return inner->ops->post_recv(inner, peer, tag, buf, cap, req);
}

static inline tg_status hostile_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    return hostile_inner(t)->ops->test(hostile_inner(t), req, done_p, len_p);
}

static inline tg_status hostile_poll(tg_transport *t, int64_t deadline_ns)
{
    return hostile_inner(t)->ops->poll(hostile_inner(t), deadline_ns);
}

static inline void hostile_wake(tg_transport *t)
{
    hostile_inner(t)->ops->wake(hostile_inner(t));
}

static inline bool hostile_shut(tg_transport *t)
{
    return hostile_inner(t)->ops->shut(hostile_inner(t));
}

static inline void hostile_destroy(tg_transport *t)
{
    hostile *h = t->impl;
    h->inner->ops->destroy(h->inner);
    while (h->copies != NULL) {
        hostile_copy *copy = h->copies;
        h->copies = copy->next;
        free(copy);
    }
    free(h);
}

static const tg_transport_ops hostile_ops = {
    .struct_size = sizeof hostile_ops,
    .name = "hostile",
    .post_send = hostile_post_send,
    .post_recv = hostile_post_recv,
    .test = hostile_test,
    .poll = hostile_poll,
    .wake = hostile_wake,
    .shut = hostile_shut,
    .destroy = hostile_destroy,
};

/* Takes over inner, which is in-process. */
static inline tg_transport *hostile_transport(tg_transport *inner, hostile_change *change,
                                              void *arg)
{
    hostile *h = calloc(1, sizeof *h);
    assert_non_null(h);
    *h = (hostile){.base = *inner, .inner = inner, .change = change, .arg = arg};
    h->base.ops = &hostile_ops;
    h->base.impl = h;
    return &h->base;
}

#endif
