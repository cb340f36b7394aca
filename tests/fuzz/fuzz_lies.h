/* Turns the input of a fuzz target into changes that a hostile rank makes to its messages, one
 * after the other. The low 3 bits of a byte say how, the others how much (`more`):
 *
 *     0  the next 1 + more messages are honest
 *     1  2 bytes: position; 1 + more % 8 bytes that replace those there
 *     2  2 bytes: new length
 *     3  replaced by `more` bytes; 31: as many as the next 2 bytes say, repeating what is left
 *     4  `more` bytes are appended; 31: as many as the next 2 bytes say
 *     5  1 byte: flags
 *     6  2 bytes: position; 4 bytes, which are repeated from there to the end
 *     7  2 bytes: position; the word number `more`
 *
 * After the end of the input all messages are honest. */
#ifndef TESTS_FUZZ_LIES_H
#define TESTS_FUZZ_LIES_H

#include "fuzz_tools.h"

typedef struct fuzz_lies {
    const uint8_t *data;
    size_t left;
    unsigned honest; /* honest messages to come */
} fuzz_lies;

static inline size_t fuzz_take(fuzz_lies *l, size_t bytes)
{
    size_t v = 0;
    for (size_t i = 0; i < bytes && l->left > 0; i++, l->left--)
        v |= (size_t)*l->data++ << 8 * i;
    return v;
}

/* Take len bytes of the input; past its end, they repeat from where this call began. */
static inline void fuzz_take_bytes(fuzz_lies *l, uint8_t *dst, size_t len)
{
    for (size_t i = 0; i < len && l->left > 0; i++)
        dst[i] = l->data[i % l->left];
    const size_t used = len < l->left ? len : l->left;
    l->data += used;
    l->left -= used;
}

static inline void fuzz_lie_about(fuzz_lies *l, unsigned how, size_t more, uint8_t *payload,
                                  size_t *len_p, size_t cap)
{
    static const uint32_t words[] = {0,          1,          2,          0xffffffff,
                                     0x7fffffff, 0x80000000, 0x7fc00000, 0x7f800000,
                                     0xff800000, 0x7f7fffff, 0xff7fffff, 300};
    const size_t len = *len_p;
    size_t at, count;
    uint8_t word[4];
    switch (how) {
    case 1:
        at = fuzz_take(l, 2) % (len + 1);
        fuzz_take_bytes(l, payload + at, TG__MIN(1 + more % 8, len - at));
        break;
    case 2:
        *len_p = fuzz_take(l, 2) % (len + 1);
        break;
    case 3:
    case 4:
        at = how == 3 ? 0 : len;
        count = more == 31 ? fuzz_take(l, 2) : more;
        fuzz_take_bytes(l, payload + at, TG__MIN(count, cap - at));
        *len_p = at + count;
        break;
    case 6:
        at = fuzz_take(l, 2) % (len + 1);
        tg__put32(word, (uint32_t)fuzz_take(l, 4));
        for (size_t i = at; i < len; i++)
            payload[i] = word[(i - at) % 4];
        break;
    case 7:
        at = fuzz_take(l, 2);
        if (len >= 4)
            tg__put32(payload + at % (len - 3), words[more % TG_COUNT(words)]);
        break;
    default:
        break;
    }
}

/* Change one message: its payload (*len_p, room for cap) and flags. */
static inline void fuzz_lie(fuzz_lies *l, uint16_t *flags_p, uint8_t *payload, size_t *len_p,
                            size_t cap)
{
    if (l->honest > 0) {
        l->honest--;
        return;
    }
    if (l->left == 0)
        return;
    const size_t byte = fuzz_take(l, 1), more = byte >> 3;
    const unsigned how = byte & 7;
    if (how == 0)
        l->honest = (unsigned)more;
    else if (how == 5)
        *flags_p = (uint16_t)fuzz_take(l, 1);
    else
        fuzz_lie_about(l, how, more, payload, len_p, cap);
}

/* A `change` of hand_exchange.h: rank `who` lies, and the memory after a message is overwritten. */
typedef struct fuzz_liar {
    fuzz_lies lies;
    int who;
    uint8_t behind;
} fuzz_liar;

static inline void fuzz_change(void *arg, int from, uint8_t *payload, size_t *len_p, size_t cap)
{
    fuzz_liar *a = arg;
    uint16_t flags = 0; /* flags only exist in drivers */
    if (from == a->who)
        fuzz_lie(&a->lies, &flags, payload, len_p, cap);
    if (*len_p < cap)
        memset(payload + *len_p, a->behind, cap - *len_p);
}

#endif
