/* A small, urgent exchange that is launched behind a large one. */
#include "base/mem.h"
#include "bench/exchange/exchange_impl.h"
#include <stdlib.h>

struct behind {
    tg_codec *f32;
    tg__exchange *x;
    float *g; /* (n) */
    tg__flight flight;
};

static tg_status fill(behind *b, int rank, int size, size_t n)
{
    TG_TRY(tg_alloc(n, sizeof *b->g, &b->g));
    TG_TRY(tg_codec_create("f32", &b->f32));
    return tg__exchange_create(tg__exchange_find("direct"), rank, size, n, b->f32,
                               &tg__combine_mean, &b->x);
}

tg_status behind_open(int rank, int size, size_t n, behind **b_p)
{
    TG_TRY(tg_alloc(1, sizeof **b_p, b_p));
    return fill(*b_p, rank, size, n);
}

tg_status behind_run(behind *b, tg__pump *p, const tg__flight *large, uint32_t sequence,
                     double *ns_p)
{
    tg__task task = {0};
    TG_TRY(tg__put_values(b->x, b->g, &task));
    b->flight.x = b->x;
    b->flight.priority = large->priority - 1;
    b->flight.sequence = sequence;
    b->flight.step = large->step;
    b->flight.bucket = (uint16_t)(large->bucket + 1);
    TG_TRY(tg__pump_launch(p, &b->flight));
    while (!b->flight.finished)
        TG_TRY(tg__pump_run(p, INT64_MAX));
    *ns_p = (double)(b->flight.end_ns - b->flight.begin_ns);
    return TG_OK;
}

void behind_close(behind *b)
{
    if (!b)
        return;
    tg__flight_fini(&b->flight);
    tg__exchange_destroy(b->x);
    tg_codec_destroy(b->f32);
    free(b->g);
    free(b);
}
