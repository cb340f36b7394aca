/* Any bytes as the payload of a coded frame of the codec FUZZ_CODEC. They are refused, or decoded
 * within the vector, with the same result in every way of decoding. */
#include "fuzz_tools.h"

enum { MAX_N = 3 * TG__CHUNK, MAX_PAYLOAD = 1 << 19 };

static void decode(const tg__codec_ops *ops, const uint8_t *bytes, size_t len, size_t n)
{
    float *whole = fuzz_floats(n), *sum = fuzz_floats(n), *ranges = fuzz_floats(n);
    for (size_t i = 0; i < n; i++)
        whole[i] = ranges[i] = 7; /* must be overwritten completely */
    tg__frame_decode(bytes, len, whole, NULL);
    tg__frame_decode_add(bytes, len, sum, NULL);
    for (size_t i = 0; i < n; i++)
        if (whole[i] == whole[i] ? whole[i] != sum[i] : sum[i] == sum[i])
            abort();
    tg__frame f;
    if (tg__frame_split(bytes, len, n, &f) != TG_OK)
        abort();
    for (size_t hi = n;
         hi > 0 && !(ops->properties & TG__WHOLE);) { /* from the last to the first */
        size_t lo = (hi - 1) / TG__CHUNK * TG__CHUNK;
        ops->decode(&f, lo, hi, ranges, false);
        hi = lo;
    }
    if (!(ops->properties & TG__WHOLE) && n > 0 && memcmp(whole, ranges, n * sizeof *whole) != 0)
        abort();
    free(whole);
    free(sum);
    free(ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FUZZ_DECODE_HEAD)
        return 0;
    const tg__codec_ops *ops = tg__codec_by_id(FUZZ_CODEC);
    const uint8_t *payload = data + FUZZ_DECODE_HEAD;
    size_t n = tg__get32(data + 2), have = size - FUZZ_DECODE_HEAD;
    size_t len = tg__get32(data + 6) % MAX_PAYLOAD;
    if (n > MAX_N)
        return 0;
    if (len == 0 || have == 0)
        len = have;
    uint8_t *frame = fuzz_copy(NULL, TG__FRAME_HEAD + len);
    tg__frame_head(frame, FUZZ_CODEC, TG__FORM_CODED, tg__get16(data), n, len);
    for (size_t i = 0; i < len; i++)
        frame[TG__FRAME_HEAD + i] = payload[i % have];
    tg_status status = tg__frame_check(frame, TG__FRAME_HEAD + len, n, FUZZ_CODEC);
    if (status == TG_OK)
        decode(ops, frame, TG__FRAME_HEAD + len, n);
    else if (status != TG_E_CORRUPT && status != TG_E_MISMATCH)
        abort();
    fuzz_refused(status);
    free(frame);
    return 0;
}
