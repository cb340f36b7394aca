/* The list of codecs, made from codecs.def. */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "telegrad/spec.h"

#define TG_CODEC(name, id) &tg__codec_##name,
static const tg__codec_ops *const all[] = {
#include "codec/codecs.def"
};
#undef TG_CODEC

#define TG_CODEC(name, id) &tg__codec_##name.entry,
static const tg_entry *const entries[] = {
#include "codec/codecs.def"
};
#undef TG_CODEC

const tg__codec_ops *const *tg__codecs(size_t *count_p)
{
    *count_p = TG_COUNT(all);
    return all;
}

const tg_entry *const *tg__codec_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

const tg__codec_ops *tg__codec_by_id(uint8_t wire_id)
{
    for (size_t i = 0; i < TG_COUNT(all); i++)
        if (all[i]->wire_id == wire_id)
            return all[i];
    return NULL;
}
