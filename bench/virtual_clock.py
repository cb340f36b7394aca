#!/usr/bin/env python3
"""Training by a virtual clock beside the same over emulated links in real time.

    bench/virtual_clock.py [--links LINK...] [--runs NAME...] [--seconds S] [--workers P] [--lab LAB_DIR] [--out FILE.jsonl]

LeNet-5 on generated digits, all ranks in this process ($TELEGRAD, or build/release/telegrad), for each link and strategy three
times: by the virtual clock, which measures and records what computing and coding take alone; by the real one; and by the virtual
clock again with what was recorded, computing as much longer as it took in the real run (ranks share cores there, and
other programs run). So the comparison is of everything else: when exchanges start, what they overlap, the links. Milliseconds a step: of the
median of many blocks of five steps (of which CD-SGD has one dense step, local SGD one exchange), and computing as in that block; the machine must be quiet. The table goes to stdout as Markdown, what it is of
to FILE.jsonl. With LAB_DIR (bench/lab.py says what that is) the real run is over TCP, its ranks processes of their own."""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

import lab

HERE = os.path.dirname(os.path.abspath(__file__))
TELEGRAD = os.path.abspath(os.environ.get("TELEGRAD", os.path.join(HERE, "..", "build", "release", "telegrad")))
LINKS = ["1gbit,5ms", "100mbit,20ms", "20mbit,10ms", "20mbit,50ms"]
BLOCK = 5
ROWS = [("ssgd, dense", ["--method", "dense"]),
        ("ssgd, dgc", ["--method", "dgc:density=0.001,warmup=0"]),
        ("ssgd, 2bit", ["--method", "2bit:threshold=auto", "--strategy", "ssgd"]),
        ("od, dense", ["--method", "dense", "--strategy", "od:warmup=0"]),
        ("cd, 2bit", ["--method", "2bit:threshold=auto", "--strategy", f"cd:k={BLOCK},warmup=0"]),
        ("dga, dense", ["--method", "dense", "--strategy", "dga:delay=4"]),
        ("local, dense", ["--method", "dense", "--strategy", f"local:every={BLOCK}"])]


JOB = [TELEGRAD, "train", "--model", "lenet5", "--data", "glyphs:train=6400,test=100", "--no-eval", "--log-every", str(BLOCK)]


def train(out, *args):
    done = subprocess.run([*JOB, "--out", out, *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}\n{done.stderr}")
    return records(out)


def train_over(folder, workers, out, *args):
    """Over the laboratory."""
    lab.lab(folder, "mpi.sh", str(workers), *lab.MPI, *JOB, "--out", out, *args)
    return records(out)


def records(out):
    with open(out, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def typical(run):
    """(ms a step, ms of it computing) of the median block, without the first."""
    steps = [record for record in run if "step_ms" in record]
    blocks = sorted((1e3 * (b["seconds"] - a["seconds"]) / BLOCK, b["compute_ms"]) for a, b in zip(steps, steps[1:]))
    return blocks[len(blocks) // 2]


def compare(link, args, seconds, workers, laboratory, folder):
    job = [*args, "--steps"]
    args = [*args, "--link", lab.payload_link(link) if laboratory else link, "--workers", str(workers), "--steps"]
    recorded, virtual = os.path.join(folder, "recorded.jsonl"), ["--clock", "virtual"]
    alone = train(recorded, *virtual, *args, str(4 * BLOCK))
    steps = str(BLOCK * max(12, round(seconds * 1e3 / BLOCK / typical(alone)[0])))
    args.append(steps)
    real = os.path.join(folder, "real.jsonl")
    real = train_over(laboratory, workers, real, *job, steps) if laboratory else train(real, *args)
    real_ms, compute = typical(real)
    slower = compute / alone[0]["tau_ms"]
    slow = [word for rank in range(workers) for word in ("--slow", f"{rank}:{slower:.6g}x")]
    again = train(os.path.join(folder, "again.jsonl"), *virtual, "--tau", recorded, *slow, *args)
    assert real[-1]["params_hash"] == again[-1]["params_hash"], "other bits"
    return {"link": link, "tau_ms": alone[0]["tau_ms"], "compute_ms": compute, "real_ms": real_ms, "virtual_ms": typical(again)[0],
            "alone_ms": typical(alone)[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--runs", nargs="+", metavar="NAME", default=[name for name, _ in ROWS], choices=[name for name, _ in ROWS])
    parser.add_argument("--seconds", type=float, default=15, help="of each real run, if computing is as fast as alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lab")
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link in args.links:
            with lab.network(args.lab, args.workers, link) if args.lab else contextlib.nullcontext():
                for name, job in ((name, job) for name, job in ROWS if name in args.runs):
                    rows.append({"run": name, **compare(link, job, args.seconds, args.workers, args.lab, folder)})
                    print(rows[-1], file=sys.stderr)
    print("| link | run | computing, alone | in the real run | step, real | step, virtual | error |\n|---|---|---|---|---|---|---|")
    errors = []
    for row in rows:
        errors.append(row["virtual_ms"] / row["real_ms"] - 1)
        print(f"| {row['link']} | {row['run']} | {row['tau_ms']:.1f} | {row['compute_ms']:.1f} | {row['real_ms']:.1f} | {row['virtual_ms']:.1f} "
              f"| {100 * errors[-1]:+.1f} % |")
    print(f"\nMedian error {100 * statistics.median(map(abs, errors)):.1f} %, largest {100 * max(map(abs, errors)):.1f} %.")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
