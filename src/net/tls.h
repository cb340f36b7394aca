/* What streams and tls.c know of each other. */
#ifndef TG_NET_TLS_H
#define TG_NET_TLS_H

#include "net/connection.h"

struct tg__tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
};

/* How a stream's SSL object reads and writes its socket. NULL: out of memory. */
BIO_METHOD *tg__stream_bio(void);
/* New keys, or a ticket, have come. The stream fails if they are too many: OpenSSL works off as
 * many as come before it returns. */
void tg__stream_aside(tg__stream *s);

#endif
