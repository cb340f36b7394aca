/* The transport's own: what is on its way to and from each peer.
 *
 * Wire. A connection carries frames: a head of 16 bytes, little-endian, and for messages a segment
 * of at most TG__SEGMENT bytes. Head: kind << 28 | tag (4 bytes), length of the segment (4), a
 * number (8).
 *
 *   FIRST    the first segment of a message; number: its length
 *   GRANTED  the same, of a message that was granted
 *   MORE     the next segment of the message that has begun
 *   CREDIT   number: cost of messages that have been received, or taken from those kept
 *   WANT     a message of this tag waits to be granted; number: its length
 *   GRANT    the oldest waiting message of this tag may be sent
 *   OFFER    memory to share (local.h), from the higher rank, or the worker. Tag, length and
 *            number: those of tg__local_offer
 *   LOCAL    number 1: what follows from the sender comes by that memory; 0: it does not want to
 *   BYE      nothing follows; number: 0, or 1 + the rank that is to blame; from a server to a
 *            worker: 1 if it must not call again. Tag: 1 + the rank that
 *            told the sender so if the key of the blamed rank was taken off rank 0's list, which
 *            others than rank 0 say to that rank, or of themselves; else 0. A message of
 *            TG__REASON_TAG before it is a text: why
 *
 * Memory. A sender has at most TG__WINDOW bytes of messages on their way without credit. What fits
 * is sent at once; what does not asks with WANT, and is granted once its receive is posted. So a
 * receiver never keeps more than TG__WINDOW bytes that nobody asked for, and no message that is
 * asked for waits behind one that is not, except while poll has other news for its caller: then the
 * first segment of one that nobody asked for may wait for the next poll. */
#ifndef TG_NET_TCP_IMPL_H
#define TG_NET_TCP_IMPL_H

#include "net/membership.h"
#include "net/pace.h"
#include "transport/endpoint.h"

#define TG__HEAD 16
#define TG__SEGMENT ((size_t)1 << 20)
#define TG__SEGMENT_FAR ((size_t)64 << 10) /* to far peers: what is more urgent waits for its end */
#define TG__WINDOW ((uint64_t)64 << 20)
#define TG__MESSAGE_COST 64     /* of the window, besides a message's bytes: it takes memory, too */
#define TG__BELL EPOLLRDNORM    /* what epoll reports of a bell; of a connection it is not asked */
#define TG__WANTS_MAX (1 << 14) /* messages that may wait to be granted: looked through for each */
#define TG__STAGE ((size_t)16 << 10) /* a head and a short segment go as one TLS record */

enum tg__tcp_frame {
    TG__FRAME_FIRST = 1,
    TG__FRAME_GRANTED,
    TG__FRAME_MORE,
    TG__FRAME_CREDIT,
    TG__FRAME_WANT,
    TG__FRAME_GRANT,
    TG__FRAME_BYE,
    TG__FRAME_OFFER,
    TG__FRAME_LOCAL,
};

#define TG__REASON_TAG (TG__TAG_CARRIED - 1) /* nobody else uses it: MPI has none of this number */
#define TG__REASON_MAX (TG__HEAD + TG__TEXT_MAX)

/* GIVEN: a send whose bytes the stream has, and the system not yet. It is not done, because nobody
 * need poll any more once it is. */
enum tg__tcp_post_state {
    TG__POST_OVER,
    TG__POST_WAITING,
    TG__POST_GIVEN,
    TG__POST_DONE,
    TG__POST_TOO_LONG
};

/* What a tg_request holds. */
typedef struct tg__tcp_post {
    struct tg__tcp_post *next;
    uint8_t *buf;
    size_t len;  /* of the message; receiving: known when it has come */
    size_t done; /* sending: bytes given to the stream; given: tg__stream.sent by which they are
                  * with the system; receiving: room of buf */
    uint32_t tag;
    int peer;
    bool sends;
    bool wanted;  /* sending: WANT was sent */
    bool granted; /* sending: GRANT has come; receiving: GRANT was sent */
    uint8_t state;
} tg__tcp_post;
_Static_assert(sizeof(tg__tcp_post) <= sizeof(tg_request), "a post fits into a request");

typedef struct tg__tcp_posts { /* in the order posted */
    tg__tcp_post *first, **end;
} tg__tcp_posts;

/* A message that came before its receive was posted; or asks whether it may come, without bytes. */
typedef struct tg__early {
    struct tg__early *next;
    uint32_t tag;
    size_t len;
    uint8_t bytes[];
} tg__early;

typedef struct tg__earlies { /* in the order of arrival */
    tg__early *first, **end;
} tg__earlies;

typedef struct tg__peer {
    int rank;
    tg__stream *stream; /* NULL: this rank itself, or a vacant seat */
    bool gone;          /* nothing comes from it any more, and nothing goes to it */
    bool said_bye;
    bool dismisses; /* it has said that this worker must not call again */
    int blamed;
    bool deaf;        /* writing to it has failed; what it has sent is still read */
    bool watches_out; /* epoll reports when it can send */
    bool held;        /* by the pace, until pace.tick_ns */
    tg__paced paced;
    bool has_more; /* there may be more to read that the socket does not show */
    bool offered;  /* OFFER was sent, or has come */
    bool moves;    /* LOCAL is to be sent */

    /* For tg_transport_ops.moved_ns: when bytes of a message last came; when the system last took
     * some, or was asked before more was found acknowledged; when it was last asked, and how many
     * bytes of the stream were acknowledged then. */
    int64_t came_ns, went_ns, asked_ns;
    uint64_t acknowledged;

    /* Sending. */
    tg__tcp_posts sends, given;
    tg__tcp_post *sending; /* its first segment is on its way */
    size_t segment_left;   /* bytes of its segment that are not in stage, and still to be sent */
    uint8_t *stage;        /* (TG__STAGE) bytes that go next */
    size_t stage_len, stage_at;
    uint64_t in_flight; /* cost of messages sent without credit */
    int asks;           /* messages that wait to be granted */
    uint8_t *control;   /* frames without segments that wait */
    size_t control_len, control_cap;

    /* Receiving. */
    tg__tcp_posts receives;
    tg__earlies early, asking; /* of one tag, what has come is older than what asks */
    uint8_t head[TG__HEAD];
    size_t head_got;
    size_t segment_due; /* bytes of the segment that have not come yet */
    bool answers;       /* a message has come that this rank had asked for */
    bool arriving;      /* a message has begun */
    bool arriving_granted;
    uint32_t arriving_tag;
    size_t arriving_len, arriving_at;
    tg__tcp_post *into;  /* where it goes ... */
    tg__early *aside;    /* ... or is kept */
    uint64_t unreturned; /* cost of messages that came without grant and are not credited yet */
    uint64_t owed;       /* of this, what may be credited */
    int wants;           /* entries of asking */
} tg__peer;

typedef struct tg__tcp {
    tg_transport base; /* must be first: both have the same address */
    tg_net *net;
    int epoll, wake;       /* descriptors */
    bool is_shut, changed; /* changed: test may find something new */
    bool polls;            /* the caller of poll hears soon what has changed */
    int blames;            /* the rank to blame; -1: none */
    int expelled;          /* the rank whose key was taken off rank 0's list; 0: none */
    int told_by;           /* the rank that said so */
    int heard_from;        /* the rank from which that one says that it has heard so */
    tg__pace pace;
    int turn;        /* the peer that sends on first */
    tg__peer peer[]; /* (size) */
} tg__tcp;

static inline void tg__tcp_posts_add(tg__tcp_posts *l, tg__tcp_post *p)
{
    p->next = NULL;
    *l->end = p;
    l->end = &p->next;
}

static inline void tg__tcp_posts_remove(tg__tcp_posts *l, const tg__tcp_post *p)
{
    tg__tcp_post **link = &l->first;
    while (*link && *link != p)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = p->next;
    if (!p->next)
        l->end = link;
}

/* What a message takes of the window. */
static inline uint64_t tg__message_cost(uint64_t len)
{
    return len + TG__MESSAGE_COST;
}

/* An empty record of a peer; then its connection, which stays the caller's.
 * Errors  TG_E_NOMEM, TG_E_IO */
void tg__peer_begin(tg__peer *p, int rank);
TG_NODISCARD tg_status tg__peer_connect(tg__tcp *t, tg__peer *p, tg__stream *stream);
/* Nothing comes from the peer any more, and nothing is for it. */
void tg__peer_let_go(tg__tcp *t, tg__peer *p);
/* The peer is gone, for this reason. */
void tg__peer_lose(tg__tcp *t, tg__peer *p, const char *why);
/* Disconnect a peer whose key was taken off rank 0's list. It is told so, if its connection has
 * room: the ends of other connections may reach it before rank 0's word does. */
void tg__peer_expel(tg__tcp *t, tg__peer *p);

/* Send as much as the connection takes. */
void tg__peer_push(tg__tcp *t, tg__peer *p);
/* Queue a frame without a segment. Returns false, and loses the peer, if out of memory. */
bool tg__peer_control(tg__tcp *t, tg__peer *p, enum tg__tcp_frame kind, uint32_t tag, uint32_t len,
                      uint64_t number);
void tg__tcp_head(uint8_t at[TG__HEAD], enum tg__tcp_frame kind, uint32_t tag, size_t len,
                  uint64_t number);
/* Stop sending messages: what is left of a segment is put aside, so that callers' memory is no
 * longer needed, and BYE follows it. */
void tg__peer_say_bye(tg__tcp *t, tg__peer *p);

/* A key was removed from the list, and this rank is connected to nobody any more. */
bool tg__is_cast_out(const tg__tcp *t);
/* A connection by way of rank 0 has broken off because rank 0 is gone, not the peer. */
bool tg__is_cut_off(const tg__tcp *t, const tg__peer *p);
/* Fail with TG_E_PEER: a key was removed; the peer is gone. */
tg_status tg__fail_expelled(const tg__tcp *t);
tg_status tg__fail_gone(const tg__tcp *t, const tg__peer *p);

/* From a connection to shared memory, if both ranks are on one machine (tcp_local.c). Offer it. */
void tg__peer_offer(tg__tcp *t, tg__peer *p);
/* OFFER and LOCAL have come. Return false if the peer broke the rules. */
bool tg__peer_take_offer(tg__tcp *t, tg__peer *p, const tg__local_offer *offer);
bool tg__peer_take_local(tg__tcp *t, tg__peer *p, uint64_t number);
/* Send LOCAL, between two segments. Returns false if the connection has no room for it yet. */
bool tg__peer_move(tg__peer *p);

/* The transport of a server (tcp_hosting.c): look who comes. *look_ns_p: when to look again, unless
 * it is sooner already. */
void tg__tcp_host(tg__tcp *t, int64_t *look_ns_p);
/* tg_transport_ops.renew (tcp_renew.c) */
TG_NODISCARD tg_status tg__tcp_renew(tg_transport *t, int peer, bool *back_p);
/* tg_transport_ops.moved_ns */
int64_t tg__tcp_moved_ns(tg_transport *t, int peer, bool send);
/* tg_transport_ops.drop, and .expect */
bool tg__tcp_drop(tg_transport *t, int peer);
void tg__tcp_expect(tg_transport *t, int peer);

/* Why a rank leaves (reason.c). Write it as a frame. Returns its length; 0: there is no reason. */
size_t tg__reason_write(const char *why, uint8_t at[TG__REASON_MAX]);
/* Put it before the BYE that has just been staged. The peer has no message half sent. */
void tg__reason_insert(tg__peer *p, const char *why);
/* What a peer gave as its reason; text is "" if it gave none. */
void tg__reason_read(const tg__peer *p, char text[TG__TEXT_MAX]);

/* Read as much as there is. */
void tg__peer_pull(tg__tcp *t, tg__peer *p);
/* Match a receive that was just posted with what came early. */
void tg__peer_match(tg__tcp *t, tg__peer *p, tg__tcp_post *receive);
void tg__peer_release(tg__peer *p); /* memory, not the stream */

#endif
