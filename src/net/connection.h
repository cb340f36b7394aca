/* A connection as a stream of bytes: a non-blocking socket, with TLS 1.3 or without. Nothing here
 * waits. A stream that fails stays failed and says why. One thread at a time.
 *
 * Each direction may move from the socket to memory that both ends share (local.h). The socket then
 * only shows that the other end is gone; what that end wrote before can still be read. */
#ifndef TG_NET_CONNECTION_H
#define TG_NET_CONNECTION_H

#include "net/key.h"
#include "net/local.h"
#include "net/record.h"

/* Bytes accepted for sending that the socket has not taken yet; bytes of a socket that wait to be
 * opened. Many records, because each call of the kernel costs as much as copying one. */
#define TG__STREAM_OUT ((size_t)256 << 10)
#define TG__STREAM_IN ((size_t)256 << 10)
#define TG__STREAM_WHY 160
/* AES-GCM's keys are good for 2^24.5 full records (RFC 8446, 5.5); they are changed long before. */
#define TG__STREAM_KEY_BYTES ((int64_t)64 << 30)

/* What all TLS streams of a rank share: its key and the rules of the protocol. */
typedef struct tg__tls tg__tls;

/* Errors TG_E_NOMEM, TG_E_UNSUPPORTED (this OpenSSL lacks what is needed) */
TG_NODISCARD tg_status tg__tls_create(const tg_key_pair *key, tg__tls **tls_p);
void tg__tls_destroy(tg__tls *tls);

typedef struct tg__stream {
    int fd;          /* -1: closed */
    bool tls;        /* nothing is sent or taken that is not sealed */
    SSL *ssl;        /* until the handshake is complete */
    int shake_reads; /* that this step of it may still do */
    /* Of client and server: what the handshake has made. */
    uint8_t secret[2][TG__RECORD_SECRET];
    bool has_secret[2];
    tg__record_keys seals, opens; /* then */
    /* Whether the peer's key may connect. Asked once, in the handshake. */
    bool (*accepts)(void *arg, const tg__public_key *key);
    void *accepts_arg;
    tg__public_key peer; /* what the peer has shown, proved once the handshake is complete; zeros
                          * without TLS */
    uint8_t *out;        /* (TG__STREAM_OUT) */
    size_t out_at, out_len;
    uint64_t sent; /* bytes that the system has taken */
    uint8_t *in;   /* bytes read ahead; with TLS, after the handshake: records */
    size_t in_at, in_len;
    tg__record opened;  /* what is left of a record that was opened, in `in` */
    int64_t key_left;   /* bytes of records until the keys of this direction are changed */
    int64_t received;   /* bytes read over TLS */
    int64_t new_keys;   /* times that the peer has changed its keys */
    int empty;          /* records without bytes, in a row */
    bool broken;        /* what has come is not TLS 1.3: nothing is read any more */
    bool exact;         /* tg__stream_read_exactly was called */
    bool ending, ended; /* tg__stream_end was called; and is complete */
    bool drained;       /* tg__stream_drain was called: nothing can be read any more */
    tg__local *local;   /* owned; NULL: none */
    bool writes_local, reads_local; /* bytes go by it */
    bool over; /* reads_local: the socket has ended; in the memory there may be more */
    bool failed;
    bool lost; /* failed because the connection broke off, not because of what came over it */
    char why[TG__STREAM_WHY];
} tg__stream;

/* Begin a stream on a connected, or connecting, socket.
 * s        zeroed; must stay where it is
 * fd       owned by the stream, also if this fails
 * tls      NULL: none
 * dialled  this end has called the other
 * Errors   TG_E_NOMEM */
TG_NODISCARD tg_status tg__stream_begin(tg__stream *s, int fd, tg__tls *tls, bool dialled,
                                        bool (*accepts)(void *arg, const tg__public_key *key),
                                        void *accepts_arg);
/* From the start: read no byte ahead of what is asked for, so that tg__stream_leave loses none. */
void tg__stream_read_exactly(tg__stream *s);
/* Give up TLS, but not the connection, which goes on as the peer's does. Everything must have been
 * flushed. Returns the socket; the stream is closed. */
int tg__stream_leave(tg__stream *s);
/* Close at once. The stream may be closed already, or never begun (zeroed). */
void tg__stream_close(tg__stream *s);

/* Each returns 1 if it is complete, 0 if it must be called again when the socket is ready, and -1
 * if the stream has failed. */
int tg__stream_shake(tg__stream *s); /* the handshake; a step of it reads little at a time */
int tg__stream_flush(tg__stream *s); /* send what was accepted */
/* Of one that was called, with TLS: the peer's first message has come, and was answered. */
bool tg__stream_has_greeted(const tg__stream *s);
/* Accept bytes for sending. Returns how many; 0: when the socket can send; -1: failed. */
ptrdiff_t tg__stream_write(tg__stream *s, const void *bytes, size_t len);
/* Read at most len > 0 bytes. Returns how many; 0: when the socket has more; -1: failed. */
ptrdiff_t tg__stream_read(tg__stream *s, void *bytes, size_t len);

/* Bytes wait to be sent. */
static inline bool tg__stream_is_full(const tg__stream *s)
{
    return s->out_at < s->out_len;
}
/* Nothing more will be written: send what was accepted, a goodbye of TLS, and the end. Returns as
 * above. */
int tg__stream_end(tg__stream *s);
/* Read and forget some of what has come. Nothing is read otherwise from now on. */
void tg__stream_drain(tg__stream *s);
/* As tg__stream_end, and whether the peer's machine has everything: then closing loses nothing.
 * Drains. */
bool tg__stream_is_over(tg__stream *s);

#endif
