/* Records of TLS 1.3: as in RFC 8448, as OpenSSL makes and reads them, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "net/tls.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 300000 };

static bool accepts(void *arg, const tg__public_key *key)
{
    (void)arg;
    (void)key;
    return true;
}

/* A stream, and OpenSSL at the other end. */
typedef struct ends {
    tg_key_pair *key;
    tg__tls *tls;
    tg__stream s, other; /* other: what tls.c asks for of OpenSSL's end */
    SSL *ssl;
    int fd;
} ends;

static int never_blocks(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    return fd;
}

/* What OpenSSL's function returned, unless it is to be called again. */
static bool done(ends *e, int returned)
{
    const int error = SSL_get_error(e->ssl, returned);
    if (returned <= 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        fail_msg("OpenSSL: error %d", error);
    return returned > 0;
}

static void begin(ends *e, const char *suites, bool dialled)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    *e = (ends){.fd = never_blocks(fd[1])};
    assert_int_equal(tg_key_create(&e->key), TG_OK);
    assert_int_equal(tg__tls_create(e->key, &e->tls), TG_OK);
    assert_int_equal(tg__stream_begin(&e->s, never_blocks(fd[0]), e->tls, dialled, accepts, NULL),
                     TG_OK);
    e->other.accepts = accepts;
    e->ssl = SSL_new(e->tls->ctx);
    assert_true(e->ssl && SSL_set_fd(e->ssl, e->fd) && SSL_set_ciphersuites(e->ssl, suites));
    SSL_set_mode(e->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_set_app_data(e->ssl, &e->other);
    if (dialled)
        SSL_set_accept_state(e->ssl);
    else
        SSL_set_connect_state(e->ssl);
    bool shaken = false;
    for (int ours = 0; ours == 0 || !shaken;) {
        ours = tg__stream_shake(&e->s);
        assert_true(ours >= 0);
        shaken = done(e, SSL_do_handshake(e->ssl));
    }
    assert_null(e->s.ssl);
}

static void end(ends *e)
{
    SSL_free(e->ssl);
    close(e->fd);
    tg__stream_close(&e->s);
    tg__tls_destroy(e->tls);
    tg_key_destroy(e->key);
}

/* Bytes both ways at once, in pieces of any length, with new keys and padding among them. */
static void exchange(ends *e, size_t piece)
{
    static uint8_t out[BYTES], ours[BYTES], theirs[BYTES];
    size_t sent = 0, sent_back = 0, got = 0, got_back = 0;
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 + i / 251 + piece);
    memset(ours, 0, BYTES);
    memset(theirs, 0, BYTES);
    for (int turn = 0; got < BYTES || got_back < BYTES; turn++) {
        const size_t len = piece + (size_t)turn % 3;
        if (turn % 7 == 3)
            e->s.key_left = 0;
        if (turn == 5 || turn == 9)
            assert_true(SSL_key_update(e->ssl, turn == 5 ? SSL_KEY_UPDATE_REQUESTED
                                                         : SSL_KEY_UPDATE_NOT_REQUESTED));
        ptrdiff_t n = tg__stream_write(&e->s, out + sent, len < BYTES - sent ? len : BYTES - sent);
        assert_true(n >= 0 && tg__stream_flush(&e->s) >= 0);
        sent += (size_t)n;
        size_t some = 0;
        if (got_back < BYTES && done(e, SSL_read_ex(e->ssl, theirs + got_back, len, &some)))
            got_back += some;
        if (sent_back < BYTES &&
            done(e, SSL_write_ex(e->ssl, out + sent_back,
                                 len < BYTES - sent_back ? len : BYTES - sent_back, &some)))
            sent_back += some;
        if (got < BYTES) {
            n = tg__stream_read(&e->s, ours + got, len + 1 < BYTES - got ? len + 1 : BYTES - got);
            assert_true(n >= 0);
            got += (size_t)n;
        }
    }
    assert_memory_equal(ours, out, BYTES);
    assert_memory_equal(theirs, out, BYTES);
}

static void as_openssl(void **state)
{
    (void)state;
    static const char *const suites[] = {"TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"};
    static const size_t pieces[] = {100, 4096, 16384, 70000};
    for (int i = 0; i < 16; i++) {
        ends e;
        uint8_t byte;
        begin(&e, suites[i & 1], i & 2);
        if (i & 4)
            assert_true(SSL_set_block_padding(e.ssl, 512));
        exchange(&e, pieces[i >> 2]);
        if (i & 2) {
            assert_int_equal(tg__stream_end(&e.s), 1);
            assert_int_equal(SSL_get_error(e.ssl, SSL_read(e.ssl, &byte, 1)),
                             SSL_ERROR_ZERO_RETURN);
        } else {
            (void)SSL_shutdown(e.ssl);
            assert_int_equal(tg__stream_read(&e.s, &byte, 1), -1);
            assert_string_equal(e.s.why, "it closed the connection");
            assert_true(e.s.lost);
        }
        end(&e);
    }
}

/* A greeting in records of one byte takes many steps: no stranger keeps others waiting by it. */
static void greeting_in_crumbs(void **state)
{
    (void)state;
    ends e = {.fd = -1};
    int fd[2], left = 0, before = 0, steps = 0;
    uint8_t *hello;
    static uint8_t crumbs[6 * 4096];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(tg_key_create(&e.key), TG_OK);
    assert_int_equal(tg__tls_create(e.key, &e.tls), TG_OK);
    assert_int_equal(tg__stream_begin(&e.s, never_blocks(fd[0]), e.tls, false, accepts, NULL),
                     TG_OK);
    e.ssl = SSL_new(e.tls->ctx);
    assert_non_null(e.ssl);
    SSL_set_bio(e.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    assert_int_equal(SSL_connect(e.ssl), -1);
    const long len = BIO_get_mem_data(SSL_get_wbio(e.ssl), (char **)&hello) - 5;
    assert_in_range(len, 100, 4096);
    for (long i = 0; i < len; i++)
        memcpy(crumbs + 6 * i, (uint8_t[]){22, 3, 1, 0, 1, hello[5 + i]}, 6);
    e.fd = fd[1];
    assert_int_equal(send(e.fd, crumbs, 6 * (size_t)len, 0), 6 * len);
    assert_int_equal(ioctl(fd[0], FIONREAD, &before), 0);
    for (; !tg__stream_has_greeted(&e.s); steps++, before = left) {
        assert_int_equal(tg__stream_shake(&e.s), 0);
        assert_int_equal(ioctl(fd[0], FIONREAD, &left), 0);
        assert_in_range(before - left, 1, 6 * 16 + 5); /* 32 reads */
    }
    assert_true(steps > 6 * len / (6 * 16 + 5) && left == 0);
    end(&e);
}

/* RFC 8448, section 3: the client's first record with application data. */
static void as_in_rfc_8448(void **state)
{
    (void)state;
    static const uint8_t secret[] =
        "\x9e\x40\x64\x6c\xe7\x9a\x7f\x9d\xc0\x5a\xf8\x88\x9b\xce\x65\x52"
        "\x87\x5a\xfa\x0b\x06\xdf\x00\x87\xf7\x92\xeb\xb7\xc1\x75\x04\xa5";
    static const uint8_t wire[] =
        "\x17\x03\x03\x00\x43\xa2\x3f\x70\x54\xb6\x2c\x94\xd0\xaf\xfa\xfe\x82\x28\xba\x55\xcb\xef"
        "\xac\xea\x42\xf9\x14\xaa\x66\xbc\xab\x3f\x2b\x98\x19\xa8\xa5\xb4\x6b\x39\x5b\xd5\x4a\x9a"
        "\x20\x44\x1e\x2b\x62\x97\x4e\x1f\x5a\x62\x92\xa2\x97\x70\x14\xbd\x1e\x3d\xea\xe6\x3a\xee"
        "\xbb\x21\x69\x49\x15\xe4";
    uint8_t bytes[50], out[100];
    tg__record_keys k = {.ctx = NULL};
    tg__record r;
    for (int i = 0; i < 50; i++)
        bytes[i] = (uint8_t)i;
    assert_true(tg__record_keys_begin(&k, "AES-128-GCM", secret, true));
    assert_int_equal(tg__record_seal(&k, SSL3_RT_APPLICATION_DATA, bytes, 50, out), 72);
    assert_memory_equal(out, wire, 72);
    tg__record_keys_end(&k);
    assert_true(tg__record_keys_begin(&k, "AES-128-GCM", secret, false));
    assert_int_equal(tg__record_length(out), 72);
    assert_true(tg__record_open(&k, out, 72, NULL, &r));
    assert_int_equal(r.type, SSL3_RT_APPLICATION_DATA);
    assert_int_equal(r.len, 50);
    assert_memory_equal(r.bytes, bytes, 50);
    tg__record_keys_end(&k);
}

/* What the stream says to a record, or to bytes as they are, from a peer that is a member. */
static void refuses(int type, const void *bytes, size_t len, int times, const char *why)
{
    ends e;
    uint8_t wire[20000], in[64];
    begin(&e, "TLS_AES_128_GCM_SHA256", true);
    tg__record_keys k = {.ctx = NULL};
    assert_true(tg__record_keys_begin(&k, "AES-128-GCM", e.s.opens.secret, true));
    ptrdiff_t n = 0;
    for (int i = 0; i < times && n == 0; i++) {
        size_t sealed = len;
        if (type >= 0)
            sealed = tg__record_seal(&k, type, bytes, len, wire);
        else
            memcpy(wire, bytes, len);
        assert_int_equal(send(e.fd, wire, sealed, 0), sealed);
        if (type == SSL3_RT_HANDSHAKE)
            assert_true(tg__record_keys_next(&k));
        n = tg__stream_read(&e.s, in, sizeof in);
        assert_true(n <= 0 && (n < 0 || i + 1 < times));
    }
    assert_int_equal(n, -1);
    if (strcmp(e.s.why, why) != 0)
        fail_msg("type %d, %zu bytes: %s", type, len, e.s.why);
    /* Nor does it take what follows, even if somebody asks for last words. */
    e.s.failed = e.s.lost = false;
    const size_t more = tg__record_seal(&k, SSL3_RT_APPLICATION_DATA, "more", 4, wire);
    (void)send(e.fd, wire, more, MSG_NOSIGNAL);
    assert_int_equal(tg__stream_read(&e.s, in, sizeof in), -1);
    e.s.failed = e.s.lost = false;
    assert_int_equal(tg__stream_write(&e.s, "more", 4), -1);
    tg__record_keys_end(&k);
    end(&e);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const char not_tls[] = "sent bytes that are not of TLS 1.3";
    static const char mac[] = "decryption failed or bad record mac";
    static const uint8_t zeros[100] = {0};
    /* A ticket, keys of another kind, more behind them, and half of them. */
    refuses(SSL3_RT_HANDSHAKE, "\4\0\0\1\0", 5, 1, not_tls);
    refuses(SSL3_RT_HANDSHAKE, "\x18\0\0\1\2", 5, 1, not_tls);
    refuses(SSL3_RT_HANDSHAKE, "\x18\0\0\1\0\x18\0\0\1\0", 10, 1, not_tls);
    refuses(SSL3_RT_HANDSHAKE, "\x18\0", 2, 1, not_tls);
    refuses(SSL3_RT_HANDSHAKE, "\x18\0\0\1\0", 5, 9, "sends new keys without end");
    refuses(SSL3_RT_CHANGE_CIPHER_SPEC, "\1", 1, 1, not_tls);
    refuses(99, "abc", 3, 1, not_tls);
    refuses(0, zeros, 100, 1, mac); /* padding, and nothing else */
    refuses(SSL3_RT_APPLICATION_DATA, "", 0, 33, "sends empty records without end");
    refuses(SSL3_RT_ALERT, "\2\x2a", 2, 1, "it does not accept this rank's key");
    refuses(SSL3_RT_ALERT, "\2\x14", 2, 1, "bad record mac");
    refuses(SSL3_RT_ALERT, "\2", 1, 1, not_tls);
    /* Not sealed: new keys, an alert, another version, a record that is too short or too long. */
    refuses(-1, "\x14\3\3\0\1\1", 6, 1, not_tls);
    refuses(-1, "\x15\3\3\0\2\2\x2a", 7, 1, not_tls);
    refuses(-1, "\x17\3\1\0\x20", 5, 1, not_tls);
    refuses(-1, "\x17\3\3\0\x10", 5, 1, not_tls);
    refuses(-1, "\x17\3\3\x41\1", 5, 1, not_tls);
    refuses(-1, "\x17\3\3\0\x11................", 22, 1, mac);
}

/* Of a record that was changed at any place nothing is given out, nor of one that comes again. */
static void what_was_changed(void **state)
{
    (void)state;
    static const uint8_t secret[TG__RECORD_SECRET] = {1, 2, 3};
    static const char *const ciphers[] = {"AES-128-GCM", "ChaCha20-Poly1305"};
    uint8_t wire[40 + TG__RECORD_ADDS], again[sizeof wire], to[40];
    for (int i = 0; i < 2; i++) {
        tg__record_keys seals = {.ctx = NULL}, opens = seals;
        tg__record r;
        assert_true(tg__record_keys_begin(&seals, ciphers[i], secret, true));
        for (size_t at = 0; at <= sizeof wire; at++) {
            assert_true(tg__record_keys_begin(&opens, ciphers[i], secret, false));
            seals.number = 0;
            assert_int_equal(tg__record_seal(&seals, SSL3_RT_APPLICATION_DATA, secret, 32, wire),
                             54);
            memcpy(again, wire, sizeof wire);
            if (at < 54)
                wire[at] ^= 0x10;
            assert_int_equal(tg__record_open(&opens, wire, 54, at & 1 ? to : NULL, &r), at >= 54);
            assert_false(at >= 54 && tg__record_open(&opens, again, 54, NULL, &r));
            tg__record_keys_end(&opens);
        }
        tg__record_keys_end(&seals);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_rfc_8448),     cmocka_unit_test(as_openssl),
        cmocka_unit_test(greeting_in_crumbs), cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_was_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
