/* Training with hostile ranks and a robust rule: prints one JSON line. Keys are those below.
 *
 *     bench_hostile run:attack=flip,hostile=3,mode=[sum:combine=median]
 *
 * bench/robust.py makes the table of docs/results/robust.md. */
#include "bench/robust/hostile_run.h"
#include "base/keys.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>

static const tg_key keys[] = {
    TG__KEY(SPEC, "mode", "sum", 0, 0, "of the server"),
    TG__CHOICE("attack", "none", "none|flip|scale|nan|little", "what hostile ranks send"),
    TG__KEY(INT, "hostile", "0", 0, 1000, "ranks that are"),
    TG__KEY(REAL, "z", "1.5", 0, 100, "of little: deviations"),
    TG__KEY(INT, "workers", "16", 1, 1000, "ranks"),
    TG__KEY(INT, "batch", "16", 1, 1e6, "samples of each in a step"),
    TG__KEY(INT, "steps", "300", 1, 1e9, "steps"),
    TG__KEY(INT, "seed", "1", 0, 1e15, "seed"),
    TG__KEY(SPEC, "model", "[mlp:hidden=64]", 0, 0, "network"),
    TG__KEY(SPEC, "data", "mnist", 0, 0, "data set"),
    TG__KEY(SPEC, "method", "[fp16:exchange=star]", 0, 0,
            "how gradients travel; fp16 is not cut into slices"),
    TG__KEY(SPEC, "optimizer", "[sgd:lr=0.05,momentum=0.9]", 0, 0, "of the ranks"),
    {.name = NULL},
};
static const tg_entry entry = {"run", "training with hostile ranks", "", keys};
static const tg_entry *const entries[] = {&entry};

static void print(const hostile_job *job, const hostile_result *result)
{
    printf("{\"mode\": ");
    tg__print_json(stdout, job->mode);
    printf(", \"attack\": \"%s\", \"hostile\": %d, \"workers\": %d, \"steps\": %" PRIu64
           ", \"seed\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"accuracy\": %.4f}\n",
           job->attack, job->hostile, job->workers, job->steps, job->seed, result->skipped,
           result->accuracy);
}

static tg_status run(const char *text)
{
    tg_spec *spec;
    hostile_result result;
    TG_TRY(tg_spec_parse("job", entries, TG_COUNT(entries), text, &spec));
    const hostile_job job = {.workers = (int)tg_spec_int(spec, "workers"),
                             .hostile = (int)tg_spec_int(spec, "hostile"),
                             .steps = (uint64_t)tg_spec_int(spec, "steps"),
                             .seed = (uint64_t)tg_spec_int(spec, "seed"),
                             .batch = (size_t)tg_spec_int(spec, "batch"),
                             .attack = tg_spec_word(spec, "attack"),
                             .data = tg_spec_word(spec, "data"),
                             .model = tg_spec_word(spec, "model"),
                             .method = tg_spec_word(spec, "method"),
                             .optimizer = tg_spec_word(spec, "optimizer"),
                             .mode = tg_spec_word(spec, "mode"),
                             .z = tg_spec_real(spec, "z")};
    tg_status status = job.hostile < job.workers
                           ? hostile_run(&job, &result)
                           : tg_fail(TG_E_SPEC, "hostile=%d of workers=%d: allowed: fewer",
                                     job.hostile, job.workers);
    if (status == TG_OK)
        print(&job, &result);
    tg_spec_free(spec);
    return status;
}

int main(int argc, char **argv)
{
    const tg_status status =
        argc == 2 ? run(argv[1]) : tg_fail(TG_E_SPEC, "usage: bench_hostile run:KEY=VALUE,...");
    if (status == TG_OK)
        return 0;
    fprintf(stderr, "bench_hostile: %s\n", tg_error());
    return status == TG_E_SPEC ? 2 : 1;
}
