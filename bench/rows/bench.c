#include "bench/rows/bench_impl.h"
#include "base/mem.h"
#include <sched.h>

enum { N_MIN = 1000 };

bool bench_level_exists(const char *level)
{
    return tg__kernel_level(level) != NULL;
}

void bench_pin(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : (unsigned)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        tg_log(TG_LOG_WARN, "bench: cannot stay on one core: times will vary more");
}

tg_status bench_prepare(const bench_options *o)
{
    TG_TRY(tg__kernel_check());
    for (size_t i = 0; i < o->count; i++)
        if (o->n[i] < N_MIN || o->n[i] > TG_MAX_ELEMENTS)
            return tg_fail(TG_E_ARG, "n=%zu: allowed: %d to %zu", o->n[i], N_MIN, TG_MAX_ELEMENTS);
    if (o->threads == 1)
        bench_pin();
    return TG_OK;
}

static tg_status one_size(bench *b)
{
    TG_TRY(bench_targets(b));
    TG_TRY(bench_methods(b));
    TG_TRY(bench_indices(b));
    return bench_kernels(b);
}

static bool any_row(const char *filter)
{
    return bench_any_target(filter) || bench_any_method(filter) || bench_any_index(filter) ||
           bench_any_kernel(filter);
}

tg_status bench_codec(const bench_options *o)
{
    TG_TRY(bench_prepare(o));
    if (!any_row(o->filter)) /* drawing gradients takes seconds */
        return TG_OK;
    for (size_t i = 0; i < o->count; i++) {
        bench b;
        TG_TRY(bench_open(&b, o, o->n[i]));
        tg_status status = one_size(&b);
        bench_close(&b);
        TG_TRY(status);
    }
    return TG_OK;
}
