/* A server whose workers come and go, and send what the input says. The first byte chooses the
 * mode (modulo 4), the optimizer (bit 4), whether there is a journal (bit 5): then, in the end, the
 * server is taken to have died, and what another one reads from the journal must have its bits; and
 * whether gradients ask for coded answers (bit 6), of which codec (bit 3).
 *
 * Then each action is a byte: bits 0 to 2 say what, bit 3 and 4 which seat, the others how much
 * (`more`). One action is done each time the server waits.
 *
 *     0, 1  a gradient, changed by `more` lies (fuzz_lies.h); 1: in a later step
 *     2     parameters, likewise
 *     3     a stamp: 24 bytes
 *     4     a message that is not as long as its stamp says: 1 byte
 *     5     the worker leaves
 *     6     the worker no longer takes answers, or does again
 *     7     2^more milliseconds pass */
#include "fuzz_lies.h"
#include "exchange/star.h"
#include "exchange/star_coding.h"
#include "server/server_impl.h"
#include "server/tensors.h"
#include "strategy/optimizers.h"
#include "transport/worker.h"
#include "wire/envelope.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define must(fact) ((fact) ? (void)0 : abort())

enum { SEATS = 3, N = 40, CAP = 4096, QUEUE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct sent {
    uint8_t *bytes;
    size_t len;
    uint32_t tag;
} sent;

typedef struct seat {
    sent queue[QUEUE];
    size_t count;
    bool gone, deaf;
    uint64_t step;
    uint64_t number; /* of its last message; 0: it does not come back */
    uint32_t drops;  /* requests of earlier workers are over */
} seat;

static struct world {
    fuzz_lies input;
    seat seat[SEATS];
    int64_t now_ns;
    tg_server *server;
    const char *codec; /* of answers; NULL: they are f32 */
} world;

/* ---- the transport --------------------------------------------------------------------------- */

/* What a request holds: word 0 is the seat, 1 the tag, 2 the buffer, 3 its room, 4 whether it
 * sends. */

static tg_status post(int peer, uint32_t tag, const void *buf, size_t len, bool sends,
                      tg_request *req)
{
    *req = (tg_request){
        {(uint64_t)peer, tag, (uint64_t)(uintptr_t)buf, len, sends, world.seat[peer].drops}};
    must(peer >= 0 && peer < SEATS);
    return sends && world.seat[peer].gone ? tg_fail(TG_E_PEER, "worker %d has left", peer) : TG_OK;
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    (void)t;
    for (size_t i = 0; i < len; i += 61) /* it must be readable */
        must(((const uint8_t *)buf)[i] <= 255);
    return post(peer, tag, buf, len, true, req);
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    (void)t;
    return post(peer, tag, buf, cap, false, req);
}

static void forget(seat *s, size_t i)
{
    free(s->queue[i].bytes);
    s->count--;
    memmove(&s->queue[i], &s->queue[i + 1], (s->count - i) * sizeof s->queue[0]);
}

static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    seat *s = &world.seat[req->word[0]];
    (void)t;
    *done_p = false;
    must(req->word[5] == s->drops); /* of the worker that is there now */
    for (size_t i = 0; req->word[4] == 0 && i < s->count; i++) {
        const sent *m = &s->queue[i];
        if (m->tag != req->word[1])
            continue;
        *done_p = true;
        *len_p = m->len;
        if (m->len > req->word[3]) {
            forget(s, i);
            return tg_fail(TG_E_CORRUPT, "a message of %zu bytes is longer than expected", *len_p);
        }
        memcpy((void *)(uintptr_t)req->word[2], m->bytes, m->len);
        forget(s, i);
        return TG_OK;
    }
    if (s->gone)
        return tg_fail(TG_E_PEER, "worker %d has left", (int)req->word[0]);
    *done_p = req->word[4] != 0 && !s->deaf;
    *len_p = (size_t)req->word[3];
    return TG_OK;
}

static bool drop(tg_transport *t, int peer)
{
    seat *s = &world.seat[peer];
    (void)t;
    while (s->count > 0)
        forget(s, 0);
    *s = (seat){.number = s->number, .drops = s->drops + 1};
    return s->number > 0;
}

static bool shut(tg_transport *t)
{
    (void)t;
    return true;
}

static void destroy(tg_transport *t)
{
    (void)t;
}

static int64_t now_ns(void *arg)
{
    (void)arg;
    return world.now_ns;
}

/* ---- the workers ----------------------------------------------------------------------------- */

static void send_bytes(seat *s, uint32_t tag, const void *bytes, size_t len)
{
    if (s->count == QUEUE || s->gone)
        return;
    sent *m = &s->queue[s->count++];
    *m = (sent){.bytes = malloc(len + 1), .len = len, .tag = tag};
    must(m->bytes);
    memcpy(m->bytes, bytes, len);
}

static void stamp_and_send(seat *s, uint32_t tag, const uint8_t *msg, size_t told, size_t len)
{
    uint8_t stamp[TG__WORKER_STAMP];
    const tg__stamp said = {.tag = tag,
                            .worker = s->number > 0 ? 1 + (uint32_t)(s - world.seat) : 0,
                            .len = told,
                            .number = s->number};
    tg__stamp_write(stamp, &said);
    send_bytes(s, TG__TAG_STAMP, stamp, sizeof stamp);
    send_bytes(s, TG__TAG_STAMPED, msg, len);
}

/* Returns its length. */
static size_t put_coding(uint8_t *at, bool first)
{
    const size_t len = strlen(world.codec);
    memset(at, 0, TG__CODING_FIRST);
    if (!first)
        return TG__CODING_STEP;
    tg__put32(at + 32, (uint32_t)len);
    tg__put32(at + 36, 1);
    memcpy(at + TG__CODING_FIRST, world.codec, len);
    at += TG__CODING_FIRST + len;
    tg__put32(at, N);
    tg__put32(at + 4, N);
    tg__put32(at + 8, 1);
    return TG__CODING_FIRST + len + TG__CODING_SEGMENT;
}

/* A message about a bucket of N elements, or a slice of it. */
static size_t make_message(seat *s, bool parameters, size_t lies, uint8_t *msg)
{
    uint8_t *payload = msg + TG__ENVELOPE_BYTES;
    const size_t what = fuzz_take(&world.input, 1);
    const size_t begin = what & 16 ? N / 2 : 0, n = parameters || !(what & 32) ? N : N / 2;
    const bool tells = parameters && (what & 32) != 0;
    const bool codes = world.codec != NULL && !parameters && n == N;
    const char *tensors = !parameters ? "" : (what & 56) == 24 ? "0 a 8x5\n" : "0 a 40\n";
    tg__star head = {.combine = parameters ? &tg__combine_parameters : &tg__combine_mean,
                     .flags = (uint16_t)((!(what & 64) ? 0
                                          : parameters ? TG__STAR_ANEW
                                                       : TG__STAR_OWNS_MOMENTUM) |
                                         (parameters ? TG__STAR_TENSORS : 0) |
                                         (tells ? TG__STAR_TELLS : 0)),
                     .tensors = (uint32_t)strlen(tensors),
                     .begin = parameters || n == N ? 0 : begin,
                     .rate = 0.125};
    tg__envelope e = {.session = tells && (what & 8) != 0 ? 8 : 7,
                      .step = s->step,
                      .flags = what & 128 ? TG__FLAG_NONFINITE : 0,
                      .bucket = (uint16_t)(what & 1),
                      .slice = (uint16_t)(what >> 1 & 1),
                      .channel = (uint16_t)(1 + (what >> 2 & 1))};
    float *values = tg__f32_values(payload + TG__STAR_HEAD);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)((int)(fuzz_take(&world.input, 1) % 16) - 8) / 4;
    size_t len = TG__STAR_HEAD + tg__f32_frame(payload + TG__STAR_HEAD, n);
    if (codes) {
        payload[TG__STAR_HEAD] = world.codec[0] == 't' ? TG__ID_topk : TG__ID_twobit;
        head.flags |= (uint16_t)(TG__STAR_CODED | (what & 16 ? 0 : TG__STAR_FIRST) |
                                 (what & 4 ? TG__STAR_DROPPED : 0));
        head.coding = (uint32_t)put_coding(payload + len, !(what & 16));
        len += head.coding;
    }
    tg__star_head(payload, &head);
    memcpy(payload + len, tensors, head.tensors);
    len += head.tensors;
    if (tells) /* the worker's settings */
        len += (size_t)snprintf((char *)payload + len, 32, "seed=%d\n", (int)(what & 1));
    for (size_t i = 0; i < lies; i++) {
        const size_t lie = fuzz_take(&world.input, 1);
        fuzz_lie_about(&world.input, lie & 7, lie >> 3, payload, &len, CAP - TG__ENVELOPE_BYTES);
        len = TG__MIN(len, CAP - TG__ENVELOPE_BYTES);
    }
    tg__envelope_seal(msg, &e, len);
    return TG__ENVELOPE_BYTES + len;
}

static void act(unsigned what, seat *s, size_t more)
{
    _Alignas(64) uint8_t msg[CAP];
    uint8_t stamp[TG__WORKER_STAMP];
    size_t len;
    switch (what) {
    case 0:
    case 1:
    case 2:
        s->step += what == 1;
        s->number += more > 4 || s->number > 0 ? what != 0 : 0; /* 0: sent again */
        len = make_message(s, what == 2, more, msg);
        stamp_and_send(s, (uint32_t)more, msg, len, len);
        break;
    case 3:
        fuzz_take_bytes(&world.input, stamp, sizeof stamp);
        if (tg__get64(stamp + 8) <= (uint64_t)4 << 30) /* the fuzzer forbids such allocations */
            tg__put64(stamp + 8, tg__get64(stamp + 8) % ((uint64_t)64 << 20));
        send_bytes(s, TG__TAG_STAMP, stamp, sizeof stamp);
        break;
    case 4:
        len = make_message(s, false, 0, msg);
        stamp_and_send(s, 1, msg, len, len - fuzz_take(&world.input, 1) % len);
        break;
    case 5:
        s->gone = true;
        break;
    case 6:
        s->deaf = !s->deaf;
        break;
    default:
        world.now_ns += INT64_C(1000000) << more;
    }
}

/* One action; after the last, the machine dies. */
static tg_status poll_next(tg_transport *t, int64_t deadline_ns)
{
    (void)t;
    (void)deadline_ns;
    world.now_ns++;
    if (world.input.left == 0)
        return tg_fail(TG_E_STOPPED, "the input is over");
    const size_t byte = fuzz_take(&world.input, 1);
    act(byte & 7, &world.seat[(byte >> 3 & 3) % SEATS], byte >> 5);
    return TG_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const tg_transport_ops ops = {.struct_size = sizeof ops,
                                     .name = "fuzz",
                                     .post_send = post_send,
                                     .post_recv = post_recv,
                                     .test = test,
                                     .poll = poll_next,
                                     .shut = shut,
                                     .destroy = destroy,
                                     .drop = drop};

/* Both keep the same, in the same order, and have counted the same steps. */
static void compare(const tg_server *a, const tg_server *b)
{
    const tg__region *x = a->regions, *y = b->regions;
    for (; x && y; x = x->next, y = y->next) {
        const size_t len = x->n * sizeof(float);
        must(x->channel == y->channel && x->bucket == y->bucket && x->lo == y->lo && x->n == y->n);
        must(memcmp(x->w, y->w, len) == 0);
        must(!x->sent == !y->sent && (!x->sent || (memcmp(x->sent->v, y->sent->v, len) == 0 &&
                                                   x->sent->number == y->sent->number)));
        must(memcmp(x->updates, y->updates, sizeof x->updates) == 0);
        for (int i = 0; i < SEATS; i++)
            must(x->rank[i].clock == y->rank[i].clock);
        for (size_t i = 0; i < TG__REGION_SLOTS; i++)
            must(!x->slot[i] == !y->slot[i] &&
                 (!x->slot[i] || memcmp(x->slot[i], y->slot[i], len) == 0));
    }
    must(!x && !y && a->founded == b->founded);
    for (x = a->regions; x; x = x->next) {
        const tg__settings s = tg__tensors_of(a, x->channel), t = tg__tensors_of(b, x->channel);
        must(s.len > 0 && s.len == t.len && memcmp(s.text, t.text, s.len) == 0);
    }
    for (int i = 0; i < SEATS; i++)
        must(a->in[i].base == b->in[i].base);
}

static tg_server *create(tg_transport *t, uint8_t how, const char *journal)
{
    static const char *const modes[] = {"async", "async:staleness=2", "async:compensate=0.5",
                                        "sync"};
    const tg_server_config config = {.struct_size = sizeof config,
                                     .mode = modes[how % 4],
                                     .optimizer =
                                         how & 16 ? "adam:lr=0.1" : "sgd:lr=0.1,momentum=0.5",
                                     .timeout_ms = 100,
                                     .journal = journal,
                                     .journal_bytes = 20000};
    tg_server *s = NULL;
    must(tg_server_create(t, 1, &config, &s) == TG_OK);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/tg-fuzz-server-XXXXXX", command[64];
    tg_clock clock = {.struct_size = sizeof clock,
                      .now_ns = now_ns,
                      .sleep_until_ns = tg_clock_monotonic()->sleep_until_ns};
    tg_transport t = {
        .struct_size = sizeof t, .ops = &ops, .rank = SEATS, .size = SEATS + 1, .clock = &clock};
    if (size == 0)
        return 0;
    const bool keeps = data[0] & 32;
    world = (struct world){.input = {.data = data + 1, .left = size - 1}};
    if (data[0] & 64)
        world.codec = data[0] & 8 ? "topk:density=0.2" : "2bit:threshold=auto";
    must(!keeps || mkdtemp(folder));
    tg_server *s = create(&t, data[0], keeps ? folder : NULL);
    const tg_status status = tg_server_run(s);
    must(status == TG_E_STOPPED);
    for (int i = 0; i < SEATS; i++)
        drop(&t, i);
    if (keeps) {
        snprintf(command, sizeof command, "rm -r '%s'", folder);
        tg__journal_close(&s->journal); /* which the dead would not hold either */
        tg_server *after = create(&t, data[0], folder);
        compare(s, after);
        tg_server_destroy(after);
        must(system(command) == 0);
    }
    tg_server_destroy(s);
    return 0;
}
