#!/usr/bin/env python3
"""What hostile workers cost in accuracy, by the rule of the parameter server: the table of docs/results/robust.md.
    bench/robust.py OUT_DIR [--seeds 1 2] [--set KEY=VALUE ...]       needs MNIST (TELEGRAD_DATA or data/); 4 s a run
Each run is a file of OUT_DIR; those that are there are not run again. --set changes keys of bench_hostile, such as
model=[lenet5] or steps=1000: use another OUT_DIR for them. The program is that of the environment variable
BENCH_HOSTILE, or build/release/bench_hostile."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

RULES = ["mean", "median", "trimmed,f={f}", "krum,f={f}", "clipped"]
ATTACKS = {"none": "none", "flip": "sign flipped", "scale": "times 1000", "nan": "NaN", "little": "a little is enough"}
MOST = 3  # f, where nobody is hostile


def cells():
    """(attack, hostile workers), in the order of the table's rows."""
    yield "none", 0
    for attack in list(ATTACKS)[1:]:
        for hostile in (1, MOST):
            yield attack, hostile


def run(program, path, settings):
    text = "run:" + ",".join(f"{key}={value}" for key, value in settings.items())
    done = subprocess.run([program, text], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"robust.py: {text}: {done.stderr.strip()}")
    part = path.with_suffix(".part")
    part.write_text(done.stdout)
    part.rename(path)


def cell(results):
    accuracy = 100 * statistics.mean(r["accuracy"] for r in results)
    dropped = all(r["skipped"] == r["steps"] for r in results)
    return f"{accuracy:.1f}" + (" (all steps dropped)" if dropped else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    own = dict(pair.split("=", 1) for pair in args.set)
    program = os.environ.get("BENCH_HOSTILE") or pathlib.Path(__file__).parent.parent / "build/release/bench_hostile"
    args.out.mkdir(parents=True, exist_ok=True)
    print("| hostile workers | send | " + " | ".join(rule.split(",")[0] for rule in RULES) + " |")
    print("|---|---|" + "---|" * len(RULES))
    for attack, hostile in cells():
        row = []
        for rule in RULES:
            combine = rule.format(f=hostile or MOST)
            results = []
            for seed in args.seeds:
                path = args.out / f"{combine.replace(',', '-')}-{attack}-{hostile}-{seed}.json"
                if not path.exists():
                    run(program, path, {"mode": f"[sum:combine={combine}]", "attack": attack, "hostile": hostile, "seed": seed, **own})
                results.append(json.loads(path.read_text()))
            row.append(cell(results))
        print(f"| {hostile} | {ATTACKS[attack]} | " + " | ".join(row) + " |", flush=True)


main()
