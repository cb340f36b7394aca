/* TLS of a stream. OpenSSL does the handshake, by messages of its own; what follows goes in records
 * that are sealed and opened here. */
#include "net/tls.h"
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SPARE ((size_t)128) /* room for new keys and alerts, behind records */
#define EMPTY_MAX 32        /* records without bytes, in a row */
#define SHAKE_READS 32      /* in one step of a handshake; a flight takes about half of them */

static const char refuses_key[] = "it does not accept this rank's key";

/* ---- handshake ------------------------------------------------------------------------------- */

static int bio_write(BIO *bio, const char *bytes, int len)
{
    BIO_clear_retry_flags(bio);
    const ptrdiff_t n = tg__stream_gather(BIO_get_data(bio), bytes, (size_t)len);
    if (n == 0)
        BIO_set_retry_write(bio);
    return n > 0 ? (int)n : -1;
}

static int bio_read(BIO *bio, char *bytes, int len)
{
    BIO_clear_retry_flags(bio);
    tg__stream *s = BIO_get_data(bio);
    if (s->failed)
        return -1; /* what OpenSSL has read was the reason */
    const ptrdiff_t n = s->shake_reads-- > 0 ? tg__stream_recv(s, bytes, (size_t)len) : 0;
    if (n == 0)
        BIO_set_retry_read(bio);
    return n > 0 ? (int)n : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *ptr)
{
    (void)bio;
    (void)number;
    (void)ptr;
    return command == BIO_CTRL_FLUSH; /* whoever writes flushes the stream */
}

BIO_METHOD *tg__stream_bio(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "telegrad stream");
    if (m) {
        BIO_meth_set_write(m, bio_write);
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_ctrl(m, bio_ctrl);
    }
    return m;
}

/* What OpenSSL's function returned: 0 to try again, -1 with the reason. */
static int ssl_says(tg__stream *s, int returned)
{
    const int error = SSL_get_error(s->ssl, returned);
    if (!s->failed && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE))
        return 0;
    if (error == SSL_ERROR_ZERO_RETURN)
        return tg__stream_lose(s, "it closed the connection");
    const unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
        reason = "it does not speak TLS: another program, or a rank without keys (insecure)";
    else if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        reason = "its key is not one that is accepted here";
    else if (ERR_GET_REASON(code) == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
             ERR_GET_REASON(code) == SSL_R_TLSV1_ALERT_ACCESS_DENIED)
        reason = refuses_key;
    ERR_clear_error();
    return tg__stream_fail(s, reason ? reason : "TLS failed");
}

void tg__stream_keylog(const SSL *ssl, const char *line)
{
    static const char *const label[2] = {"CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "};
    tg__stream *s = SSL_get_app_data(ssl);
    const char *hex = strrchr(line, ' ');
    for (int i = 0; i < 2; i++) {
        size_t len = 0;
        if (hex && strncmp(line, label[i], strlen(label[i])) == 0)
            s->has_secret[i] =
                OPENSSL_hexstr2buf_ex(s->secret[i], sizeof s->secret[i], &len, hex + 1, 0) == 1 &&
                len == sizeof s->secret[i];
    }
}

/* The handshake is complete, and OpenSSL has read nothing that follows it. */
static int begin_records(tg__stream *s)
{
    const int server = SSL_is_server(s->ssl);
    const bool aes = SSL_CIPHER_get_cipher_nid(SSL_get_current_cipher(s->ssl)) == NID_aes_128_gcm;
    const char *cipher = aes ? "AES-128-GCM" : "ChaCha20-Poly1305";
    s->in = malloc(TG__STREAM_IN);
    const bool ok = s->in && s->has_secret[0] && s->has_secret[1] && !SSL_has_pending(s->ssl) &&
                    tg__record_keys_begin(&s->seals, cipher, s->secret[server], true) &&
                    tg__record_keys_begin(&s->opens, cipher, s->secret[!server], false);
    OPENSSL_cleanse(s->secret, sizeof s->secret);
    SSL_free(s->ssl);
    s->ssl = NULL;
    ERR_clear_error();
    return ok ? 1 : tg__stream_fail(s, s->in ? "TLS failed" : "this rank is out of memory");
}

int tg__stream_shake(tg__stream *s)
{
    if (!s->ssl || s->failed)
        return s->failed ? -1 : 1;
    ERR_clear_error();
    s->shake_reads = SHAKE_READS;
    const int n = SSL_do_handshake(s->ssl);
    const int said = n == 1 ? begin_records(s) : ssl_says(s, n);
    const bool failed = s->failed;
    s->failed = false; /* an alert tells the peer why */
    const int flushed = tg__stream_flush(s);
    s->failed |= failed;
    return said == 1 && flushed == 0 ? 1 : said < 0 || flushed < 0 ? -1 : said;
}

bool tg__stream_has_greeted(const tg__stream *s)
{
    const OSSL_HANDSHAKE_STATE state = s->ssl ? SSL_get_state(s->ssl) : TLS_ST_OK;
    return state != TLS_ST_BEFORE && state != TLS_ST_SR_CLNT_HELLO;
}

/* ---- records of TLS -------------------------------------------------------------------------- */

/* Put a record aside for sending. There must be room. */
static bool seal(tg__stream *s, int type, const void *bytes, size_t len)
{
    const size_t n = tg__record_seal(&s->seals, type, bytes, len, s->out + s->out_len);
    s->out_len += n;
    return n > 0;
}

static int fail_openssl(tg__stream *s)
{
    s->broken = true;
    ERR_clear_error();
    return tg__stream_fail(s, "TLS failed");
}

void tg__stream_say_goodbye(tg__stream *s)
{
    static const uint8_t goodbye[2] = {SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY};
    (void)seal(s, SSL3_RT_ALERT, goodbye, sizeof goodbye);
}

/* The peer broke the rules: tell it, if the socket takes it. */
static int break_off(tg__stream *s, uint8_t alert, const char *why)
{
    const uint8_t fatal[2] = {SSL3_AL_FATAL, alert};
    s->broken = true;
    ERR_clear_error();
    if (seal(s, SSL3_RT_ALERT, fatal, sizeof fatal))
        (void)send(s->fd, s->out + s->out_at, s->out_len - s->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    return tg__stream_fail(s, why);
}

static bool change_keys(tg__stream *s)
{
    static const uint8_t update[5] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, SSL_KEY_UPDATE_NOT_REQUESTED};
    s->key_left = TG__STREAM_KEY_BYTES;
    return seal(s, SSL3_RT_HANDSHAKE, update, sizeof update) && tg__record_keys_next(&s->seals);
}

ptrdiff_t tg__stream_write_sealed(tg__stream *s, const uint8_t *bytes, size_t len)
{
    size_t at = 0, n;
    if (s->broken) { /* half of a record, or of new keys, may have gone */
        s->failed = true;
        return -1;
    }
    for (; at < len; at += n) {
        n = len - at < TG__RECORD_BYTES ? len - at : TG__RECORD_BYTES;
        if (s->out_len + n + TG__RECORD_ADDS + SPARE > TG__STREAM_OUT) {
            const int flushed = tg__stream_flush(s);
            if (flushed <= 0)
                return flushed < 0 ? -1 : (ptrdiff_t)at;
        }
        if ((s->key_left <= 0 && !change_keys(s)) ||
            !seal(s, SSL3_RT_APPLICATION_DATA, bytes + at, n))
            return fail_openssl(s);
        s->key_left -= (int64_t)(n + TG__RECORD_ADDS);
    }
    return (ptrdiff_t)at;
}

/* Wait for the next record, from s->in_at. Returns its length, 0 or -1 as tg__stream_read. */
static ptrdiff_t next_record(tg__stream *s)
{
    for (;;) {
        const size_t have = s->in_len - s->in_at;
        size_t need = TG__RECORD_HEAD;
        if (have >= need) {
            need = tg__record_length(s->in + s->in_at);
            if (need == 0)
                return break_off(s, SSL_AD_DECODE_ERROR, "sent bytes that are not of TLS 1.3");
            if (have >= need)
                return (ptrdiff_t)need;
        }
        if (TG__STREAM_IN - s->in_at < TG__RECORD_MOST || have == 0) {
            memmove(s->in, s->in + s->in_at, have);
            s->in_at = 0;
            s->in_len = have;
        }
        const size_t room = s->exact ? need - have : TG__STREAM_IN - s->in_len;
        const ptrdiff_t n = tg__stream_recv(s, s->in + s->in_len, room);
        if (n <= 0)
            return n;
        s->in_len += (size_t)n;
    }
}

/* A record that is not of bytes. Returns 0, or -1 if the stream has failed. */
static int take_aside(tg__stream *s, const tg__record *r)
{
    static const uint8_t update[4] = {SSL3_MT_KEY_UPDATE, 0, 0, 1};
    if (r->type == SSL3_RT_ALERT && r->len == 2) {
        const int alert = r->bytes[1];
        if (alert == SSL_AD_CLOSE_NOTIFY)
            return tg__stream_lose(s, "it closed the connection");
        s->broken = true;
        return tg__stream_fail(s, alert == SSL_AD_BAD_CERTIFICATE || alert == SSL_AD_ACCESS_DENIED
                                      ? refuses_key
                                      : SSL_alert_desc_string_long(alert));
    }
    if (r->type != SSL3_RT_HANDSHAKE || r->len != 5 || memcmp(r->bytes, update, 4) != 0 ||
        r->bytes[4] > SSL_KEY_UPDATE_REQUESTED)
        return break_off(s, SSL_AD_UNEXPECTED_MESSAGE, "sent bytes that are not of TLS 1.3");
    if (r->bytes[4] == SSL_KEY_UPDATE_REQUESTED)
        s->key_left = 0;
    /* This is far more often than keys need to be changed, and costs less than the bytes do. */
    if (++s->new_keys > 8 + s->received / (TG__STREAM_KEY_BYTES / 64))
        return break_off(s, SSL_AD_UNEXPECTED_MESSAGE, "sends new keys without end");
    return tg__record_keys_next(&s->opens) ? 0 : fail_openssl(s);
}

ptrdiff_t tg__stream_read_sealed(tg__stream *s, uint8_t *bytes, size_t len)
{
    tg__record *r = &s->opened;
    if (s->broken) { /* also where the last words of one that was lost are to be heard */
        s->failed = true;
        return -1;
    }
    while (r->len == 0) {
        const ptrdiff_t whole = next_record(s);
        if (whole <= 0)
            return whole;
        uint8_t *record = s->in + s->in_at;
        const bool fits = len >= (size_t)whole - TG__RECORD_ADDS;
        s->in_at += (size_t)whole;
        if (!tg__record_open(&s->opens, record, (size_t)whole, fits ? bytes : NULL, r)) {
            *r = (tg__record){.len = 0};
            return break_off(s, SSL_AD_BAD_RECORD_MAC, "decryption failed or bad record mac");
        }
        if (r->type != SSL3_RT_APPLICATION_DATA) {
            const tg__record aside = *r;
            r->len = 0;
            if (take_aside(s, &aside) < 0)
                return -1;
            continue;
        }
        const size_t n = r->len;
        s->received += (int64_t)n;
        s->empty = n > 0 ? 0 : s->empty + 1;
        if (s->empty > EMPTY_MAX)
            return break_off(s, SSL_AD_UNEXPECTED_MESSAGE, "sends empty records without end");
        if (fits && n > 0) {
            r->len = 0;
            return (ptrdiff_t)n;
        }
    }
    const size_t n = len < r->len ? len : r->len;
    memcpy(bytes, r->bytes, n);
    r->bytes += n;
    r->len -= n;
    return (ptrdiff_t)n;
}
