/* Computes the figures of a row from what the ranks report about their steps. */
#include "bench/exchange/exchange_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANK_VECTORS 7.0 /* (n) f32 per rank, about: gradients, memories, messages */
#define TARGET 1.3       /* for DGC: time over the bound, see bench_exchange_row */

double bench_frame_bytes(const tg__exchange *x)
{
    if (x->nparts == 0)
        return 0;
    double sum = TG__FRAME_HEAD;
    for (size_t i = 0; i < x->nparts; i++)
        sum += (double)(x->parts[i].len - TG__FRAME_HEAD);
    return sum;
}

/* The largest frame. Where frames differ (one rank leads), the links wait for the largest. */
static double largest_frame(const step_figures *ranks, int size, size_t round)
{
    double most = 0;
    for (int r = 0; r < size; r++)
        most = fmax(most, ranks[r].frame[round]);
    return most;
}

void bench_step_add(step_samples *s, const step_figures *ranks, int size, const step_round *rounds,
                    size_t nrounds)
{
    step_figures most = {0};
    if (s->count == BENCH_SAMPLES)
        return;
    for (int r = 0; r < size; r++) {
        most.ns = fmax(most.ns, ranks[r].ns);
        most.codec_ns = fmax(most.codec_ns, ranks[r].codec_ns);
        most.processor_ns = fmax(most.processor_ns, ranks[r].processor_ns);
        most.bytes = fmax(most.bytes, ranks[r].bytes);
        most.behind_ns = fmax(most.behind_ns, ranks[r].behind_ns);
    }
    s->ms[s->count] = most.ns * 1e-6;
    s->codec_ms[s->count] = most.codec_ns * 1e-6;
    s->processor_ms[s->count] = most.processor_ns * 1e-6;
    s->behind_ms[s->count] = most.behind_ns * 1e-6;
    s->count++;
    s->bytes += most.bytes;
    s->delays = 0;
    s->rounds = 0;
    for (size_t i = 0; i < nrounds; i++) {
        tg__cost cost;
        rounds[i].ops->cost(size, rounds[i].n, largest_frame(ranks, size, i), &cost);
        s->predicted += cost.bytes;
        s->serial += cost.serial;
        s->delays += cost.delays;
        s->rounds += cost.rounds;
    }
}

static bench_ratio summary(const double *x, size_t n)
{
    double sorted[BENCH_SAMPLES];
    memcpy(sorted, x, n * sizeof *sorted);
    return bench_summary(sorted, n);
}

/* ms to send these bytes one after the other; the slower end of the link sets the rate. */
static double serial_ms(const tg_link *link, double bytes)
{
    const double rate = link->up_bps == 0     ? link->down_bps
                        : link->down_bps == 0 ? link->up_bps
                                              : fmin(link->up_bps, link->down_bps);
    return rate > 0 ? bytes * 8e3 / rate : 0;
}

static bool is_dgc(const char *method)
{
    return strncmp(method, "dgc", 3) == 0 && (method[3] == ':' || method[3] == '\0');
}

void bench_step_row(const step_samples *s, const step_samples *without, bench_exchange_row *row)
{
    const double count = (double)s->count;
    const tg_link *link = &row->link->link;
    const double delay_ms = ((double)link->delay_ns + (double)link->jitter_ns / 2) * 1e-6;
    row->samples = s->count;
    row->ms = summary(s->ms, s->count);
    row->codec_ms = summary(without->codec_ms, without->count);
    row->processor_ms = summary(without->processor_ms, without->count).median;
    row->behind_ms = summary(s->behind_ms, s->count);
    row->rounds = s->rounds;
    row->delays = s->delays;
    row->bytes = s->bytes / count;
    row->bytes_predicted = s->predicted / count;
    row->wire_ms = row->bound_ms = row->ratio = row->bound_ratio = row->target = NAN;
    if (!row->link->text)
        return;
    row->wire_ms = s->delays * delay_ms + serial_ms(link, s->serial / count);
    row->ratio = row->ms.median / (row->wire_ms + row->codec_ms.median);
    row->bound_ms =
        (s->delays > 0 ? delay_ms : 0) + serial_ms(link, row->bytes) + row->codec_ms.median;
    row->bound_ratio = row->ms.median / row->bound_ms;
    row->target = is_dgc(row->method) && s->delays == 1 ? TARGET : (double)NAN;
}

tg_status bench_check_memory(const bench_exchange_options *o, size_t workers, double received)
{
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double here = o->connect ? 1 : (double)workers; /* others may run elsewhere */
    const double need = here * (RANK_VECTORS * 4 * (double)o->n + received);
    return need < have ? TG_OK
                       : tg_fail(TG_E_ARG,
                                 "%zu elements on %zu workers of this machine take about %.0f GB: "
                                 "allowed: fewer, it has %.0f GB",
                                 o->n, workers, need * 1e-9, have * 1e-9);
}
