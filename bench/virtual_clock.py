#!/usr/bin/env python3
"""Training by a virtual clock beside the same over emulated links in real time.

    bench/virtual_clock.py [--links LINK...] [--steps N] [--workers P] [--out FILE.jsonl]

LeNet-5 on generated digits, all ranks in this process ($TELEGRAD, or build/release/telegrad), for each link and strategy three
times: by the virtual clock, which measures and records what computing and coding take alone; by the real one; and by the virtual
clock again with what was recorded, computing as much longer as it took in the real run (ranks share cores there, and
other programs run). So the comparison is of everything else: when exchanges start, what they overlap, the links. Milliseconds a step: the median
over blocks of five steps, of which CD-SGD's fifth is dense. The table goes to stdout as Markdown, what it is of to FILE.jsonl."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TELEGRAD = os.environ.get("TELEGRAD", os.path.join(HERE, "..", "build", "release", "telegrad"))
LINKS = ["1gbit,5ms", "100mbit,20ms", "20mbit,10ms", "20mbit,50ms"]
BLOCK = 5
ROWS = [("ssgd, dense", ["--method", "dense"]),
        ("ssgd, dgc", ["--method", "dgc:density=0.001,warmup=0"]),
        ("ssgd, 2bit", ["--method", "2bit:threshold=auto"]),
        ("od, dense", ["--method", "dense", "--strategy", "od:warmup=0"]),
        ("cd, 2bit", ["--method", "2bit:threshold=auto", "--strategy", f"cd:k={BLOCK},warmup=0"])]


def train(out, *args):
    done = subprocess.run([TELEGRAD, "train", "--model", "lenet5", "--data", "glyphs:train=6400,test=100", "--no-eval", "--log-every",
                           str(BLOCK), "--out", out, *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}\n{done.stderr}")
    with open(out, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def step_ms(run):
    """Of a step: the median over blocks but the first."""
    times = [record["seconds"] for record in run if "step_ms" in record]
    return statistics.median(1e3 * (b - a) / BLOCK for a, b in zip(times, times[1:]))


def compare(link, args, steps, workers, folder):
    args = [*args, "--link", link, "--steps", str(steps), "--workers", str(workers)]
    recorded, virtual = os.path.join(folder, "recorded.jsonl"), ["--clock", "virtual"]
    alone = train(recorded, *virtual, *args)
    real = train(os.path.join(folder, "real.jsonl"), *args)
    compute = statistics.median(record["compute_ms"] for record in real if "step_ms" in record)
    slower = compute / alone[0]["tau_ms"]
    slow = [word for rank in range(workers) for word in ("--slow", f"{rank}:{slower:.6g}x")]
    again = train(os.path.join(folder, "again.jsonl"), *virtual, "--tau", recorded, *slow, *args)
    assert len({run[-1]["params_hash"] for run in (alone, real, again)}) == 1, "other bits"
    return {"link": link, "tau_ms": alone[0]["tau_ms"], "compute_ms": compute, "real_ms": step_ms(real), "virtual_ms": step_ms(again),
            "alone_ms": step_ms(alone)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link in args.links:
            for name, job in ROWS:
                rows.append({"run": name, **compare(link, job, args.steps, args.workers, folder)})
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
