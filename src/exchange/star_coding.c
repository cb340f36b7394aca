#include "exchange/star_coding.h"
#include "base/mem.h"
#include "codec/sign/strips.h"
#include <float.h>
#include <string.h>

static void put_real(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tg__put64(at, bits);
}

static double get_real(const uint8_t *at)
{
    const uint64_t bits = tg__get64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The next of the list, if it has room. */
static void put_segment(uint8_t *list, size_t *count, size_t room, size_t rows, size_t cols)
{
    uint8_t *at = list + *count * TG__CODING_SEGMENT;
    if (*count < room) {
        tg__put32(at, (uint32_t)(rows * cols));
        tg__put32(at + 4, (uint32_t)rows);
        tg__put32(at + 8, (uint32_t)cols);
    }
    *count += 1;
}

/* The tensors as the part cuts them. Codecs of columns and rows see what is left of a matrix as
 * matrices; to others, a tensor that is cut is a vector. */
static size_t put_segments(const tg__exchange *x, const tg__part *part, uint8_t *list, size_t room)
{
    size_t count = 0;
    if (x->codec->ops->encode_part == tg__strips_encode) {
        tg__strip strip;
        for (tg__strips s = tg__strips_of(&x->context, part, 2, false);
             tg__strips_next(&s, &strip);)
            put_segment(list, &count, room, s.run.of.cols == 1 ? strip.cols : strip.rows,
                        s.run.of.cols == 1 ? 1 : strip.cols);
        return count;
    }
    for (tg__run r = tg__run_first(&x->context, part); r.lo < part->hi; r = tg__run_next(&r)) {
        const bool whole = r.hi - r.lo == r.of.n;
        if (r.lo < r.hi)
            put_segment(list, &count, room, whole ? r.of.rows : r.hi - r.lo, whole ? r.of.cols : 1);
    }
    return count;
}

tg_status tg__coding_write(const tg__exchange *x, const tg__part *part, bool first, uint32_t stream,
                           uint8_t *at, uint32_t *len_p)
{
    const char *spec = tg_spec_text(x->codec->spec);
    const size_t len = strlen(spec);
    put_real(at, x->context.density);
    put_real(at + 8, x->factor);
    *len_p = TG__CODING_STEP;
    if (!first)
        return TG_OK;
    if (len > TG__CODING_SPEC_MOST)
        return tg_fail(TG_E_UNSUPPORTED, "exchange=twoway: a codec of %zu characters: allowed: %u",
                       len, TG__CODING_SPEC_MOST);
    const size_t room = (TG__CODING_MOST - TG__CODING_FIRST - len) / TG__CODING_SEGMENT,
                 count = put_segments(x, part, at + TG__CODING_FIRST + len, room);
    if (count > room)
        return tg_fail(TG_E_UNSUPPORTED,
                       "exchange=twoway: %zu tensors in a server's part of a bucket: allowed: "
                       "%zu: use smaller buckets",
                       count, room);
    tg__put64(at + 16, x->context.rng.seed);
    tg__put32(at + 24, stream);
    tg__put32(at + 28, x->context.rng.tensor);
    tg__put32(at + 32, (uint32_t)len);
    tg__put32(at + 36, (uint32_t)count);
    memcpy(at + TG__CODING_FIRST, spec, len);
    *len_p = (uint32_t)(TG__CODING_FIRST + len + count * TG__CODING_SEGMENT);
    return TG_OK;
}

static tg_segment segment_of(const uint8_t *at)
{
    return (tg_segment){.n = tg__get32(at), .rows = tg__get32(at + 4), .cols = tg__get32(at + 8)};
}

static tg_status check_segments(const tg__coding *c, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < c->nsegments; i++) {
        const tg_segment s = segment_of(c->segments + i * TG__CODING_SEGMENT);
        if (s.n == 0 || s.n > n - sum || s.rows > s.n || s.cols > s.n || s.rows * s.cols != s.n)
            return tg_fail(TG_E_CORRUPT,
                           "tensor %zu of a coding: %zu elements, %zu x %zu: allowed: rows x "
                           "columns, 1 to %zu",
                           i, s.n, s.rows, s.cols, n - sum);
        sum += s.n;
    }
    return sum == n
               ? TG_OK
               : tg_fail(TG_E_CORRUPT, "tensors of %zu elements in a coding: expected %zu", sum, n);
}

tg_status tg__coding_read(const uint8_t *at, size_t len, bool first, size_t n, tg__coding *c)
{
    *c = (tg__coding){.segments = NULL};
    const size_t least = first ? TG__CODING_FIRST : TG__CODING_STEP;
    if (len < least || (!first && len > least))
        return tg_fail(TG_E_CORRUPT, "a coding of %zu bytes: expected %zu%s", len, least,
                       first ? " or more" : "");
    c->density = get_real(at);
    c->factor = get_real(at + 8);
    if (!(c->density >= 0 && c->density <= 1) || !(c->factor >= 0 && c->factor <= FLT_MAX))
        return tg_fail(TG_E_CORRUPT, "density %g, factor %g in a coding: allowed: 0..1, 0..%g",
                       c->density, c->factor, (double)FLT_MAX);
    if (!first)
        return TG_OK;
    const size_t spec = tg__get32(at + 32), count = tg__get32(at + 36);
    if (spec > TG__CODING_SPEC_MOST || spec > len - least || count > len ||
        len != least + spec + count * TG__CODING_SEGMENT)
        return tg_fail(TG_E_CORRUPT, "a coding of %zu bytes: a spec of %zu, %zu tensors", len, spec,
                       count);
    memcpy(c->spec, at + least, spec);
    c->rng = (tg_rng_key){.seed = tg__get64(at + 16),
                          .purpose = TG_PURPOSE_OWNER,
                          .rank = tg__get32(at + 24),
                          .tensor = tg__get32(at + 28)};
    c->segments = at + least + spec;
    c->nsegments = count;
    return check_segments(c, n);
}

void tg__coding_segments(const tg__coding *c, tg_segment *segments)
{
    size_t begin = 0;
    for (size_t i = 0; i < c->nsegments; i++) {
        segments[i] = segment_of(c->segments + i * TG__CODING_SEGMENT);
        segments[i].begin = begin;
        begin += segments[i].n;
    }
}
