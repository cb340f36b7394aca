/* The options of train and compare: one table, one struct, one way to set a value, whether it comes
 * from the command line, from a spec file or from --run. */
#ifndef TG_CLI_OPTIONS_H
#define TG_CLI_OPTIONS_H

#include "command/help/command.h"
#include "trainer/loop/train.h"

/* Where an option may stand (a set). */
enum { OPT_TRAIN = 1, OPT_COMPARE = 2, OPT_RUN = 4, OPT_EVAL = 8 };

#define OPT_MAX_FAULTS 16
#define OPT_FUSION_AUTO UINT64_MAX
#define OPT_NODES_AUTO UINT64_MAX
#define OPT_OPTIMIZER "sgd:lr=0.05,momentum=0.9" /* where none is named */
#define OPT_MAX_RULES 64
#define OPT_MAX_NOTES 4 /* of a run: run_notes.h */
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

/* What the command settles where the command line leaves it open: run_defaults.h */
struct run_settled {
    char optimizer[512]; /* "": as options.optimizer says */
    struct run_note {    /* what was chosen and why, or is to be warned of */
        char text[512];
        bool warns;
    } note[OPT_MAX_NOTES];
    size_t notes;
};

/* Strings are borrowed from whoever set them; NULL: not given and without a default. */
struct run_options {
    const char *model, *data, *strategy, *optimizer, *lr_schedule;
    const char *method; /* NULL: not given, see options_method */
    const char *link;   /* NULL: not shaped */
    const char *shard;  /* NULL: iid */
    const char *lr;     /* NULL: not given; goes into the optimizer when that is settled */
    const char *out, *save_dir, *resume_dir, *trace, *init;
    uint64_t holdout, workers, batch, context, epochs, steps, seed, log_every, save_every;
    double timeout; /* seconds; 0: not given, see options_timeout */
    uint64_t codec_threads, dump_every;
    const char *dump_gradients; /* directory */
    uint64_t accumulate;
    train_lr_scale lr_scale;
    train_precision precision;
    tg_driver driver;
    tg_overlap overlap;
    uint64_t nodes;  /* ranks of each node; 0: one level; OPT_NODES_AUTO: as MPI sees them */
    uint64_t fusion; /* bytes of a bucket; 0: the session's default; OPT_FUSION_AUTO */
    bool evaluate;
    struct run_fault faults[OPT_MAX_FAULTS];
    size_t fault_count;
    const char *rules[OPT_MAX_RULES]; /* PATTERN=METHOD */
    size_t rule_count;
    struct run_link_of links_of[OPT_MAX_LINKS];
    size_t links_of_count;
    bool virtual_clock;
    const char *tau; /* as given; NULL: measured. A time is in tau_ns, else it names a file */
    int64_t tau_ns;
    double jitter; /* of computing, a fraction */
    train_slow slow[OPT_MAX_SLOW];
    size_t slow_count;
    bool sim_only;      /* train: by the virtual clock, and nothing is computed */
    bool dry_run, json; /* train: print the plan and do nothing else; as JSON */
    struct run_settled settled;
    uint64_t given; /* bit i: entry i of the table was set, not only defaulted */
};

/* workers: 1 for train, 4 for compare. */
void options_defaults(struct run_options *o, uint64_t workers);

/* Set one option by name, without "--". value is borrowed; NULL for an option without one.
 * where    the place it stands in
 * Errors   TG_E_SPEC: names the value and what is allowed */
TG_NODISCARD tg_status options_set(struct run_options *o, int where, const char *name,
                                   const char *value);

/* "bf16" to TRAIN_BF16, of an option of that name. Errors TG_E_SPEC */
TG_NODISCARD tg_status options_precision(const char *name, const char *value,
                                         train_precision *precision_p);

bool options_given(const struct run_options *o, const char *name);

/* Seconds that a rank is waited for: by a virtual clock, whose waits cost nothing and whose links
 * may be slow, the most that may be given. */
double options_timeout(const struct run_options *o);
/* --method, or the one that the strategy has without. */
const char *options_method(const struct run_options *o);
/* --optimizer with --lr and what the command's default adds to them. */
const char *options_optimizer(const struct run_options *o);
/* "thread" for TG_DRIVER_THREAD, "full" for TG_OVERLAP_FULL; never NULL. */
const char *options_driver_name(tg_driver driver);
const char *options_overlap_name(tg_overlap overlap);

/* The options that train and compare share, as cli_command.shared and shared_parse. The input of the
 * latter is the struct run_options. It prints what is wrong and returns EINVAL. */
const struct cli_option *options_of_train(void);
const struct cli_option *options_of_compare(void);
error_t options_parse_shared(int key, char *arg, struct argp_state *state);

/* Keys of a subcommand's own options begin here: argp makes a short option of a key that is a
 * character. */
#define OPTIONS_KEY 0x100

/* Parse a subcommand's arguments: -h, --help and --usage print its help and nothing else is done; -q
 * and -v make the console quiet and verbose.
 * input    of command->parse; of options_parse_shared, if the command has no parser of its own
 * Returns -1: go on; otherwise the exit status to return */
int options_parse(const struct cli_command *command, int argc, char **argv, void *input);

#endif
