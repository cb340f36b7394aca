#!/usr/bin/env python3
"""How long runs that trained without a link would take over links: over_links.py [--epoch] [--write FOLDER] LINK... -- RUN-SEED.jsonl ...
prints a Markdown table, with --epoch of the mean epoch in the place of all.

A LINK is NAME=LINK of telegrad ("wifi=50mbit,10ms"). Of each row the first seed's settings are taken; computing and coding are measured here,
alone, once a row, which needs a quiet machine; of rows that compute the same, the least disturbed computing counts for all. Then all steps
are simulated (`train --clock virtual --sim-only`). Beside each time: how many times faster that is than the first row's. With --write FOLDER
the first seed of each row is also written to FOLDER/NAME/ROW-SEED.jsonl, joined where it was resumed, its epochs' seconds those of the link
(all steps alike): for curves.py and `telegrad report`.
TELEGRAD=build/release/telegrad"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from runs import by_row, joined

TELEGRAD = os.environ.get("TELEGRAD", pathlib.Path(__file__).parent / "../build/release/telegrad")
COMPUTING = ("model", "data_spec", "workers", "batch", "accumulate", "context", "precision")
SETTINGS = ("model", "method", "strategy", "optimizer", "lr_schedule", "workers", "batch", "epochs", "accumulate", "precision", "seed", "overlap", "shard")


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
    subprocess.run([TELEGRAD, "train", "--clock", "virtual", "--no-eval", "--out", out, *args], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in open(out, encoding="utf-8")]


def simulate(answer, start, *args):
    """Seconds of all its steps, which --steps may have said."""
    end = train(answer, *options(start), "--sim-only", "--steps", str(start["steps"]), *args)[-1]
    assert end["steps"] == start["steps"], "other steps"
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


def seconds(start, measured, links, folder):
    """Of all steps over each link."""
    times = f"{folder}/times.jsonl"
    with open(times, "w", encoding="utf-8") as file:
        file.write(json.dumps(measured) + "\n")
    return [simulate(f"{folder}/answer.jsonl", start, "--tau", times, "--link", link) for link in links]


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


def main():
    args = sys.argv[1:]
    epoch = args[:1] == ["--epoch"]
    args = args[epoch:]
    folder = args[1] if args[:1] == ["--write"] and len(args) > 1 else None
    args = args[2 if folder else 0:]
    if "--" not in args[1:-1] or any("=" not in link for link in args[:args.index("--")]):
        sys.exit(__doc__)
    cut = args.index("--")
    names, links = zip(*(text.split("=", 1) for text in args[:cut]))
    rows, base = by_row(args[cut + 1:]), None
    starts = {row: runs[0][0] for row, runs in rows.items()}
    print("| run | computing, ms a step | " + " | ".join(f"{name}: {link}" for name, link in zip(names, links)) + " |")
    print("|---|---|" + "---|" * len(links))
    with tempfile.TemporaryDirectory() as folder_of_times:
        measured = measure(starts, folder_of_times)
        for row, start in starts.items():
            took = seconds(start, measured[row], links, folder_of_times)
            base = base or took
            part = start["steps"] / start["steps_per_epoch"] if epoch else 1
            cells = " | ".join(f"{clock(s / part)} = {b / s:.2f}x" for s, b in zip(took, base))
            print(f"| {row} | {measured[row]['tau_ms']:.1f} | {cells} |", flush=True)
            if folder:
                for name, total in zip(names, took):
                    write(folder, name, row, rows[row][0], total)


main()
