/* Frames of sparse vectors with few magnitudes. */
#include "codec/sparse/level_frame.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "wire/index.h"
#include "telegrad/spec.h"
#include <string.h>

void tg__levels_init(tg__levels *l, const tg_codec *c)
{
    l->index = tg__index_named(tg_spec_word(c->spec, "index"));
}

/* Reserve a little more than requested, because k differs from step to step. */
tg_status tg__levels_reserve(tg_codec *c, tg__levels *l, size_t k)
{
    if (k <= l->room && l->idx)
        return TG_OK;
    size_t more = k + k / 4;
    TG_TRY(tg__scratch(c, &l->idx, more + TG__SELECT_SLACK, sizeof(*l->idx)));
    TG_TRY(tg__scratch(c, &l->val, more + TG__SELECT_SLACK, sizeof(*l->val)));
    TG_TRY(tg__scratch(c, &l->rebased, more, sizeof(*l->rebased)));
    l->room = more;
    return TG_OK;
}

tg_status tg__levels_write(const tg__levels *l, uint8_t wire_id, tg__part *parts, size_t nparts,
                           tg__view *view_p)
{
    const tg__sparse sparse = {
        .idx = l->idx, .val = l->val, .k = l->k, .values = TG__VALUES_LEVEL, .index = l->index};
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__sparse_write(&parts[i], wire_id, &sparse, l->rebased));
    if (view_p)
        *view_p = (tg__view){.sparse = true, .idx = l->idx, .val = l->val, .k = l->k};
    return TG_OK;
}

tg_status tg__levels_check(const tg__frame *f)
{
    if ((f->aux & 15) != TG__VALUES_LEVEL)
        return tg_fail(TG_E_CORRUPT, "sparse frame: aux=%#x: its values must be of coding %d",
                       f->aux, TG__VALUES_LEVEL);
    return tg__sparse_check(f);
}
