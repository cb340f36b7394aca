/* A peer that has the keys of a TLS connection and sends what the input says: records that are
 * sealed as they should be, changed ones, other types, new keys, plain bytes, in pieces. What the
 * stream gives out must be what was sealed, in order, and nothing after the first wrong record. */
#include "net/tls.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define must(fact) ((fact) ? (void)0 : abort())

enum { SENT_MAX = 1 << 20 };

typedef struct play {
    tg__stream s;
    tg__record_keys seals; /* the peer's */
    int fd;
    uint8_t *sent; /* (SENT_MAX) the bytes of honest records */
    size_t sent_len, got;
    bool honest; /* nothing wrong was sent so far */
} play;

static void begin(play *p)
{
    static uint8_t secret[TG__RECORD_SECRET], *sent;
    int fd[2];
    if (!sent)
        sent = malloc(SENT_MAX);
    *p = (play){.sent = sent, .honest = true};
    must(sent && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
    must(tg__stream_begin(&p->s, fd[0], NULL, false, NULL, NULL) == TG_OK);
    p->fd = fd[1];
    free(p->s.in);
    p->s.in = malloc(TG__STREAM_IN);
    p->s.tls = true; /* as after the handshake */
    p->s.key_left = TG__STREAM_KEY_BYTES;
    must(p->s.in && tg__record_keys_begin(&p->s.opens, "AES-128-GCM", secret, false) &&
         tg__record_keys_begin(&p->s.seals, "AES-128-GCM", secret, true) &&
         tg__record_keys_begin(&p->seals, "AES-128-GCM", secret, true));
}

static void read_some(play *p, size_t len)
{
    static uint8_t bytes[3 * TG__RECORD_BYTES];
    const ptrdiff_t n = tg__stream_read(&p->s, bytes, len < sizeof bytes ? len + 1 : sizeof bytes);
    must(n >= -1 && n <= (ptrdiff_t)sizeof bytes);
    must(n >= 0 || (p->s.failed && *p->s.why));
    if (n <= 0)
        return;
    must(p->got + (size_t)n <= p->sent_len);
    must(memcmp(bytes, p->sent + p->got, (size_t)n) == 0);
    p->got += (size_t)n;
}

/* All of it, while the stream reads what has no room. */
static void say(play *p, const uint8_t *bytes, size_t len)
{
    for (int turn = 0; len > 0 && turn < 64 && !p->s.failed; turn++) {
        const ssize_t n = send(p->fd, bytes, len, MSG_NOSIGNAL);
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
        read_some(p, TG__RECORD_BYTES);
    }
    p->honest &= len == 0; /* half of a record */
}

/* The type of a record is its last byte that is not 0. */
static int type_of(const uint8_t *plain, size_t *len, int type)
{
    while (type == 0 && *len > 0)
        type = plain[--*len];
    return type;
}

/* a: type and what is done to it; b: length; the bytes follow from both. */
static void say_record(play *p, uint8_t a, uint8_t b)
{
    static uint8_t plain[TG__RECORD_BYTES], record[TG__RECORD_MOST];
    static const size_t lengths[] = {0, 1, 5, 64, 1000, TG__RECORD_BYTES - 1, TG__RECORD_BYTES, 17};
    static const int types[] = {SSL3_RT_APPLICATION_DATA,
                                SSL3_RT_APPLICATION_DATA,
                                SSL3_RT_HANDSHAKE,
                                SSL3_RT_ALERT,
                                0,
                                255};
    const int type = types[(a & 7) % 6];
    const bool changed = a & 8;
    const size_t len = lengths[b & 7];
    if (p->sent_len + len > SENT_MAX)
        return;
    memset(plain, a ^ b, len);
    if (len > 0 && b & 8) /* padding, if the type is 0 */
        plain[len - 1] = 0;
    const size_t n = tg__record_seal(&p->seals, type, plain, len, record);
    must(n == len + TG__RECORD_ADDS);
    if (changed)
        record[b % n] ^= (uint8_t)(1 << (a >> 4 & 7));
    size_t part = len;
    p->honest &= !changed && type_of(plain, &part, type) == SSL3_RT_APPLICATION_DATA;
    if (p->honest) {
        memcpy(p->sent + p->sent_len, plain, part);
        p->sent_len += part;
    }
    say(p, record, n);
}

/* A wish for new keys, or such keys. */
static void say_new_keys(play *p, uint8_t a)
{
    const uint8_t update[5] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, a & 3};
    uint8_t record[sizeof update + TG__RECORD_ADDS];
    const size_t n = tg__record_seal(&p->seals, SSL3_RT_HANDSHAKE, update, sizeof update, record);
    must(n == sizeof record);
    if ((a & 3) > SSL_KEY_UPDATE_REQUESTED)
        p->honest = false;
    say(p, record, n);
    must(tg__record_keys_next(&p->seals));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    play p;
    begin(&p);
    for (size_t at = 0; at < size && at < 1024;) {
        const uint8_t a = at + 1 < size ? data[at + 1] : 0, b = at + 2 < size ? data[at + 2] : 0;
        switch (data[at] & 3) {
        case 0:
            say_record(&p, a, b);
            at += 3;
            break;
        case 1:
            say_new_keys(&p, a);
            at += 2;
            break;
        case 2: { /* bytes as they are */
            const size_t len = a % 24 < size - at ? a % 24 : size - at;
            p.honest &= len == 0;
            say(&p, data + at, len);
            at += 2 + len;
            break;
        }
        default:
            read_some(&p, (size_t)a * a);
            at += 2;
        }
    }
    shutdown(p.fd, SHUT_WR);
    for (int i = 0; i < 200 && !p.s.failed; i++)
        read_some(&p, TG__RECORD_BYTES);
    must(p.s.failed); /* at the end of what came, if not before */
    must(!p.honest || p.got == p.sent_len || p.s.broken);
    tg__record_keys_end(&p.seals);
    close(p.fd);
    tg__stream_close(&p.s);
    return 0;
}
