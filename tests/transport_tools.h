/* Shared by the tests of the transports in one process. */
#ifndef TG_TRANSPORT_TOOLS_H
#define TG_TRANSPORT_TOOLS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "telegrad/transport.h"

static inline void ok(tg_status status)
{
    if (status != TG_OK)
        fail_msg("%s: %s", tg_status_name(status), tg_error());
}

/* Decorate all ranks: link and fault may be NULL. */
static inline void make_ranks(int size, const char *link, const char *fault, tg_transport **t)
{
    ok(tg_transport_inproc(size, t));
    for (int r = 0; r < size; r++) {
        tg_link parsed;
        if (link) {
            ok(tg_link_parse(link, &parsed));
            ok(tg_transport_shaped(t[r], &parsed, &t[r]));
        }
        if (fault)
            ok(tg_transport_faulty(t[r], fault, &t[r]));
    }
}

static inline void destroy_ranks(int size, tg_transport **t)
{
    for (int r = 0; r < size; r++)
        tg_transport_destroy(t[r]);
}

static inline tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    return t->ops->post_send(t, peer, tag, buf, len, req);
}

static inline tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    return t->ops->post_recv(t, peer, tag, buf, cap, req);
}

static inline bool done(tg_transport *t, tg_request *req)
{
    bool yes = false;
    size_t len;
    ok(t->ops->test(t, req, &yes, &len));
    return yes;
}

static inline tg_status test(tg_transport *t, tg_request *req)
{
    bool yes = false;
    size_t len;
    return t->ops->test(t, req, &yes, &len);
}

#endif
