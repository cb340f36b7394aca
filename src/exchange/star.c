#include "exchange/star.h"
#include "base/mem.h"
#include "exchange/star_coding.h"
#include "exchange/star_state.h"
#include <math.h>
#include <string.h>

const tg__combine tg__combine_parameters = {.name = "parameters", .add = tg__mean_add};

/* Bytes, which need not be numbers. */
static void copy(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool)
{
    (void)n;
    tg__frame_decode(frame, len, acc, pool);
}

const tg__combine tg__combine_state = {.name = "state", .add = copy};

/* By number on the wire. */
static const tg__combine *const combines[] = {NULL,
                                              &tg__combine_mean,
                                              &tg__combine_vote,
                                              &tg__combine_max,
                                              &tg__combine_parameters,
                                              &tg__combine_state};

static size_t number_of(const tg__combine *combine)
{
    size_t i = 1;
    while (i < TG_COUNT(combines) && combines[i] != combine)
        i++;
    return i;
}

bool tg__star_knows(const tg__combine *combine)
{
    return number_of(combine) < TG_COUNT(combines);
}

void tg__star_head(uint8_t head[TG__STAR_HEAD], const tg__star *star)
{
    uint64_t rate;
    memcpy(&rate, &star->rate, sizeof rate);
    head[0] = TG__STAR_VERSION;
    head[1] = (uint8_t)number_of(star->combine);
    tg__put16(head + 2, star->flags);
    tg__put32(head + 4, star->coding + star->tensors); /* one of them is 0 */
    tg__put64(head + 8, star->begin);
    tg__put64(head + 16, rate);
}

tg_status tg__star_read(const uint8_t head[TG__STAR_HEAD], tg__star *star)
{
    const uint64_t rate = tg__get64(head + 16);
    if (head[0] != TG__STAR_VERSION)
        return tg_fail(TG_E_VERSION, "version=%u of what workers send: this server reads %d",
                       head[0], TG__STAR_VERSION);
    if (head[1] == 0 || head[1] >= TG_COUNT(combines))
        return tg_fail(TG_E_CORRUPT, "combine=%u: allowed: 1..%zu", head[1],
                       TG_COUNT(combines) - 1);
    star->combine = combines[head[1]];
    star->flags = tg__get16(head + 2);
    star->begin = tg__get64(head + 8);
    memcpy(&star->rate, &rate, sizeof star->rate);
    const unsigned of_parameters = TG__STAR_ANEW | TG__STAR_TELLS | TG__STAR_TENSORS,
                   of_coding = TG__STAR_FIRST | TG__STAR_DROPPED;
    const bool coded = (star->flags & TG__STAR_CODED) != 0,
               tensors = (star->flags & TG__STAR_TENSORS) != 0;
    const uint32_t behind = tg__get32(head + 4), least = tensors && !coded,
                   most = coded     ? TG__CODING_MOST
                          : tensors ? TG__STAR_TENSORS_MOST
                                    : 0;
    if (star->flags > 0x7f || behind < least || behind > most)
        return tg_fail(TG_E_CORRUPT,
                       "flags=%#x, %u bytes of coding or tensors: known are 0x7f; %u to %u",
                       star->flags, behind, least, most);
    star->coding = coded ? behind : 0;
    star->tensors = coded ? 0 : behind;
    if ((coded && star->combine != &tg__combine_mean) || (!coded && (star->flags & of_coding) != 0))
        return tg_fail(TG_E_CORRUPT,
                       "flags=%#x with combine=%s: 0x8 is of means alone, 0x30 goes with it",
                       star->flags, star->combine->name);
    if ((star->flags & of_parameters) != 0 && star->combine != &tg__combine_parameters)
        return tg_fail(TG_E_CORRUPT, "flags=%#x with combine=%s: 0x46 is of parameters alone",
                       star->flags, star->combine->name);
    if (star->begin > TG_MAX_ELEMENTS || !(star->rate >= 0 && star->rate <= 1e30))
        return tg_fail(TG_E_CORRUPT, "element %llu, rate %g: allowed: 0..%zu, 0..1e30",
                       (unsigned long long)star->begin, star->rate, TG_MAX_ELEMENTS);
    return TG_OK;
}

void tg__star_put_tail(uint8_t at[TG__STAR_TAIL], const tg__star_tail *tail)
{
    tg__put32(at, (uint32_t)tail->holds);
    tg__put32(at + 4, 0);
    tg__put64(at + 8, tail->number);
    tg__put64(at + 16, tail->step);
}

tg_status tg__star_read_tail(const uint8_t *payload, size_t len, tg__star_tail *tail)
{
    if (len < TG__FRAME_HEAD + TG__STAR_TAIL)
        return tg_fail(TG_E_CORRUPT, "an answer of %zu bytes: allowed: at least %u", len,
                       TG__FRAME_HEAD + TG__STAR_TAIL);
    const uint8_t *at = payload + len - TG__STAR_TAIL;
    const uint32_t holds = tg__get32(at), zero = tg__get32(at + 4);
    const uint64_t number = tg__get64(at + 8), step = tg__get64(at + 16);
    if (holds < TG__STAR_CHANGE || holds > TG__STAR_LATE || zero != 0)
        return tg_fail(TG_E_CORRUPT,
                       "an answer says that it is %u, %u: allowed: 1 (a change), 2 (parameters), 3 "
                       "(parameters, the gradient was late); 0",
                       holds, zero);
    if (number > TG__STAR_STEP_MOST || step > (holds == TG__STAR_LATE ? TG__STAR_STEP_MOST : 0) ||
        (number == 0 && holds == TG__STAR_CHANGE))
        return tg_fail(TG_E_CORRUPT,
                       "an answer with parameters %llu, step %llu: allowed: 0 to 2^53, a change "
                       "from 1 on; a step other than 0 only if the gradient was late",
                       (unsigned long long)number, (unsigned long long)step);
    *tail = (tg__star_tail){(enum tg__star_holds)holds, number, step};
    return TG_OK;
}

tg_status tg__star_frame(const uint8_t *payload, size_t len, const tg__star *star, size_t *len_p,
                         tg__star_texts *texts_p)
{
    const uint8_t *frame = payload + TG__STAR_HEAD;
    size_t rest = 0;
    len -= TG__STAR_HEAD;
    if ((star->flags & TG__STAR_CODED) != 0) {
        if (star->coding > len - TG__FRAME_HEAD)
            return tg_fail(TG_E_CORRUPT, "%u bytes of coding in %zu bytes", star->coding, len);
        rest = star->coding;
    } else if ((star->flags & (TG__STAR_TELLS | TG__STAR_TENSORS)) != 0) {
        const size_t n = tg__get32(frame + 4), tensors = star->tensors,
                     least = tensors + ((star->flags & TG__STAR_TELLS) != 0),
                     most = tensors + (least > tensors ? TG__STAR_SETTINGS_MOST : 0);
        rest = len - TG__MIN(len, n > TG_MAX_ELEMENTS ? len : TG__F32_BYTES(n));
        if (rest < least || rest > most)
            return tg_fail(TG_E_CORRUPT,
                           "%zu bytes of texts behind %zu parameters: allowed: %zu to %zu", rest, n,
                           least, most);
    }
    *len_p = len - rest;
    const char *behind = (const char *)frame + *len_p;
    const size_t tensors = star->tensors;
    if (texts_p != NULL)
        *texts_p =
            (tg__star_texts){{behind, tensors}, {behind + tensors, rest - tensors - star->coding}};
    return TG_OK;
}
