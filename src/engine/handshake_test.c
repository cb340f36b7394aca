/* A rank that tells other ranks different things, or nonsense, where ranks must agree before they
 * exchange: the others name it at once, and no honest rank is blamed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hostile_ranks.h"
#include "engine/claim.h"
#include "telegrad/reducer.h"

#include <stdio.h>

enum { P = 3, LIAR = 1, VICTIM = 2, OTHER = 0, N = 8 };

/* Messages of rank 1: to rank 2, then to rank 0; the handshake, then the notes about it. */
enum { TO_VICTIM, TO_OTHER, NOTES_TO_VICTIM, NOTES_TO_OTHER };

typedef struct lie {
    uint64_t number; /* index of the message to change */
    void (*tell)(uint8_t *payload, size_t *len_p);
    const char *victim, *other; /* in the error texts of the two ranks */
} lie;

static void change(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload, size_t *len_p)
{
    const lie *l = arg;
    (void)flags_p;
    if (number == l->number)
        l->tell(payload, len_p);
}

static void more_channels(uint8_t *payload, size_t *len_p)
{
    (void)len_p;
    tg__put32(payload, 21);
}

static void taken_block(uint8_t *payload, size_t *len_p)
{
    (void)len_p;
    payload[4] |= 2;
}

static void other_text(uint8_t *payload, size_t *len_p)
{
    payload[*len_p - 1] ^= 1;
}

static void too_short(uint8_t *payload, size_t *len_p)
{
    (void)payload;
    *len_p = TG__CLAIM_BYTES - 1;
}

static void note_on_victim(uint8_t *payload, size_t *len_p)
{
    (void)len_p;
    payload[8 * VICTIM] ^= 1;
}

static void note_on_other(uint8_t *payload, size_t *len_p)
{
    (void)len_p;
    payload[8 * OTHER] ^= 1;
}

static void too_few_notes(uint8_t *payload, size_t *len_p)
{
    (void)payload;
    *len_p -= 1;
}

typedef struct rank {
    tg_transport *t;
    tg_status status;
    char error[1024];
} rank;

static void *run_rank(void *arg)
{
    rank *r = arg;
    float x[N] = {0};
    tg_reducer *reducer = NULL;
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = 60000};
    r->status = tg_reducer_create("dense", r->t, N, &config, &reducer);
    if (r->status == TG_OK)
        r->status = tg_reducer_mean(reducer, x, x);
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_reducer_destroy(reducer);
    return NULL;
}

static void expect(const rank *r, int who, const char *text)
{
    if (r[who].status == TG_OK || strstr(r[who].error, text) == NULL)
        fail_msg("rank %d: %s \"%s\" lacks \"%s\"", who, tg_status_name(r[who].status),
                 r[who].error, text);
}

static void play(const lie *l)
{
    tg_transport *t[P];
    rank r[P] = {{0}};
    const tg_clock *clock = tg_clock_monotonic();
    const int64_t begin = tg_now_ns(clock);
    hostile_connect(P, LIAR, change, (void *)(uintptr_t)l, t);
    for (int i = 0; i < P; i++)
        r[i].t = t[i];
    (void)hostile_run(P, LIAR, t, run_rank, r, sizeof *r);
    expect(r, VICTIM, l->victim);
    expect(r, OTHER, l->other);
    assert_true(tg_now_ns(clock) - begin < INT64_C(20000000000));
}

#define SELF "rank 1 sent this rank (2) something different in the handshake from what it reports"
#define BOTH "received different data from rank 1 in the handshake"
#define LEFT "has left"

/* The other rank has compared notes, or learned that the victim left. */
static void told_differently(void **state)
{
    static const lie lies[] = {
        {TO_VICTIM, more_channels, SELF, BOTH},
        {TO_VICTIM, taken_block, SELF, BOTH},
        {TO_VICTIM, other_text, SELF, BOTH},
        {TO_VICTIM, too_short, SELF, BOTH},
        {TO_OTHER, more_channels, BOTH,
         "rank 1 sent this rank (0) something different in the handshake from what it reports"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(lies); i++)
        play(&lies[i]);
}

/* Its notes are wrong for one of them, which cannot always identify the liar and leaves. The other
 * learns of that, or that the liar has left for the same reason. */
static void false_notes(void **state)
{
    static const lie lies[] = {
        {NOTES_TO_VICTIM, note_on_victim,
         "rank 1 reports that this rank (2) sent it something different in the handshake",
         "rank 1"},
        {NOTES_TO_VICTIM, note_on_other,
         "ranks 1 and 2 received different data from rank 0 in the handshake, or rank 1 falsely",
         LEFT},
        {NOTES_TO_VICTIM, too_few_notes, "rank 1 sent 23 bytes where 24 were expected", "rank 1"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(lies); i++)
        play(&lies[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(told_differently),
                                       cmocka_unit_test(false_notes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
