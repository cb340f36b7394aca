/* Nonce = iv xor the record's number; additional data = header (RFC 8446, sections 5.2 and 5.3).
 * Keys: HKDF-Expand-Label(secret, label, "", length) (section 7.3). */
#include "net/record.h"
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <string.h>

#define TAG 16

static bool expand(const uint8_t *secret, const char *label, uint8_t *out, size_t len)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          TG__RECORD_SECRET),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, "tls13 ", 6),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (void *)(uintptr_t)label,
                                          strlen(label)),
        OSSL_PARAM_construct_end(),
    };
    const bool ok = ctx && EVP_KDF_derive(ctx, out, len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok;
}

/* Key and iv of k->secret. cipher  NULL: as before */
static bool rekey(tg__record_keys *k, const EVP_CIPHER *cipher, int seals)
{
    uint8_t key[EVP_MAX_KEY_LENGTH];
    bool ok = EVP_CipherInit_ex2(k->ctx, cipher, NULL, NULL, seals, NULL) == 1;
    const size_t len = ok ? (size_t)EVP_CIPHER_CTX_get_key_length(k->ctx) : 0;
    ok = ok && expand(k->secret, "key", key, len) && expand(k->secret, "iv", k->iv, sizeof k->iv) &&
         EVP_CipherInit_ex2(k->ctx, NULL, key, NULL, -1, NULL) == 1;
    OPENSSL_cleanse(key, sizeof key);
    k->number = 0;
    if (!ok) { /* no nonce may be used twice: there are no keys now */
        EVP_CIPHER_CTX_free(k->ctx);
        k->ctx = NULL;
    }
    return ok;
}

bool tg__record_keys_begin(tg__record_keys *k, const char *cipher, const uint8_t *secret,
                           bool seals)
{
    EVP_CIPHER *fetched = EVP_CIPHER_fetch(NULL, cipher, NULL);
    k->ctx = EVP_CIPHER_CTX_new();
    memcpy(k->secret, secret, sizeof k->secret);
    const bool ok = fetched && k->ctx && EVP_CIPHER_get_iv_length(fetched) == TG__RECORD_IV &&
                    rekey(k, fetched, seals);
    EVP_CIPHER_free(fetched);
    return ok;
}

bool tg__record_keys_next(tg__record_keys *k)
{
    uint8_t next[TG__RECORD_SECRET];
    const bool ok = k->ctx && expand(k->secret, "traffic upd", next, sizeof next);
    if (ok)
        memcpy(k->secret, next, sizeof next);
    OPENSSL_cleanse(next, sizeof next);
    return ok && rekey(k, NULL, -1);
}

void tg__record_keys_end(tg__record_keys *k)
{
    EVP_CIPHER_CTX_free(k->ctx);
    OPENSSL_cleanse(k, sizeof *k);
}

/* The next record: its nonce and header. */
static bool begin(tg__record_keys *k, const uint8_t *head)
{
    uint8_t nonce[TG__RECORD_IV];
    int n;
    memcpy(nonce, k->iv, sizeof nonce);
    for (int i = 0; i < 8; i++)
        nonce[TG__RECORD_IV - 1 - i] ^= (uint8_t)(k->number >> 8 * i);
    k->number++;
    return k->ctx && EVP_CipherInit_ex2(k->ctx, NULL, NULL, nonce, -1, NULL) == 1 &&
           EVP_CipherUpdate(k->ctx, NULL, &n, head, (int)TG__RECORD_HEAD) == 1;
}

static bool convert(tg__record_keys *k, uint8_t *to, const uint8_t *from, size_t len)
{
    int n = 0;
    return len == 0 || (EVP_CipherUpdate(k->ctx, to, &n, from, (int)len) == 1 && n == (int)len);
}

size_t tg__record_seal(tg__record_keys *k, int type, const void *bytes, size_t len, uint8_t *out)
{
    const size_t rest = len + 1 + TAG;
    const uint8_t head[TG__RECORD_HEAD] = {SSL3_RT_APPLICATION_DATA, 3, 3, (uint8_t)(rest >> 8),
                                           (uint8_t)rest};
    const uint8_t inner = (uint8_t)type;
    uint8_t *at = out + TG__RECORD_HEAD;
    int n = 0;
    memcpy(out, head, sizeof head);
    const bool ok = len <= TG__RECORD_BYTES && begin(k, head) && convert(k, at, bytes, len) &&
                    convert(k, at + len, &inner, 1) &&
                    EVP_CipherFinal_ex(k->ctx, at + len + 1, &n) == 1 && n == 0 &&
                    EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_GET_TAG, TAG, at + len + 1) == 1;
    return ok ? TG__RECORD_HEAD + rest : 0;
}

size_t tg__record_length(const uint8_t *head)
{
    const size_t len = TG__RECORD_HEAD + ((size_t)head[3] << 8 | head[4]);
    const bool may = head[0] == SSL3_RT_APPLICATION_DATA && head[1] == 3 && head[2] == 3 &&
                     len >= TG__RECORD_LEAST && len <= TG__RECORD_MOST;
    return may ? len : 0;
}

bool tg__record_open(tg__record_keys *k, uint8_t *record, size_t len, uint8_t *to, tg__record *r)
{
    uint8_t *from = record + TG__RECORD_HEAD, type = 0, none[TAG];
    uint8_t *tag = record + len - TAG;
    size_t left = len - TG__RECORD_ADDS; /* bytes and padding */
    int n = 0;
    if (!to)
        to = from;
    if (!begin(k, record) || !convert(k, to, from, left) || !convert(k, &type, from + left, 1) ||
        EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_SET_TAG, TAG, tag) != 1 ||
        EVP_CipherFinal_ex(k->ctx, none, &n) != 1)
        return false;
    while (type == 0 && left > 0) /* zeros follow the type */
        type = to[--left];
    *r = (tg__record){.bytes = to, .len = left, .type = type};
    return type != 0 && left <= TG__RECORD_BYTES;
}
