#include "exchange/stream.h"
#include "base/mem.h"
#include "wire/frame.h"

#include <string.h>

size_t tg__stream_unit(int size, size_t cap)
{
    const size_t align = 64, least = (cap + TG__UNITS - 1) / TG__UNITS;
    return TG__MAX(tg__window_unit(size), (least + align - 1) / align * align);
}

void tg__stream_name(tg__wish *wish, uint32_t i, uint32_t units)
{
    uint32_t stride = 64;
    while (units > TG__UNITS / stride)
        stride /= 2;
    wish->slice = i * stride / 64;
    wish->round = (uint16_t)(i * stride % 64);
}

bool tg__incoming_wants(tg__incoming *in, int peer, uint8_t *room, size_t cap, size_t unit,
                        tg__wish *wish)
{
    if (in->wanted || (in->total > 0 && in->here == in->total))
        return false;
    in->wanted = true;
    *wish = (tg__wish){
        .peer = peer, .msg = room + in->here, .len = (in->total == 0 ? cap : in->total) - in->here};
    if (in->here > 0)
        memcpy(in->covered, wish->msg, sizeof in->covered);
    tg__stream_name(wish, (uint32_t)(in->here / unit), tg__units(cap, unit));
    return true;
}

tg_status tg__incoming_take(tg__incoming *in, int peer, uint8_t *room, size_t len, size_t cap,
                            size_t unit)
{
    if (in->here > 0)
        memcpy(room + in->here, in->covered, sizeof in->covered);
    if (in->here == 0 && len >= TG__FRAME_HEAD)
        in->total = TG__FRAME_HEAD + (size_t)tg__get32(room + TG__ENVELOPE_BYTES + 8);
    in->here += len;
    in->wanted = false;
    const bool whole = in->here == in->total, more = in->here < in->total && in->here % unit == 0;
    if (in->total > cap || len == 0 || !(whole || more))
        return tg_fail(TG_E_CORRUPT,
                       "frame from rank %d: %zu of the %zu bytes that its head announces have "
                       "come: must be all, or a multiple of %zu up to %zu",
                       peer, in->here, in->total, unit, cap);
    return TG_OK;
}
