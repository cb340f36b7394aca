#!/usr/bin/env python3
"""What telegrad advise predicts, beside runs that take those ways: docs/results/advise.md.

    bench/advise_measured.py [--links LINK...] [--model MODEL] [--workers P] [--seconds S] [--out FILE.jsonl]

For each link `telegrad advise --measure` says how long a step takes with each strategy and method, of short runs and exchanges that it measured; then
each way below is trained in real time over the same emulated link, all ranks in one process ($TELEGRAD, or build/release/telegrad). Measured: the
median of blocks of as many steps as the strategy's period. Ranks share cores, so the machine must be quiet. The table goes to stdout as
Markdown, what it is of to FILE.jsonl."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TELEGRAD = os.path.abspath(os.environ.get("TELEGRAD", os.path.join(HERE, "..", "build", "release", "telegrad")))
LINKS = ["1gbit,5ms", "100mbit,20ms", "20mbit,50ms"]
WAYS = [("ssgd", "dense"), ("ssgd", "2bit"), ("ssgd", "dgc"), ("od", "dense"), ("cd", "2bit"), ("dga", "dense"), ("local", "dense")]
DATA = ["--data", "glyphs:train=6400,test=100"]


def telegrad(*args):
    done = subprocess.run([TELEGRAD, *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def of_ways(answer):
    """Those of WAYS that were predicted, with their k, D or H."""
    for strategy, method in WAYS:
        yield from (way for way in answer["ways"] if way["strategy"].split(":")[0] == strategy and way["method"] == method)


def started(way):
    """Its specs without a warm-up, which advise leaves out."""
    name, _, keys = way["strategy"].partition(":")
    if name in ("od", "cd"):
        keys = ",".join(filter(None, [keys, "warmup=0"]))
    method = way["method"] + (":warmup=0" if way["method"] == "dgc" else "")
    return ["--strategy", name + (":" + keys if keys else ""), "--method", method]


def measure(way, common, seconds, folder):
    """Milliseconds a step of the median block, without the first two."""
    period = int((re.search(r"(?:every|k)=(\d+)", way["strategy"]) or [0, 5])[1])
    blocks = 2 + max(5, round(1e3 * seconds / way["step_ms"] / period))
    out = os.path.join(folder, "run.jsonl")
    telegrad("train", *common, *started(way), "--no-eval", "--steps", str(blocks * period), "--log-every", str(period), "--out", out)
    with open(out, encoding="utf-8") as file:
        ends = [record["seconds"] for record in map(json.loads, file) if record["type"] == "step" and record["step"] % period == 0]
    return 1e3 * statistics.median(b - a for a, b in zip(ends[1:], ends[2:])) / period


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of each run")
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    print("| link | strategy, method | predicted | measured | error |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for link in args.links:
            common = ["--model", args.model, "--workers", str(args.workers), "--link", link, *DATA]
            for way in of_ways(json.loads(telegrad("advise", "--measure", "--json", *common))):
                row = {"link": link, **way, "measured_ms": measure(way, common, args.seconds, folder)}
                row["error"] = row["step_ms"] / row["measured_ms"] - 1
                rows.append(row)
                print(f"| {link} | {way['strategy']}, {way['method']} | {way['step_ms']:.1f} | {row['measured_ms']:.1f} "
                      f"| {100 * row['error']:+.1f} % |", flush=True)
    errors = [abs(row["error"]) for row in rows]
    print(f"\nMedian error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %; "
          f"{sum(error <= 0.15 for error in errors)} of {len(errors)} within 15 %.")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
