/* Keys: Ed25519 pairs, public keys as text, lists of public keys. */
#ifndef TG_NET_KEY_H
#define TG_NET_KEY_H

#include "telegrad/net.h"
#include <openssl/evp.h>

#define TG__KEY_BYTES 32

typedef struct tg__public_key {
    uint8_t bytes[TG__KEY_BYTES];
} tg__public_key;

struct tg_key_pair {
    EVP_PKEY *pair;
    uint8_t seed[TG__KEY_BYTES]; /* the private key; OpenSSL's ways to read it out leave copies */
    tg__public_key public_key;
};

/* One line of a list of keys. */
typedef struct tg__key_entry {
    tg__public_key key;
    char name[64]; /* cut to its room */
} tg__key_entry;

struct tg_keys {
    tg__key_entry *entry;
    size_t count;
};

/* "tgk1:..." of a public key. */
void tg__key_text(const tg__public_key *key, char text[TG_KEY_TEXT]);
/* Parse the first len characters of text as a public key. Returns false, and leaves *key_p
 * unchanged, if they are none. */
bool tg__key_parse(const char *text, size_t len, tg__public_key *key_p);
/* Its fingerprint, as tg_key_fingerprint gives it. */
void tg__key_mark(const tg__public_key *key, char text[TG_KEY_TEXT]);
bool tg__key_equal(const tg__public_key *a, const tg__public_key *b);
/* The key's position on the list; -1: it is not there. */
int tg__keys_find(const tg_keys *keys, const tg__public_key *key);
/* Fail with OpenSSL's own words, and forget its errors.
 * what  what failed. ERR_clear_error must have been called before it: errors may be the program's
 * Returns the status; TG_E_NOMEM if memory was lacking: OpenSSL says so, or has no word for it */
tg_status tg__ssl_fail(tg_status status, const char *what);

#endif
