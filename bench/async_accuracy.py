#!/usr/bin/env python3
"""Accuracy of asynchronous servers in simulated time, with stragglers: the tables of docs/results/async-accuracy.md.
    bench/async_accuracy.py OUT_DIR [--models gpt resnet20] [--table]        needs CIFAR-10 and tiny Shakespeare (TELEGRAD_DATA or data/)
Each run is a file of records in OUT_DIR; those that are there are not run again, so the command can be stopped and started. While the
file of the environment variable PAUSE exists, no run begins, and the one that is under way is stopped (SIGSTOP). --table prints the
tables of the runs that are there. The program is that of the environment variable TELEGRAD, or build/release/telegrad."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

WORKERS = 8
# A step of each worker takes 1 to 4 times as long, at random.
SLOW = ["--jitter", "300%"]
LINKS = ["--link", "100mbit,10ms", "--link-of", "8=1gbit,10ms"]
MODELS = {
    "resnet20": (["--model", "resnet20", "--data", "cifar10:train=1-2", "--batch", "16", "--tau", "100ms", "--epochs", "3"], 0.1,
                 ["sgd:momentum=0.9,weight_decay=0.0005"]),
    "gpt": (["--model", "gpt:layers=2,heads=4,embed=64", "--data", "shakespeare", "--context", "64", "--batch", "8", "--tau", "100ms",
             "--epochs", "3"], 0.004, ["adamw:weight_decay=0.1"]),
}
ROWS = [("sync", None)] + [(s, c) for s in ("2", "4", "8", "none") for c in (False, True)]
LAMBDA = 0.04  # of the constant DC-ASGD (Zheng et al. 2017)


def mode_of(staleness, compensate):
    if staleness == "sync":
        return "sync"
    keys = ([] if staleness == "none" else [f"staleness={staleness}"]) + ([f"compensate={LAMBDA}"] if compensate else [])
    return "async" + (":" + ",".join(keys) if keys else "")


def command_of(model, staleness, compensate, out):
    options, rate, optimizer = MODELS[model]
    program = os.environ.get("TELEGRAD") or str(pathlib.Path(__file__).parent.parent / "build/release/telegrad")
    # Servers apply each of the workers' gradients, so the rate is an eighth of that for their mean.
    rate = rate if staleness == "sync" else rate / WORKERS
    return [program, "train", *options, "--workers", str(WORKERS), "--servers", "1", "--strategy", "server", "--server-mode",
            mode_of(staleness, compensate), "--optimizer", *optimizer, "--lr", f"{rate:g}", "--lr-schedule", "cosine", "--clock", "virtual",
            "--precision", "bf16", *LINKS, *SLOW, "--log-every", "20", "--out", str(out), "-q"]


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


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def staleness_text(staleness):
    return {"sync": "0 (sync)", "none": "unbounded"}.get(staleness, staleness)


def table(out, model):
    """One row for each run: the last test, the time of the run, and the time until the test was as good as sync's at four fifths of its
    way."""
    sync = out / f"{model}-sync.jsonl"
    if not sync.exists():
        return
    tokens = model == "gpt"
    key, better = ("test_loss", lambda a, b: a <= b) if tokens else ("test_accuracy", lambda a, b: a >= b)
    epochs = [r for r in read(sync) if r["type"] == "epoch"]
    goal = epochs[max(0, len(epochs) * 4 // 5 - 1)][key]
    figure = (lambda x: f"{x:.3f}") if tokens else (lambda x: f"{100 * x:.1f} %")
    print(f"\n| staleness | compensate | test {'loss' if tokens else 'accuracy'} | seconds | seconds to {figure(goal)} |\n|---|---|---|---|---|")
    for staleness, compensate in ROWS:
        path = out / f"{name_of(model, staleness, compensate)}.jsonl"
        if not path.exists():
            continue
        lines = read(path)
        reached = [r["seconds"] for r in lines if r["type"] == "epoch" and better(r[key], goal)]
        end = lines[-1]
        print(f"| {staleness_text(staleness)} | {LAMBDA if compensate else '-'} | {figure(end[key])} | {end['seconds']:.1f} | "
              f"{f'{reached[0]:.1f}' if reached else 'not reached'} |")


def name_of(model, staleness, compensate):
    return f"{model}-{staleness}" + ("-compensated" if compensate else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["gpt", "resnet20"])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for model in args.models:
        for staleness, compensate in () if args.table else ROWS:
            path = args.out / f"{name_of(model, staleness, compensate)}.jsonl"
            if path.exists():
                continue
            part = path.with_suffix(".part.jsonl")
            part.unlink(missing_ok=True)
            run(command_of(model, staleness, compensate, part))
            part.rename(path)
        table(args.out, model)


main()
