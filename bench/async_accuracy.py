#!/usr/bin/env python3
"""Accuracy of asynchronous servers in simulated time, with stragglers: the tables of docs/results/async-accuracy.md.
    bench/async_accuracy.py OUT_DIR [--models gpt resnet20] [--seeds 2] [--table]    needs CIFAR-10 and tiny Shakespeare (TELEGRAD_DATA)
First, sync and async without a bound are each tried with several rates, with momentum and without, in short runs on training data of which
a part is held out, to be tested on. The best rate and momentum of sync are those of its rows, those of async are those of all other rows.
Each run is a file of records in OUT_DIR; those that are there are not run again, so the command can be stopped and started. While the
file of the environment variable PAUSE exists, no run begins, and the one that is under way is stopped (SIGSTOP). --table prints the
tables of the runs that are there. The program is that of the environment variable TELEGRAD, or build/release/telegrad."""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

WORKERS = 8
# A step of each worker takes 1 to 4 times as long, at random.
SLOW = ["--jitter", "300%"]
LINKS = ["--link", "100mbit,10ms", "--link-of", "8=1gbit,10ms"]
# Options of all runs; of short ones; of long ones. Then what is tried: for sync, and for async, whose servers make eight times the steps.
MODELS = {
    "resnet20": (["--model", "resnet20", "--batch", "16", "--tau", "100ms"],
                 ["--data", "cifar10:train=1-2", "--holdout", "4000", "--epochs", "2"], ["--data", "cifar10:train=1-2", "--epochs", "5"],
                 [f"sgd:lr={lr},momentum={m},weight_decay=0.0005" for m, rates in (("0.9", (0.05, 0.1)), ("0", (0.25, 0.5, 1))) for lr in rates],
                 [f"sgd:lr={lr},momentum={m},weight_decay=0.0005" for m, rates in
                  (("0.9", (0.00625, 0.0125)), ("0", (0.03125, 0.0625, 0.125, 0.25))) for lr in rates]),
    "gpt": (["--model", "gpt:layers=2,heads=4,embed=64", "--context", "64", "--batch", "8", "--tau", "100ms"],
            ["--data", "shakespeare", "--holdout", "50000", "--epochs", "3"], ["--data", "shakespeare", "--epochs", "10"],
            [f"adamw:lr={lr},beta1={m},weight_decay=0.1" for m in ("0.9", "0") for lr in (0.002, 0.004, 0.008, 0.016)],
            [f"adamw:lr={lr},beta1={m},weight_decay=0.1" for m, rates in
             (("0.9", (0.000125, 0.00025, 0.0005)), ("0", (0.0000625, 0.000125, 0.00025, 0.0005, 0.001, 0.002))) for lr in rates]),
}
ROWS = [("sync", None)] + [(s, c) for s in ("2", "4", "8", "none") for c in (False, True)]
LAMBDA = 0.04  # of the constant DC-ASGD (Zheng et al. 2017)


def mode_of(staleness, compensate):
    if staleness == "sync":
        return "sync"
    keys = ([] if staleness == "none" else [f"staleness={staleness}"]) + ([f"compensate={LAMBDA}"] if compensate else [])
    return "async" + (":" + ",".join(keys) if keys else "")


def command_of(model, length, mode, optimizer, seed):
    program = os.environ.get("TELEGRAD") or str(pathlib.Path(__file__).parent.parent / "build/release/telegrad")
    options, short, full, _, _ = MODELS[model]
    return [program, "train", *options, *(short if length == "short" else full), "--workers", str(WORKERS), "--servers", "1", "--strategy",
            "server", "--server-mode", mode, "--optimizer", optimizer, "--lr-schedule", "cosine", "--clock", "virtual", "--precision", "bf16",
            *LINKS, *SLOW, "--seed", str(seed), "--log-every", "20", "-q"]


def paused():
    return bool(os.environ.get("PAUSE")) and os.path.exists(os.environ["PAUSE"])


def run(command):
    while paused():
        time.sleep(5)
    process = subprocess.Popen(command)
    stopped = False
    try:
        while process.poll() is None:
            time.sleep(1)
            if paused() != stopped:
                stopped = not stopped
                process.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)
    except BaseException:
        process.kill()
        raise
    if process.returncode != 0:
        sys.exit(f"async_accuracy.py: {' '.join(command)}: status {process.returncode}")


def run_into(path, command):
    if path.exists():
        return
    part = path.with_suffix(".part.jsonl")
    part.unlink(missing_ok=True)
    run([*command, "--out", str(part)])
    part.rename(path)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def better_of(model):
    """The field by which runs are judged, the order in which the best is least, and how it is written."""
    if model == "gpt":
        return "test_loss", lambda x: x, lambda x: f"{x:.3f}"
    return "test_accuracy", lambda x: -x, lambda x: f"{100 * x:.1f}"


def tried(out, model, mode):
    """The short runs of sync or async, best first: (figure, optimizer, its file). One whose loss became infinite is the worst."""
    key, order, _ = better_of(model)
    found = []
    for optimizer in MODELS[model][3 if mode == "sync" else 4]:
        path = out / f"{model}-try-{mode}-{optimizer.partition(':')[2].replace(',', '-')}.jsonl"
        found.append((read(path)[-1].get(key) if path.exists() else None, optimizer, path))
    return sorted(found, key=lambda f: order(f[0]) if f[0] is not None else float("inf"))


def row_name(model, staleness, compensate, seed):
    return f"{model}-{staleness}{'-compensated' if compensate else ''}-seed{seed}.jsonl"


def rows_of(out, model, seeds):
    for staleness, compensate in ROWS:
        paths = [out / row_name(model, staleness, compensate, seed) for seed in range(1, seeds + 1)]
        yield staleness, compensate, [read(path) for path in paths if path.exists()]


def table(out, model, seeds):
    """What was tried, and one row for each mode: the last test, the time of the run, and the time until the test was as good as sync's
    at four fifths of its way."""
    key, order, figure = better_of(model)
    print(f"\n{model}\n\n| mode | optimizer | {key.replace('_', ' ')}, held out |\n|---|---|---|")
    for mode in ("sync", "async"):
        for value, optimizer, path in tried(out, model, mode):
            if path.exists():
                print(f"| {mode} | `{optimizer}` | {'not finite' if value is None else figure(value)} |")
    rows = {(s, c): runs for s, c, runs in rows_of(out, model, seeds) if runs}
    if ("sync", None) not in rows:
        return
    tests = [[r[key] for r in lines if r["type"] == "epoch"] for lines in rows["sync", None]]
    goal = statistics.mean(test[max(0, len(test) * 4 // 5 - 1)] for test in tests)
    print(f"\n| staleness | compensate | {key.replace('_', ' ')}, mean | by seed | seconds | seconds to {figure(goal)} |\n"
          "|---|---|---|---|---|---|")
    for (staleness, compensate), runs in rows.items():
        ends = [lines[-1] for lines in runs]
        reached = [next((r["seconds"] for r in lines if r["type"] == "epoch" and order(r[key]) <= order(goal)), None) for lines in runs]
        print(f"| {({'sync': '0 (sync)', 'none': 'unbounded'}).get(staleness, staleness)} | {LAMBDA if compensate else '-'} | "
              f"{figure(statistics.mean(end[key] for end in ends))} | {' / '.join(figure(end[key]) for end in ends)} | "
              f"{statistics.mean(end['seconds'] for end in ends):.0f} | {' / '.join('not reached' if r is None else f'{r:.0f}' for r in reached)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["gpt", "resnet20"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for model in args.models:
        best = {}
        for mode in () if args.table else ("sync", "async"):
            for _, optimizer, path in tried(args.out, model, mode):
                run_into(path, command_of(model, "short", mode, optimizer, 1))
            best[mode] = tried(args.out, model, mode)[0][1]
        for seed in () if args.table else range(1, args.seeds + 1):
            for staleness, compensate in ROWS:
                run_into(args.out / row_name(model, staleness, compensate, seed),
                         command_of(model, "full", mode_of(staleness, compensate), best["sync" if staleness == "sync" else "async"], seed))
        table(args.out, model, args.seeds)


main()
