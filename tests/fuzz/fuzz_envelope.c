/* Any bytes as a message. It is refused as a whole; sealed again with the same fields, it opens. */
#include "base/mem.h"
#include "wire/envelope.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *msg = malloc(size ? size : 1);
    if (!msg)
        abort();
    if (size > 0)
        memcpy(msg, data, size);
    tg__envelope want = {.sender = 3};
    uint16_t flags;
    size_t len;
    if (size >= TG__ENVELOPE_BYTES) {
        want.session = tg__get64(msg + 8);
        want.step = tg__get64(msg + 16);
        want.sender = tg__get32(msg + 24);
        want.bucket = tg__get16(msg + 28);
        want.round = tg__get16(msg + 30);
        want.slice = tg__get16(msg + 32);
        want.channel = tg__get16(msg + 34);
        want.flags = tg__get16(msg + 6);
    }
    tg_status status = tg__envelope_open(msg, size, &want, &flags, &len);
    if (status == TG_OK ? len != size - TG__ENVELOPE_BYTES : !*tg_error())
        abort();
    if (size >= TG__ENVELOPE_BYTES) {
        tg__envelope_seal(msg, &want, size - TG__ENVELOPE_BYTES);
        status = tg__envelope_open(msg, size, &want, &flags, &len);
        if (status != (want.flags > 7 ? TG_E_CORRUPT : TG_OK) ||
            (status == TG_OK && flags != want.flags))
            abort();
        want.step++;
        if (want.flags <= 7 && tg__envelope_open(msg, size, &want, &flags, &len) != TG_E_PEER)
            abort();
    }
    free(msg);
    return 0;
}
