#include "command/job/options_check.h"
#include "command/job/launch.h"
#include "command/output/outfile.h"
#include "telegrad/transport.h"
#include <inttypes.h>

/* Refuse options that need gradients, weights or ranks, which do not exist with --sim-only. */
static tg_status check_sim_only(const struct run_options *o)
{
    static const char *const no[] = {"save",           "resume", "init",  "trace",
                                     "dump-gradients", "fault",  "nodes", "dry-run"};
    if (!o->sim_only)
        return o->workers <= TG_RANKS_MAX
                   ? TG_OK
                   : tg_fail(TG_E_SPEC,
                             "--workers %" PRIu64 ": allowed: 1 to %d, or with --clock virtual "
                             "--sim-only to %d",
                             o->workers, TG_RANKS_MAX, TG_SIM_WORLD_MAX);
    if (!o->virtual_clock || !options_given(o, "tau"))
        return tg_fail(TG_E_SPEC, "--sim-only: allowed: with --clock virtual and --tau measured, "
                                  "TIME or FILE");
    if (o->fusion == OPT_FUSION_AUTO)
        return tg_fail(TG_E_SPEC, "--sim-only with --fusion auto, which is measured between ranks: "
                                  "allowed: BYTES");
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (options_given(o, no[i]))
            return tg_fail(TG_E_SPEC,
                           "--sim-only with --%s: nothing is computed or sent: allowed: "
                           "one of the two",
                           no[i]);
    return TG_OK;
}

/* Check simulated time, and options that only make sense with it. */
static tg_status check_clock(const struct run_options *o, bool mpi)
{
    static const char *const own[] = {"tau", "slow", "jitter"};
    TG_TRY(check_sim_only(o));
    if (o->virtual_clock && mpi)
        return tg_fail(TG_E_SPEC, "--clock virtual under mpirun: its workers are threads of one "
                                  "process: allowed: --workers N without mpirun");
    for (size_t i = 0; !o->virtual_clock && i < sizeof own / sizeof own[0]; i++)
        if (options_given(o, own[i]))
            return tg_fail(TG_E_SPEC, "--%s without --clock virtual: allowed: with it", own[i]);
    for (size_t i = 0; i < o->slow_count; i++)
        if ((uint64_t)o->slow[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--slow %d:...: allowed: ranks 0 to %" PRIu64,
                           o->slow[i].rank, o->workers - 1);
    for (size_t i = 0; !mpi && i < o->links_of_count; i++)
        if (o->links_of[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--link-of %" PRIu64 "=...: allowed: ranks 0 to %" PRIu64,
                           o->links_of[i].rank, o->workers - 1);
    return TG_OK;
}

/* Check that no output replaces another file. Folders hold files of other names. */
static tg_status check_files(const struct run_options *o)
{
    const struct {
        const char *option, *path;
    } files[] = {{"out", outfile_is_stdout(o->out) ? NULL : o->out},
                 {"trace", o->trace},
                 {"save", o->save_dir},
                 {"dump-gradients", o->dump_gradients},
                 {"resume", o->resume_dir},
                 {"init", o->init},
                 {"tau", o->tau_ns == 0 ? o->tau : NULL}};
    enum { WRITTEN = 2 }; /* the first WRITTEN names are files */
    if (outfile_is_stdout(o->trace))
        return tg_fail(TG_E_SPEC, "--trace -: allowed: a file; only --out takes - for the standard "
                                  "output (./- is a file of that name)");
    for (size_t i = 0; i < WRITTEN; i++)
        for (size_t k = i + 1; files[i].path && k < sizeof files / sizeof files[0]; k++)
            if (files[k].path && outfile_same(files[i].path, files[k].path))
                return tg_fail(TG_E_SPEC,
                               "--%s \"%.64s\": it is that of --%s: allowed: one of its own",
                               files[i].option, files[i].path, files[k].option);
    return TG_OK;
}

/* Some combinations are refused only by a session (two different momenta), so create one before any
 * work is done. */
static tg_status check_session(const struct run_options *o)
{
    tg_session_config config = {.struct_size = sizeof config,
                                .overlap = o->overlap,
                                .method = o->method,
                                .rules = o->rules,
                                .nrules = o->rule_count,
                                .strategy = o->strategy,
                                .optimizer = options_optimizer(o),
                                .seed = o->seed,
                                .steps_per_epoch = 1000, /* any number: for durations in epochs */
                                .driver = TG_DRIVER_INLINE};
    tg_transport *t = NULL;
    tg_session *s = NULL;
    TG_TRY(tg_transport_inproc(1, &t));
    tg_status status = tg_session_create(&config, t, &s);
    if (status == TG_OK)
        tg_session_destroy(s);
    tg_transport_destroy(t);
    return status;
}

tg_status options_check_length(const struct run_options *o)
{
    if (o->steps == 0 || o->epochs == 0 || !options_given(o, "steps") ||
        !options_given(o, "epochs"))
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "--steps %" PRIu64 " with --epochs %" PRIu64
                   ": each says how long the run is: allowed: one of the two",
                   o->steps, o->epochs);
}

tg_status options_check(const struct run_options *o, bool mpi)
{
    if (mpi && options_given(o, "workers"))
        return tg_fail(TG_E_SPEC,
                       "--workers %" PRIu64 ": not allowed under mpirun or srun --mpi, where each "
                       "process is one worker: allowed: mpirun -n N, srun -n N",
                       o->workers);
    if (!options_given(o, "workers"))
        TG_TRY(launch_check_alone());
    if (!mpi)
        for (size_t i = 0; i < o->fault_count; i++)
            if (o->faults[i].rank >= o->workers)
                return tg_fail(TG_E_SPEC, "--fault %" PRIu64 "=%.64s: allowed: ranks 0 to %" PRIu64,
                               o->faults[i].rank, o->faults[i].spec, o->workers - 1);
    TG_TRY(check_clock(o, mpi));
    if (o->nodes == OPT_NODES_AUTO && !mpi)
        return tg_fail(TG_E_SPEC, "--nodes auto without mpirun, which knows the machines: allowed: "
                                  "--nodes N, of N workers each");
    if (o->epochs == 0 && o->steps == 0)
        return tg_fail(TG_E_SPEC, "--epochs 0 without --steps: nothing to do: allowed: "
                                  "--epochs 1 or more, or --steps N");
    if (o->init && o->resume_dir)
        return tg_fail(TG_E_SPEC,
                       "--init with --resume, which has weights of its own: allowed: one "
                       "of them");
    if (o->save_every && !o->save_dir)
        return tg_fail(TG_E_SPEC,
                       "--save-every %" PRIu64 " without --save: allowed: with --save DIR",
                       o->save_every);
    if (o->json && !o->dry_run)
        return tg_fail(TG_E_SPEC, "--json without --dry-run: allowed: with --dry-run; the records "
                                  "of a run are --out FILE");
    if (o->dry_run && (o->out || o->save_dir || o->trace || o->dump_gradients))
        return tg_fail(TG_E_SPEC, "--dry-run with --out, --save, --trace or --dump-gradients: "
                                  "nothing is trained, so there is nothing to write");
    if (o->dump_every && !o->dump_gradients)
        return tg_fail(TG_E_SPEC,
                       "--dump-every %" PRIu64
                       " without --dump-gradients: allowed: with --dump-gradients DIR",
                       o->dump_every);
    TG_TRY(check_files(o));
    return check_session(o);
}
