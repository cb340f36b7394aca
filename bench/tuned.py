#!/usr/bin/env python3
"""Methods and strategies with the learning rate and momentum that suit each, found by telegrad tune: the accuracy that each reaches.

    bench/tuned.py OUT_DIR [--models MODEL...] [--rows ROW...] [--seeds N]

Each row is a sweep of `telegrad tune` over learning rates in factors of 2, and momentum 0 and 0.9 where the method or strategy does not
have its own; dense gets the same. Runs take a third of the length, on training data without a part that is held out; the best one trains
for the full length with --seeds seeds (3). OUT_DIR/MODEL/ROW.jsonl is the sweep's tune.jsonl (docs/records.md); what a sweep needs to
continue lies in OUT_DIR/MODEL/ROW.work until it has ended. A sweep that was interrupted continues. A row that is there is not made again,
but trained with the seeds that it lacks. Prints a Markdown table of each model. Core hours a row, three seeds: resnet20 2.6, gpt 1.0,
lstm 7.3, lenet5 0.2."""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

TELEGRAD = os.path.abspath(os.environ.get("TELEGRAD", os.path.join(os.path.dirname(__file__), "..", "build", "release", "telegrad")))
WORKERS = "4"
# Options, rates, whether momentum is varied, what is compared.
MODELS = {
    "resnet20": (["--model", "resnet20", "--data", "cifar10:train=1-4,test=5", "--batch", "32", "--epochs", "30", "--precision", "bf16",
                  "--lr-schedule", "cosine:warmup=1ep", "--optimizer", "sgd:weight_decay=0.0005"], "0.025,0.05,0.1,0.2", True, "accuracy"),
    "gpt": (["--model", "gpt", "--data", "shakespeare", "--batch", "8", "--context", "128", "--epochs", "12", "--precision", "bf16",
             "--lr-schedule", "cosine:warmup=100", "--optimizer", "adamw:weight_decay=0.1,exempt=1d"], "0.001,0.002,0.004,0.008", False, "loss"),
    "lstm": (["--model", "lstm:dropout=0.2", "--data", "wikitext-2", "--batch", "5", "--context", "35", "--epochs", "6", "--precision", "bf16",
              "--lr-schedule", "cosine", "--optimizer", "sgd:momentum=0,clip=0.25"], "5,10,20,40", False, "perplexity"),
    "lenet5": (["--model", "lenet5", "--data", "mnist", "--batch", "32", "--epochs", "5", "--lr-schedule", "cosine", "--optimizer", "sgd"],
               "0.0125,0.025,0.05,0.1", True, "accuracy"),
}
ROWS = {
    "dense": [], "topk": ["--method", "topk:density=0.01"], "dgc": ["--method", "dgc:density=0.001"], "2bit": ["--method", "2bit"],
    "1bit": ["--method", "1bit"], "efsign": ["--method", "efsign"], "qsgd": ["--method", "qsgd"], "powersgd": ["--method", "powersgd"],
    "adacomp": ["--method", "adacomp"], "cltk": ["--method", "cltk"], "od": ["--strategy", "od"], "cd": ["--strategy", "cd"],
    "dga": ["--strategy", "dga:delay=4"], "local": ["--strategy", "local:every=8"], "post-local": ["--strategy", "local:every=8,after=1ep"],
    "diloco": ["--strategy", "diloco"], "streaming": ["--strategy", "streaming"],
}
REFUSED = {("gpt", "dgc")}  # DGC has SGD's momentum and does not go with AdamW
OWN_MOMENTUM = ("dgc",)  # in the method, so the optimizer's is not varied


def finals(path):
    return [r for r in read(path) if r["type"] == "final"]


def sweep(folder, model, row, seeds):
    options, rates, momentum, _ = MODELS[model]
    work, out = folder / f"{row}.work", folder / f"{row}.jsonl"
    vary = ["--vary", f"optimizer.lr={rates}", *(["--vary", "optimizer.momentum=0,0.9"] if momentum and row not in OWN_MOMENTUM else [])]
    if out.exists() and not work.exists():
        work.mkdir()
        shutil.copy(out, work / "tune.jsonl")
    done = subprocess.run([TELEGRAD, "tune", "--workers", WORKERS, *options, *ROWS[row], *vary, "--seeds", str(seeds), "--out", str(work),
                           "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if len(finals(work / "tune.jsonl")) < seeds:
        print(f"{model} {row}: exit status {done.returncode}: {done.stderr.strip()[-300:]}", file=sys.stderr, flush=True)
        return
    shutil.copy(work / "tune.jsonl", out.with_suffix(".part"))
    out.with_suffix(".part").rename(out)
    shutil.rmtree(work)
    print(f"{model} {row}: done", file=sys.stderr, flush=True)


def read(path):
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def value_of(record, field):
    if field == "accuracy":
        return 100 * record["accuracy"]
    return math.exp(record["loss"]) if field == "perplexity" else record["loss"]


def print_table(folder, model):
    field = MODELS[model][3]
    digits = {"accuracy": 2, "loss": 3, "perplexity": 1}[field]
    rows = {row: read(folder / f"{row}.jsonl") for row in ROWS}
    rows = {row: records for row, records in rows.items() if records}
    if not rows:
        return
    print(f"\n{model}\n\n| row | settings | tuned | {field}, mean of seeds | by seed | against dense |\n|---|---|---|---|---|---|")
    means = {}
    for row, records in rows.items():
        values = [value_of(r, field) for r in finals(folder / f"{row}.jsonl") if r["loss"] is not None]
        rungs = [r for r in records if r["type"] == "rung" and r["rung"] == 2 and r["loss"] is not None and not r["diverged"]]
        key = (lambda r: -r["accuracy"]) if field == "accuracy" else (lambda r: r["loss"])
        best = min(rungs, key=key)["values"] if rungs else ""
        means[row] = statistics.mean(values) if values else math.nan
        tuned = ", ".join(each.replace("optimizer.", "").replace("=", " ") for each in best.split())
        against = f"{means[row] - means['dense']:+.{digits}f}" if "dense" in means and row != "dense" else "-"
        seeds = " / ".join(f"{value:.{digits}f}" for value in values)
        print(f"| {row} | `{(ROWS[row] or ['dense'])[-1]}` | {tuned} | {means[row]:.{digits}f} | {seeds} | {against} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS), metavar="ROW", help="none: only tables")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for model in args.models:
        folder = args.out / model
        folder.mkdir(parents=True, exist_ok=True)
        for row in args.rows:
            if (model, row) not in REFUSED and len(finals(folder / f"{row}.jsonl")) < args.seeds:
                sweep(folder, model, row, args.seeds)
        print_table(folder, model)


if __name__ == "__main__":
    main()
