/* What tls.c, connection.c and connection_tls.c know of each other. */
#ifndef TG_NET_TLS_H
#define TG_NET_TLS_H

#include "net/connection.h"

struct tg__tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
};

/* How a stream's SSL object reads and writes its socket. NULL: out of memory. */
BIO_METHOD *tg__stream_bio(void);
/* A line of OpenSSL's key log: secrets of the handshake. */
void tg__stream_keylog(const SSL *ssl, const char *line);

/* As the functions of connection.h: write and read by records, after the handshake. */
ptrdiff_t tg__stream_write_sealed(tg__stream *s, const uint8_t *bytes, size_t len);
ptrdiff_t tg__stream_read_sealed(tg__stream *s, uint8_t *bytes, size_t len);
/* Put the goodbye of TLS aside for sending. */
void tg__stream_say_goodbye(tg__stream *s);

/* The stream fails, for this reason if it is the first. Both return -1. */
int tg__stream_fail(tg__stream *s, const char *why);
int tg__stream_lose(tg__stream *s, const char *why); /* because the connection broke off */
/* Returns bytes received, 0 if there are none, -1 if the stream has failed. */
ptrdiff_t tg__stream_recv(tg__stream *s, void *bytes, size_t len);
/* Put bytes aside for sending. Returns how many; 0: when the socket can send; -1: failed. */
ptrdiff_t tg__stream_gather(tg__stream *s, const void *bytes, size_t len);

#endif
