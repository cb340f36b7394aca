/* Codings of a server's answers: any bytes, as several messages about a vector. Each is refused, or
 * the vector is coded in a frame that is valid. A message is the id of the codec (the first one's
 * counts), flags, the length of its coding, a byte that scales the values, and the coding. */
#include "base/mem.h"
#include "server/gathering.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 96, MESSAGES = 8 };

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void code(tg__gathering *g, uint8_t scale)
{
    const size_t room = tg__recoder_room(g->recoder);
    uint8_t *frame = must(malloc(room));
    float *decoded = must(calloc(N, sizeof *decoded));
    size_t len;
    for (size_t i = 0; i < N; i++)
        tg__gathering_values(g)[i] = scale == 255 ? 3e38f : (float)((i * 37 + scale) % 19) - 9;
    if (tg__recoder_code(g->recoder, g, frame, room, &len) != TG_OK)
        abort();
    if (len > room || tg__frame_check(frame, len, N, g->codec) != TG_OK)
        abort();
    if (!tg__frame_decode_finite(frame, len, decoded, NULL))
        abort();
    free(decoded);
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg__recoder *list = NULL;
    tg__gathering *g = must(calloc(1, sizeof *g));
    g->answer = must(aligned_alloc(TG_ALIGN, 1024));
    g->n = N;
    if (size > 0)
        g->codec = data[0];
    for (int i = 0; i < MESSAGES && size >= 4 && tg__codec_by_id(g->codec) != NULL; i++) {
        const size_t len = TG__MIN((size_t)data[2] + 256u * (data[3] & 1), size - 4);
        g->flags = data[1] & 64 ? TG__FLAG_NONFINITE : 0;
        g->star = (tg__star){.flags = (uint16_t)(TG__STAR_CODED | (data[1] & 0x30)),
                             .coding = (uint32_t)len};
        g->id.step = (uint64_t)i;
        uint8_t *coding = must(malloc(len > 0 ? len : 1));
        memcpy(coding, data + 4, len);
        const tg_status status = tg__recoder_open(&list, g, coding);
        if (status == TG_OK)
            code(g, data[3]);
        else if (!*tg_error())
            abort();
        free(coding);
        data += 4 + len;
        size -= 4 + len;
    }
    tg__recoders_free(list);
    free(g->answer);
    free(g);
    return 0;
}
