/* The rules for TLS. Certificates only carry the public key: names, dates and issuers mean nothing,
 * because each end knows which keys it accepts. */
#include "net/tls.h"
#include "telegrad/base.h"
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>

/* Bytes of certificates that are read from strangers. Those made here have 300. */
#define CERTIFICATES_MAX 4096

/* A certificate that both ends look at for its key only. NULL: OpenSSL has the error. */
static X509 *self_signed(EVP_PKEY *pair)
{
    X509 *c = X509_new();
    if (c && X509_set_version(c, X509_VERSION_3) && ASN1_INTEGER_set(X509_get_serialNumber(c), 1) &&
        ASN1_TIME_set_string(X509_getm_notBefore(c), "19700101000000Z") &&
        ASN1_TIME_set_string(X509_getm_notAfter(c), "99991231235959Z") &&
        X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                                   (const unsigned char *)"telegrad", -1, -1, 0) &&
        X509_set_issuer_name(c, X509_get_subject_name(c)) && X509_set_pubkey(c, pair) &&
        X509_sign(c, pair, NULL) > 0)
        return c;
    X509_free(c);
    return NULL;
}

/* Decides on the peer's key in the handshake; 1: accepted. The proof that the peer holds the
 * private key is part of the handshake itself. */
static int check_peer(X509_STORE_CTX *ctx, void *arg)
{
    (void)arg;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
    tg__stream *s = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get0_cert(ctx);
    const EVP_PKEY *key = certificate ? X509_get0_pubkey(certificate) : NULL;
    size_t len = sizeof s->peer.bytes;
    tg__public_key peer;
    if (key && EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 &&
        EVP_PKEY_get_raw_public_key(key, peer.bytes, &len) == 1 && len == sizeof peer.bytes) {
        s->peer = peer;
        if (s->accepts(s->accepts_arg, &peer)) {
            X509_STORE_CTX_set_error(ctx, X509_V_OK);
            return 1;
        }
    }
    X509_STORE_CTX_set_error(ctx, X509_V_ERR_CERT_REJECTED);
    return 0;
}

static bool set_rules(SSL_CTX *ctx, const tg_key_pair *key)
{
    X509 *certificate = self_signed(key->pair);
    const bool ok =
        certificate && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
        SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") &&
        SSL_CTX_set1_groups_list(ctx, "X25519") && SSL_CTX_set1_sigalgs_list(ctx, "ed25519") &&
        SSL_CTX_set1_client_sigalgs_list(ctx, "ed25519") &&
        SSL_CTX_use_certificate(ctx, certificate) && SSL_CTX_use_PrivateKey(ctx, key->pair) &&
        SSL_CTX_set_num_tickets(ctx, 0);
    X509_free(certificate);
    if (!ok)
        return false;
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    /* No compressed certificates, of which a few KiB could grow to many MiB: from OpenSSL 3.2 on
     * SSL_OP_NO_TX_CERTIFICATE_COMPRESSION and ..._RX_..., also if the headers are older than the
     * library. */
    SSL_CTX_set_options(ctx, UINT64_C(3) << 32);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(ctx, check_peer, NULL);
    SSL_CTX_set_keylog_callback(ctx, tg__stream_keylog);
    SSL_CTX_set_max_cert_list(ctx, CERTIFICATES_MAX);
    SSL_CTX_set_read_ahead(ctx, 0); /* what follows the handshake is not OpenSSL's to read */
    return true;
}

tg_status tg__tls_create(const tg_key_pair *key, tg__tls **tls_p)
{
    tg__tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return tg_fail(TG_E_NOMEM, "out of memory: TLS");
    ERR_clear_error();
    tls->ctx = SSL_CTX_new(TLS_method());
    tls->bio = tg__stream_bio();
    if (tls->ctx && tls->bio && set_rules(tls->ctx, key)) {
        *tls_p = tls;
        return TG_OK;
    }
    const bool silent = tls->ctx && tls->bio && ERR_peek_error() == 0; /* as set_rules may be */
    const tg_status status =
        silent
            ? tg_fail(TG_E_UNSUPPORTED, "setting up TLS 1.3: OpenSSL lacks or forbids an algorithm")
            : tg__ssl_fail(TG_E_UNSUPPORTED, "setting up TLS 1.3");
    tg__tls_destroy(tls);
    return status;
}

void tg__tls_destroy(tg__tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->bio);
    free(tls);
}
