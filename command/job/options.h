/* The options of train, compare and tune: one table, one struct, and one way to set a value, from
 * the command line, a spec file, --run or --vary. */
#ifndef TG_CLI_OPTIONS_H
#define TG_CLI_OPTIONS_H

#include "command/help/command.h"
#include "command/job/net_options.h"
#include "trainer/loop/train.h"

/* Where an option may be used (a set). */
enum {
    OPT_TRAIN = 1,
    OPT_COMPARE = 2,
    OPT_RUN = 4, /* a --run of compare */
    OPT_EVAL = 8,
    OPT_TUNE = 16,
    OPT_VARY = 32 /* a --vary of tune */
};

#define OPT_MAX_FAULTS 16
#define OPT_FUSION_AUTO UINT64_MAX
#define OPT_FUSION_LAGS (UINT64_MAX - 1)
#define OPT_NODES_AUTO UINT64_MAX
#define OPT_OPTIMIZER "sgd:lr=0.05,momentum=0.9" /* if none is given */
#define OPT_MAX_RULES 64
#define OPT_MAX_NOTES 8 /* notes per run, see run_notes.h */
#define OPT_MAX_SLOW 64
#define OPT_MAX_LINKS 64

struct run_fault {
    uint64_t rank;
    const char *spec;
};

struct run_link_of {
    uint64_t rank;
    const char *link; /* NULL: not shaped */
};

/* What the command chooses for options that are not given, see run_defaults.h. */
struct run_settled {
    char optimizer[512]; /* "": see options.optimizer */
    char method[512];    /* "": see options.method */
    struct run_note {    /* what was chosen and why, or a warning */
        char text[512];
        enum run_note_kind { RUN_REMARK, RUN_NOTE, RUN_WARNING } kind;
    } note[OPT_MAX_NOTES];
    size_t notes;
};

/* Strings are borrowed from the code that set them. NULL: not given, and there is no default. */
struct run_options {
    const char *model, *data, *strategy, *optimizer, *lr_schedule;
    const char *method;      /* NULL: not given; see options_method */
    const char *link;        /* NULL: not shaped */
    const char *transport;   /* NULL: not given */
    const char *server_mode; /* NULL: not given */
    const char *shard;       /* NULL: iid */
    const char *lr; /* NULL: not given; becomes part of the optimizer once that is settled */
    const char *out, *save_dir, *resume_dir, *trace, *init, *save_weights;
    uint64_t holdout, workers, servers, batch, context, epochs, steps, seed, log_every, save_every;
    uint64_t until;         /* of tune, no option: where the run pauses; 0: nowhere */
    double timeout;         /* seconds; 0: not given; see options_timeout */
    double server_deadline; /* likewise; 0: none */
    uint64_t codec_threads, dump_every;
    const char *dump_gradients; /* directory */
    uint64_t accumulate;
    train_lr_scale lr_scale;
    train_precision precision;
    tg_driver driver;
    tg_overlap overlap;
    struct net_options net;
    uint64_t nodes;  /* ranks per node; 0: one level; OPT_NODES_AUTO: as the transport finds them */
    uint64_t fusion; /* bytes per bucket; 0: the session's default; or OPT_FUSION_* */
    bool evaluate;
    bool anew; /* a worker of servers: steps count from 0 if no other one is there */
    struct run_fault faults[OPT_MAX_FAULTS];
    size_t fault_count;
    const char *rules[OPT_MAX_RULES]; /* PATTERN=METHOD */
    size_t rule_count;
    struct run_link_of links_of[OPT_MAX_LINKS];
    size_t links_of_count;
    bool virtual_clock;
    const char *tau; /* as given; NULL: measured. A time is also in tau_ns, else it names a file */
    int64_t tau_ns;
    double jitter; /* of computing time, as a fraction */
    train_slow slow[OPT_MAX_SLOW];
    size_t slow_count;
    bool sim_only;      /* train: simulate by the virtual clock; compute nothing */
    bool dry_run, json; /* dry_run: train only prints the plan; json: print JSON */
    struct run_settled settled;
    uint64_t given; /* bit i: entry i of the table was given, not just defaulted */
};

/* Set the defaults. workers: 1 for train, 4 for compare. */
void options_defaults(struct run_options *o, uint64_t workers);

/* Set one option by its name without "--". value is borrowed; NULL for an option that takes none.
 * where    the place where it is used
 * Errors   TG_E_SPEC: the message names the value and what is allowed */
TG_NODISCARD tg_status options_set(struct run_options *o, int where, const char *name,
                                   const char *value);

/* Parse a precision, such as "bf16" (TRAIN_BF16), for option `name`. Errors TG_E_SPEC */
TG_NODISCARD tg_status options_precision(const char *name, const char *value,
                                         train_precision *precision_p);

bool options_given(const struct run_options *o, const char *name);
/* Whether an option, "rule", may be given several times. */
bool options_repeatable(const char *name);

/* How many seconds to wait for a rank. With a virtual clock it is the largest allowed value:
 * waiting costs nothing there, and links may be slow. */
double options_timeout(const struct run_options *o);
/* How many seconds to wait until all ranks have joined over a network: people start them. */
double options_patience(const struct run_options *o);
/* --method, or the strategy's default method; with --servers, its exchange is star unless it has
 * another one. */
const char *options_method(const struct run_options *o);
/* --optimizer combined with --lr and the defaults of the command. */
const char *options_optimizer(const struct run_options *o);
/* "thread" for TG_DRIVER_THREAD, "full" for TG_OVERLAP_FULL; never NULL. */
const char *options_driver_name(tg_driver driver);
const char *options_overlap_name(tg_overlap overlap);

/* For cli_command.net_of of commands whose input is a struct run_options. */
struct net_options *options_net(void *run_options);

/* The options that train, compare and tune share, for cli_command.shared. */
const struct cli_option *options_of_train(void);
const struct cli_option *options_of_compare(void);
const struct cli_option *options_of_tune(void);
/* The name of the option of that key, one of those. */
const char *options_name(int key);
/* Set one of them by its key. Errors as options_set */
TG_NODISCARD tg_status options_set_shared(struct run_options *o, int key, const char *arg);

/* First key of a subcommand's own options. argp makes a short option from a key that is a
 * character. */
#define OPTIONS_KEY 0x100

/* Parse a subcommand's arguments. -h, --help and --usage print its help; nothing else is done then.
 * -q and -v make the console quiet and verbose.
 * input    passed to the functions of the command, and what shared options are set in if it has no
 *          shared_of
 * Returns -1 to go on, otherwise the exit status to return */
int options_parse(const struct cli_command *command, int argc, char **argv, void *input);

#endif
