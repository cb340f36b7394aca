#!/usr/bin/env python3
"""How long runs that trained without a link would take over links:
    over_links.py [--epoch] [--tau TIME] [--write FOLDER] LINK... -- RUN-SEED.jsonl ...
prints a Markdown table, with --epoch of the last epoch, when all warm-ups are over, in the place of all.

A LINK is NAME=LINK of telegrad ("wifi=50mbit,10ms"). Of each row the first seed's settings are taken; computing and coding are measured here,
alone, once a row, which needs a quiet machine; of rows that compute the same, the least disturbed computing counts for all. With --tau ("43ms")
nothing is measured: computing of a step takes that, coding no time. Then all steps are simulated (`train --clock virtual --sim-only`). Beside
each time: how many times faster that is than the first row's. With --write FOLDER the first seed of each row is also written to
FOLDER/NAME/ROW-SEED.jsonl, joined where it was resumed, its epochs' seconds those of the link (all steps alike): for curves.py and
`telegrad report`.
TELEGRAD=build/release/telegrad"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from runs import by_row, joined

TELEGRAD = os.environ.get("TELEGRAD", pathlib.Path(__file__).parent / "../build/release/telegrad")
COMPUTING = ("model", "data_spec", "workers", "batch", "accumulate", "context", "precision")
SETTINGS = ("model", "method", "strategy", "optimizer", "lr_schedule", "workers", "batch", "accumulate", "precision", "seed", "overlap", "shard")


def options(start):
    """The command line that a run was started with."""
    args = ["--data", start["data_spec"]]
    for name in SETTINGS:
        args += ["--" + name.replace("_", "-"), str(start[name])]
    for rule in start["rules"]:
        args += ["--rule", rule]
    if start["fusion"]:
        args += ["--fusion", str(start["fusion"])]
    if start["context"]:
        args += ["--context", str(start["context"])]
    return args


def train(out, *args):
    done = subprocess.run([TELEGRAD, "train", "--clock", "virtual", "--no-eval", "--out", out, *args], check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"over_links.py: {' '.join(args)}: exit status {done.returncode}")
    return [json.loads(line) for line in open(out, encoding="utf-8")]


def simulate(answer, start, steps, *args):
    """Seconds of so many of its steps."""
    end = train(answer, *options(start), "--sim-only", "--steps", str(steps), *args)[-1]
    assert end["steps"] == steps, "other steps"
    return end["seconds"]


def measure(rows, folder):
    """{row: the start record of a short run}, with the computing of the fastest of the rows that compute the same."""
    measured = {row: train(f"{folder}/times.jsonl", *options(start), "--steps", "1")[0] for row, start in rows.items()}
    for row, start in rows.items():
        alike = [measured[name] for name, other in rows.items() if all(other[key] == start[key] for key in COMPUTING)]
        least = min(alike, key=lambda record: record["tau_ms"])
        times = {**least["times"], "buckets": measured[row]["times"]["buckets"]}
        measured[row] = {**measured[row], "times": times, "tau_ms": least["tau_ms"]}
    return measured


def written(measured, folder):
    """A file for --tau."""
    times = f"{folder}/times.jsonl"
    with open(times, "w", encoding="utf-8") as file:
        file.write(json.dumps(measured) + "\n")
    return times


def write(folder, name, row, records, total):
    """The run as it would be over a link."""
    path = pathlib.Path(folder, name, f"{row}-{records[0]['seed']}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for record in joined(records):
            if record["type"] != "start":
                record = {**record, "seconds": total * record.get("step", record.get("steps")) / records[0]["steps"]}
            file.write(json.dumps(record) + "\n")


def clock(s):
    return f"{s:.1f} s" if s < 60 else f"{s / 60:.1f} min" if s < 3600 else f"{s / 3600:.1f} h"


def arguments():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epoch", action="store_true")
    parser.add_argument("--tau", metavar="TIME")
    parser.add_argument("--write", metavar="FOLDER")
    parser.add_argument("links", nargs="+", metavar="NAME=LINK")
    args = parser.parse_args(words[:cut])
    args.runs = words[cut + 1:]
    if not args.runs or any("=" not in link for link in args.links):
        parser.error("allowed: NAME=LINK... -- RUN-SEED.jsonl ...")
    return args


def main():
    args = arguments()
    names, links = zip(*(text.split("=", 1) for text in args.links))
    rows, base = by_row(args.runs), None
    starts = {row: runs[0][0] for row, runs in rows.items()}
    print(("| run |" if args.tau else "| run | computing, ms a step |") + "".join(f" {text.replace('=', ': ')} |" for text in args.links))
    print("|---|" + "---|" * (len(links) + (not args.tau)))
    with tempfile.TemporaryDirectory() as folder:
        measured = None if args.tau else measure(starts, folder)
        for row, start in starts.items():
            tau = args.tau or written(measured[row], folder)
            def over(steps, start=start, tau=tau):
                return [simulate(f"{folder}/answer.jsonl", start, steps, "--tau", tau, "--link", link) for link in links]
            took = shown = over(start["steps"])
            if args.epoch and start["steps"] > start["steps_per_epoch"]:
                shown = [t - b for t, b in zip(took, over(start["steps"] - start["steps_per_epoch"]))]
            base = base or shown
            cells = ([] if args.tau else [f"{measured[row]['tau_ms']:.1f}"]) + [f"{clock(s)} = {b / s:.2f}x" for s, b in zip(shown, base)]
            print(f"| {row} | {' | '.join(cells)} |", flush=True)
            if args.write:
                for name, total in zip(names, took):
                    write(args.write, name, row, rows[row][0], total)


if __name__ == "__main__":
    main()
