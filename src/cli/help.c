/* The help screens, laid out by hand: 24 rows of 80 columns each. */
#include "cli/cli.h"

const char help_main[] =
    "Usage: telegrad COMMAND [OPTION]...\n"
    "Trains one network on many workers over links that are too slow for it, by\n"
    "exchanging compressed gradients.\n"
    "\n"
    "  train      train a network; prints the result, writes records of the run\n"
    "  compare    train the same network several ways; prints one table\n"
    "  methods    what there is: methods, codecs, strategies, their keys and papers\n"
    "\n"
    "  telegrad COMMAND --help explains a command; --version prints the version.\n"
    "  Exit status: 0 done, 1 failed, 2 wrong usage, 130 or 143 interrupted.\n"
    "\n"
    "Example, four workers in one process over an emulated slow link:\n"
    "  telegrad train --workers 4 --method dgc:density=0.001 --link 20mbit,10ms\n";

const char help_train[] =
    "Usage: telegrad train [OPTION]...   or   mpirun -n 4 telegrad train [OPTION]...\n"
    "Train a network on workers that exchange gradients; defaults in (brackets).\n"
    "  --model SPEC        (lenet5), mlp:hidden=256   --batch N  per worker (32)\n"
    "  --data NAME[:DIR]   mnist, fashion-mnist, glyphs; (mnist if found, or glyphs)\n"
    "  --holdout N         test on the last N training samples, not the test set\n"
    "  --workers N         threads of this process (1); not under mpirun\n"
    "  --method SPEC       (dense), 2bit, dgc:density=0.001: see telegrad methods\n"
    "  --strategy SPEC     (ssgd), cd:k=5             --seed N   (1)\n"
    "  --optimizer SPEC    (sgd:lr=0.05,momentum=0.9) --lr-schedule SPEC  (constant)\n"
    "  --epochs N (1)      --steps N  in their place  --no-eval  never test\n"
    "  --link L            100mbit,20ms; up=5mbit,down=50mbit,delay=9ms,jitter=1ms\n"
    "  --out FILE          records as JSON lines      --log-every N  steps (50)\n"
    "  --save DIR          checkpoint at the end      --save-every N  steps\n"
    "  --resume DIR        go on from its newest checkpoint\n"
    "  --trace FILE        time spans for ui.perfetto.dev (rank N of MPI: FILE.N)\n"
    "  --timeout SECONDS   a peer silent for so long is an error (60)\n"
    "  --driver D          (auto), thread, inline: who moves the bytes\n"
    "Interrupt once to stop after the step (saves if asked), twice to stop at once.\n"
    "For tests: --fault RANK=SPEC, e.g. 2=fault:stall=100, breaks a rank's network.\n"
    "Example, 0.1 % of the gradient over an emulated slow link:\n"
    "  telegrad train --workers 4 --method dgc:density=0.001 --link 20mbit,10ms\n";

const char help_compare[] =
    "Usage: telegrad compare [OPTION]... --run RUN [--run RUN]... | --spec FILE\n"
    "Train the same network several ways on the same samples; print one table.\n"
    "  --run RUN           name=..;method=..;strategy=..;optimizer=..;lr-schedule=..;\n"
    "                      link=..;steps=..  each optional, over the options below\n"
    "  --spec FILE         one run a line, `name: method=..;strategy=..`; lines like\n"
    "                      `--batch 32` are options, `#` starts a comment\n"
    "  --dense-timed N     dense S-SGD: train without the link, time N steps over it\n"
    "  --json              the table as JSON lines    --out FILE  all runs' records\n"
    "Options of every run, as in telegrad train; defaults in (brackets):\n"
    "  --model (lenet5)    --data  --holdout  --no-eval\n"
    "  --workers (4)       --batch (32)  --epochs (1)  --steps  --seed (1)\n"
    "  --method (dense)    --strategy (ssgd)  --optimizer  --lr-schedule\n"
    "  --link  --driver    --timeout (60)  --log-every (50)\n"
    "Example:\n"
    "  telegrad compare --link 20mbit,10ms --steps 300 --dense-timed 20 \\\n"
    "    --run 'name=dense' --run 'name=CD-SGD;method=2bit;strategy=cd:k=5' \\\n"
    "    --run 'name=DGC 0.1 %;method=dgc:density=0.001,warmup=100'\n";

const char help_methods[] =
    "Usage: telegrad methods [--json] [NAME]...\n"
    "List methods, codecs, feedbacks, exchanges, strategies, optimizers, schedules\n"
    "and models with their keys, defaults, ranges and papers; with NAMEs only those.\n"
    "A spec string is a name and keys, NAME:key=value,key=value; durations are steps\n"
    "(200) or epochs (4ep).\n"
    "  --json     as one JSON object\n"
    "Example:\n"
    "  telegrad methods dgc cd\n";
