#include "exchange/star_cost.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include "exchange/star.h"
#include "exchange/star_coding.h"
#include "transport/worker.h"

bool tg__star_cuts(const tg_codec *codec)
{
    return (codec->ops->properties & TG__LOSSLESS) != 0;
}

uint32_t tg__star_slices(size_t n, int servers)
{
    const double block = 4.0 * (double)n / servers, slice = (double)TG__STAR_SLICE_BYTES;
    if (block < 2 * slice)
        return 1;
    return block < TG__SLICES * slice ? (uint32_t)(block / slice) + 1 : TG__SLICES;
}

tg__star_load tg__star_load_of(size_t n, double frame, bool cuts, bool coded,
                               const tg__star_net *net)
{
    const double dense = 4.0 * (double)n;
    const uint32_t slices = cuts && !coded ? tg__star_slices(n, net->servers) : 1;
    const double messages = (double)net->servers * slices,
                 answer = (coded ? frame - TG__FRAME_HEAD : dense) +
                          messages * (TG__ENVELOPE_BYTES + TG__FRAME_HEAD),
                 bytes = frame - TG__FRAME_HEAD +
                         messages * (TG__WORKER_STAMP + TG__ENVELOPE_BYTES + TG__STAR_HEAD +
                                     (coded ? TG__CODING_STEP : 0) + TG__FRAME_HEAD);
    return (tg__star_load){.push = bytes * net->up,
                           .pull = answer * net->down,
                           .in = bytes / net->servers * net->server_down,
                           .out = answer / net->servers * net->server_up,
                           .slices = slices,
                           .servers = net->servers,
                           .bytes = bytes,
                           .answer = answer};
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

double tg__star_seconds(const tg__star_load *load, double ranks, double delay)
{
    const double q = load->slices, S = load->servers;
    if (load->slices == 1) {
        const double first = most((ranks - 1) * load->out + most(load->in, load->push),
                                  ranks * load->in),
                     ahead = first > load->push + (ranks - 1) * load->out
                                 ? 0
                                 : load->push * (S - 1) / S;
        return 2 * delay + first + most(load->out, most(load->pull / S, load->pull - ahead));
    }
    const double in = most(ranks * load->in, load->push), out = most(ranks * load->out, load->pull);
    const uint32_t turns = (load->slices + TG__STAR_OPEN - 1) / TG__STAR_OPEN;
    return most(2 * delay + most(in + out / q, in / q + out), 2 * delay * turns + (in + out) / q);
}
