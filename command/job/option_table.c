#include "command/job/option_table.h"
#include "telegrad/transport.h"
#include <stdint.h>

#define AT(member) offsetof(struct run_options, member)
#define BOTH (OPT_TRAIN | OPT_COMPARE)
#define ALL (OPT_TRAIN | OPT_COMPARE | OPT_TUNE)
#define EVERY (ALL | OPT_RUN)

#define TOLERATE                                                                                \
    "To tolerate wrong gradients, add combine=median, combine=clipped, combine=trimmed,f=1 or " \
    "combine=krum,f=1 to sum or sync, e.g. sum:combine=median"
#define SERVERS_DO                                                                              \
    "what servers do with gradients: sum (the default); with --strategy server sync (then the " \
    "default) or async, e.g. async:staleness=4,compensate=0.04. " TOLERATE                      \
    ". dist_sync and dist_async, MXNet's names, are sync and async"
#define TWO_LEVELS \
    "exchange on two levels, within and between nodes: ranks per node (not the number of nodes)"
#define HOW_CONNECTED                                                                           \
    "how workers are connected: as threads of this process, as processes started by mpirun or " \
    "srun"

const struct option_def option_table[] = {
    {.o = {.help = "Model and data"}, ALL},
    {.o = {"model", 0, "SPEC", "lenet5", "models", "network to train: see telegrad models"},
     ALL | OPT_EVAL | OPT_VARY,
     FORM_MODEL,
     AT(model)},
    {.o = {"data", 0, "SPEC", "mnist if found, else glyphs", "data",
           "data to train and test on (for models of text, the model's own by default): see "
           "telegrad data"},
     ALL | OPT_EVAL,
     FORM_TEXT,
     AT(data)},
    {.o = {"holdout", 0, "N", NULL, NULL,
           "test on the last N training images, or tokens of a text, instead of the test set"},
     ALL | OPT_EVAL,
     FORM_COUNT,
     AT(holdout),
     .max = 1e9},
    {.o = {"context", 0, "N", "the model's, or 35", NULL, "tokens in each sample of a text"},
     ALL | OPT_EVAL | OPT_VARY,
     FORM_COUNT,
     AT(context),
     .min = 1,
     .max = 65536},
    {.o = {"shard", 0, "SPEC", "iid", "iid|dirichlet|label|contiguous",
           "how the workers share the training data: iid, dirichlet:alpha=0.5, label:classes=2, "
           "contiguous"},
     ALL,
     FORM_SHARD,
     AT(shard)},
    {.o = {"batch", 0, "N", "32", NULL, "samples per worker in each batch"},
     ALL | OPT_EVAL | OPT_VARY,
     FORM_COUNT,
     AT(batch),
     .min = 1,
     .max = 1e6},

    {.o = {.help = "Compression and strategy"}, ALL},
    {.o = {"method", 0, "SPEC", "the strategy's, usually dense", "methods",
           "how gradients are compressed, e.g. dgc:density=0.001: see telegrad methods"},
     EVERY | OPT_VARY,
     FORM_SPEC,
     AT(method),
     TG_KIND_METHOD},
    {.o = {"rule", 0, "PATTERN=METHOD", NULL, NULL,
           "compress tensors whose name matches PATTERN by another method, e.g. '*.bias=f32'; "
           "repeatable"},
     EVERY,
     FORM_RULE,
     AT(rules)},
    {.o = {"strategy", 0, "SPEC", "ssgd", "strategies",
           "when workers exchange and what they apply, e.g. od, or cd:k=5 with --method 2bit: see "
           "telegrad strategies. With momentum or Adam, most methods with a residual use updates"},
     EVERY | OPT_VARY,
     FORM_SPEC,
     AT(strategy),
     TG_KIND_STRATEGY},

    {.o = {.help = "Optimizer and precision"}, ALL},
    {.o = {"optimizer", 0, "SPEC", OPT_OPTIMIZER, "optimizers",
           "update rule and its learning rate: see telegrad optimizers. Language models have adam "
           "or adamw: see telegrad models"},
     EVERY | OPT_VARY,
     FORM_SPEC,
     AT(optimizer),
     TG_KIND_OPTIMIZER},
    {.o = {"lr", 0, "RATE", NULL, NULL, "learning rate of the optimizer"},
     EVERY | OPT_VARY,
     FORM_LR,
     AT(lr)},
    {.o = {"lr-schedule", 0, "SPEC", "constant", "lr-schedules",
           "how the learning rate changes: see telegrad lr-schedules"},
     EVERY | OPT_VARY,
     FORM_SPEC,
     AT(lr_schedule),
     TG_KIND_LR_SCHEDULE},
    {.o = {"lr-scale", 0, "none|sqrt|linear", "none", NULL,
           "multiply the learning rate by workers x accumulated batches (linear) or by the square "
           "root of that"},
     EVERY | OPT_VARY,
     FORM_SCALE,
     AT(lr_scale)},
    {.o = {"accumulate", 0, "N", "1", NULL, "batches per worker in each step"},
     EVERY | OPT_VARY,
     FORM_COUNT,
     AT(accumulate),
     .min = 1,
     .max = 1e6},
    {.o = {"precision", 0, "fp32|bf16", "fp32", NULL,
           "number format of forward and backward passes"},
     EVERY | OPT_EVAL | OPT_VARY,
     FORM_PRECISION,
     AT(precision)},

    {.o = {.help = "Length of a run"}, ALL},
    {.o = {"epochs", 0, "N", "1", NULL, "passes over the training data"},
     ALL,
     FORM_COUNT,
     AT(epochs),
     .min = 1,
     .max = 1e9},
    {.o = {"steps", 0, "N", NULL, NULL, "steps to train, instead of --epochs"},
     EVERY,
     FORM_COUNT,
     AT(steps),
     .min = 1,
     .max = 1e12},
    {.o = {"no-eval", 0, NULL, NULL, NULL, "never test"}, BOTH, FORM_NO_EVAL, AT(evaluate)},
    {.o = {"seed", 0, "N", "1", NULL,
           "seed of the initial weights, the order of samples and all other random choices"},
     ALL,
     FORM_COUNT,
     AT(seed),
     .max = (double)INT64_MAX},

    {.o = {.help = "Workers and network"}, ALL},
    {.o = {"workers", 0, "N", "1", NULL,
           "threads of this process that train; under mpirun, or with --listen and --join, each "
           "process is a worker instead"},
     ALL,
     FORM_WORKERS,
     AT(workers),
     .min = 1,
     .max = TG_RANKS_MAX},
    {.o = {"servers", 0, "N", "0", NULL,
           "servers that sum the gradients, in addition to the workers, for methods with "
           "exchange=star (then the default): threads of this process, or under mpirun the last N "
           "processes"},
     EVERY,
     FORM_COUNT,
     AT(servers),
     .max = TG_SERVERS_MAX},
    {.o = {"server-mode", 0, "MODE", NULL, NULL,
           SERVERS_DO ". With --server: what the server's own --mode must be"},
     EVERY,
     FORM_MODE,
     AT(server_mode)},
    {.o =
         {"server-deadline", 0, "TIME", "none", NULL,
          "with --strategy server and mode sync: a step waits so long, from its first gradient on, "
          "for those of other workers, e.g. 500ms or 2s. A worker that is late keeps its gradient "
          "for its next one, and goes on where the others are"},
     BOTH | OPT_RUN,
     FORM_SECONDS,
     AT(server_deadline),
     .min = 0.001,
     .max = OPTION_MAX_TIMEOUT},
    {.o = {"server", 0, "tcp://HOST:PORT", NULL, NULL,
           "train as a worker of telegrad serve at this address, with strategy server; for several "
           "servers, give their addresses in the order of their shards, separated by commas"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(net.server)},
    {.o = {"server-key", 0, "tgk1:...", NULL, NULL,
           "with --server and --key: the public key of each server, separated by commas"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(net.server_key)},
    {.o = {"anew", 0, NULL, NULL, NULL,
           "with --server: if no other worker is connected, count steps from 0; the servers' "
           "parameters stay"},
     OPT_TRAIN,
     FORM_FLAG,
     AT(anew)},
    {.o = {"transport", 0, "inproc|mpi|tcp|servers", NULL, NULL,
           HOW_CONNECTED ", as processes connected by --listen and --join, or to servers alone by "
                         "--server (default: detected)"},
     BOTH,
     FORM_TRANSPORT,
     AT(transport)},
    {.o = {"nodes", 0, "auto|N", NULL, NULL, TWO_LEVELS ", or auto: one node per machine"},
     EVERY,
     FORM_NODES,
     AT(nodes),
     .min = 1,
     .max = TG_RANKS_MAX},
    {.o = {"link", 0, "LINK", NULL, NULL,
           "emulate a link: 100mbit,20ms, one of the two, or up=5mbit,down=50mbit,delay=9ms"},
     EVERY,
     FORM_LINK,
     AT(link)},
    {.o = {"link-of", 0, "RANK=LINK", NULL, NULL, "link of one rank; repeatable"},
     ALL,
     FORM_LINK_OF,
     AT(links_of)},
    {.o = {"overlap", 0, "full|backward|none", "full", NULL,
           "what exchanges overlap with: the rest of the backward pass, with full the next forward "
           "pass as well, or nothing; results are the same. A model of one bucket (--fusion) has "
           "nothing to overlap"},
     EVERY,
     FORM_OVERLAP,
     AT(overlap)},
    {.o = {"fusion", 0, "BYTES|auto|lags", "25M", NULL,
           "size of the buckets in which tensors are exchanged, e.g. 4M; auto measures the best; "
           "lags also gives each bucket the density that the backward pass hides"},
     EVERY,
     FORM_FUSION,
     AT(fusion),
     .min = 1,
     .max = 4294967296.0},
    {.o = {"driver", 0, "auto|thread|inline", "auto", NULL,
           "what drives exchanges: a separate thread, or the training thread between layers "
           "(inline)"},
     ALL,
     FORM_DRIVER,
     AT(driver)},
    {.o = {"codec-threads", 0, "N", "1", NULL, "threads that compress, per worker"},
     ALL,
     FORM_COUNT,
     AT(codec_threads),
     .min = 1,
     .max = 256},
    {.o = {"timeout", 0, "SECONDS", "60", NULL,
           "how long to wait for another rank, e.g. 60 or 2min; also for all to meet over a "
           "network or under mpirun, and for a server that is away, where the default is 10min"},
     ALL,
     FORM_SECONDS,
     AT(timeout),
     .min = 0.001,
     .max = OPTION_MAX_TIMEOUT},
    {.o = {"fault", 0, "RANK=SPEC", NULL, NULL,
           "for tests: break the network of a rank, e.g. 2=fault:stall=100; repeatable"},
     OPT_TRAIN,
     FORM_FAULT,
     AT(faults)},

    {.o = {.help = "Simulated time"}, ALL},
    {.o = {"clock", 0, "real|virtual", "real", NULL,
           "virtual: links and computing take simulated time, so the run waits for neither"},
     ALL,
     FORM_CLOCK,
     AT(virtual_clock)},
    {.o = {"tau", 0, "measured|TIME|FILE", "measured", NULL,
           "computing time of a step: measured here, a time such as 20ms, or from the records of a "
           "run with --clock virtual; requires --clock virtual"},
     ALL,
     FORM_TAU,
     AT(tau)},
    {.o = {"slow", 0, "RANK:TIMESx", NULL, NULL,
           "slow a rank down by a factor, e.g. 3:2.5x, or only in some steps: 3:2.5x@100-200; "
           "requires --clock virtual; repeatable"},
     ALL,
     FORM_SLOW,
     AT(slow)},
    {.o = {"jitter", 0, "PERCENT%", NULL, NULL,
           "lengthen computing by a random amount up to this; requires --clock virtual"},
     ALL,
     FORM_JITTER,
     AT(jitter)},
    {.o = {"sim-only", 0, NULL, NULL, NULL,
           "predict times only, for up to 1,000,000 workers, and train nothing; requires --clock "
           "virtual and --tau"},
     BOTH,
     FORM_FLAG,
     AT(sim_only)},

    {.o = {.help = "Output"}, ALL},
    {.o = {"out", 0, "FILE", NULL, NULL,
           "write records as JSON lines; - writes them to standard output, instead of the result"},
     BOTH,
     FORM_TEXT,
     AT(out)},
    {.o = {"log-every", 0, "N", "50", NULL, "steps between two records"},
     ALL,
     FORM_COUNT,
     AT(log_every),
     .min = 1,
     .max = 1e12},
    {.o = {"trace", 0, "FILE", NULL, NULL,
           "write a timeline of each rank, for ui.perfetto.dev or telegrad report --timeline"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(trace)},
    {.o = {"dump-gradients", 0, "DIR", NULL, NULL, "write the gradients of rank 0 as .npy files"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(dump_gradients)},
    {.o = {"dump-every", 0, "N", "the first of each epoch", NULL,
           "steps between two dumped gradients"},
     OPT_TRAIN,
     FORM_COUNT,
     AT(dump_every),
     .min = 1,
     .max = 1e12},
    {.o = {"dry-run", 0, NULL, NULL, NULL,
           "print the method and the bytes of each tensor, and train nothing"},
     OPT_TRAIN,
     FORM_FLAG,
     AT(dry_run)},
    {.o = {"json", 0, NULL, NULL, NULL, "with --dry-run: print JSON"},
     OPT_TRAIN | OPT_EVAL,
     FORM_FLAG,
     AT(json)},

    {.o = {.help = "Checkpoints and weights"}, ALL},
    {.o = {"save", 0, "DIR", NULL, NULL, "save a checkpoint at the end, or when interrupted"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(save_dir)},
    {.o = {"save-every", 0, "N", NULL, NULL, "also save every N steps; requires --save"},
     OPT_TRAIN,
     FORM_COUNT,
     AT(save_every),
     .min = 1,
     .max = 1e12},
    {.o = {"save-weights", 0, "FILE", NULL, NULL,
           "write the weights at the end to a .safetensors file"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(save_weights)},
    {.o = {"resume", 0, "DIR", NULL, NULL, "continue from the newest checkpoint of a folder"},
     OPT_TRAIN | OPT_EVAL,
     FORM_TEXT,
     AT(resume_dir)},
    {.o = {"init", 0, "FILE", NULL, NULL, "start from the weights of a .safetensors file"},
     OPT_TRAIN,
     FORM_TEXT,
     AT(init)},
};

/* Where --help of another command says something else than that of train. */
static const struct {
    int where;
    size_t offset;
    const char *arg, *standard, *help; /* NULL: as in train */
} others[] = {
    {OPT_COMPARE, AT(workers), .standard = "4"},
    {OPT_COMPARE, AT(server_mode), .help = SERVERS_DO},
    {OPT_COMPARE, AT(transport), "inproc|mpi|tcp",
     .help =
         HOW_CONNECTED ", or as processes connected by --listen and --join (default: detected)"},
    {OPT_COMPARE, AT(timeout),
     .help = "how long to wait for another rank, e.g. 60 or 2min; also for all to join over a "
             "network, where the default is 10min"},
    /* Workers of tune are threads, and make the same number of steps. */
    {OPT_TUNE, AT(holdout), .standard = "a tenth of them"},
    {OPT_TUNE, AT(workers), .help = "threads of this process that train"},
    {OPT_TUNE, AT(servers),
     .help = "servers that sum the gradients, beside the workers, for methods with exchange=star "
             "(the default then): more threads of this process"},
    {OPT_TUNE, AT(server_mode),
     .help = "what servers do with gradients: sum (the default), or with --strategy server sync "
             "(then the default). " TOLERATE},
    {OPT_TUNE, AT(nodes), "N", .help = TWO_LEVELS},
    {OPT_TUNE, AT(timeout), .help = "how long to wait for another worker, e.g. 60 or 2min"},
};

struct cli_option option_shown(const struct option_def *d, int where)
{
    struct cli_option o = d->o;
    for (size_t i = 0; o.name && i < sizeof others / sizeof *others; i++)
        if (others[i].where == where && others[i].offset == d->offset) {
            o.arg = others[i].arg ? others[i].arg : o.arg;
            o.standard = others[i].standard ? others[i].standard : o.standard;
            o.help = others[i].help ? others[i].help : o.help;
        }
    return o;
}

const size_t option_table_count = sizeof option_table / sizeof *option_table;
_Static_assert(sizeof option_table / sizeof *option_table <= 64, "run_options.given has 64 bits");
