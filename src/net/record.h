/* Records of TLS 1.3 (RFC 8446, section 5) with the secrets of OpenSSL's handshake. OpenSSL's own
 * functions copy what they seal, and what they have opened; these work from where bytes are to
 * where they belong. */
#ifndef TG_NET_RECORD_H
#define TG_NET_RECORD_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG__RECORD_HEAD ((size_t)5)
#define TG__RECORD_BYTES ((size_t)1 << 14) /* at most, in a record */
#define TG__RECORD_ADDS ((size_t)22)       /* header, type and tag */
#define TG__RECORD_LEAST TG__RECORD_ADDS
#define TG__RECORD_MOST (TG__RECORD_HEAD + TG__RECORD_BYTES + 256) /* on the wire */
#define TG__RECORD_SECRET 32
#define TG__RECORD_IV 12

/* The keys of one direction. */
typedef struct tg__record_keys {
    EVP_CIPHER_CTX *ctx; /* NULL: none */
    uint8_t secret[TG__RECORD_SECRET];
    uint8_t iv[TG__RECORD_IV];
    uint64_t number; /* of the next record */
} tg__record_keys;

/* What was in a record. */
typedef struct tg__record {
    uint8_t *bytes;
    size_t len;
    int type;
} tg__record;

/* Begin with a traffic secret of the handshake.
 * k       zeroed
 * cipher  EVP_CIPHER_fetch's name of an AEAD with tags of 16 bytes
 * Returns false if OpenSSL failed. */
bool tg__record_keys_begin(tg__record_keys *k, const char *cipher, const uint8_t *secret,
                           bool seals);
/* The keys that follow these (section 7.2). Returns as above. */
bool tg__record_keys_next(tg__record_keys *k);
/* Wipe. The keys may be zeroed. */
void tg__record_keys_end(tg__record_keys *k);

/* Seal at most TG__RECORD_BYTES bytes.
 * out  room for len + TG__RECORD_ADDS bytes; does not overlap bytes
 * Returns the record's length, 0 if OpenSSL failed. */
size_t tg__record_seal(tg__record_keys *k, int type, const void *bytes, size_t len, uint8_t *out);

/* The length of the record that begins with these TG__RECORD_HEAD bytes; 0: no record may. */
size_t tg__record_length(const uint8_t *head);
/* Open a whole record.
 * record  len bytes, as tg__record_length says; overwritten
 * to      where its bytes go, with room for len - TG__RECORD_ADDS; NULL: they stay in the record
 * r       bytes that r->bytes points to, in `to` or in the record
 * Returns false if this is not the peer's next record: then `to` may hold anything. */
bool tg__record_open(tg__record_keys *k, uint8_t *record, size_t len, uint8_t *to, tg__record *r);

#endif
