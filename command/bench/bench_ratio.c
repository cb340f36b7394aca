#include "command/bench/bench_ratio.h"
#include "command/output/jsonl.h"

json_t *bench_ratio_json(const bench_ratio *r)
{
    return json_pack("{s:o, s:o, s:o}", "median", jsonl_real(r->median), "min", jsonl_real(r->min),
                     "max", jsonl_real(r->max));
}
