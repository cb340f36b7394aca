#!/usr/bin/env python3
"""Test accuracy against time over a slow link: telegrad, and PyTorch's DistributedDataParallel with its own hooks, over the same network.

    bench/slow_link.py LAB_DIR OUT_DIR [ROW...] [--link RATE,DELAY] [--steps N] [--every STEPS] [-- OPTION...]

LAB_DIR is a laboratory as for bench/lab.py; telegrad is $TELEGRAD (build/release/telegrad), and $PYTHON (python3) has PyTorch and, for the
rows `hook-*`, the package telegrad. LeNet-5 on MNIST, on
four ranks in four network namespaces, one thread of computing each; each OPTION (--batch 16) goes to both programs. Each row trains alone.
Its weights are put aside every so many steps and tested after the run; the times are those of training until then. A row whose
OUT_DIR/ROW-1.jsonl exists is not run again. Prints a Markdown table of all rows in OUT_DIR."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from lab import MPI, RANKS, TELEGRAD, environment, lab, network, sent
from runs import read

PYTHON = os.environ.get("PYTHON", "python3")
DDP = pathlib.Path(__file__).resolve().parent / "torch" / "ddp.py"
# Name: title, program, steps (100 to 280 s over the default link), steps between tests, options.
ROWS = {
    "pytorch-allreduce": ("PyTorch all-reduce", "torch", 200, 20, ["--hook", "none"]),
    "pytorch-fp16": ("PyTorch fp16", "torch", 300, 20, ["--hook", "fp16"]),
    "pytorch-localsgd": ("PyTorch post-localSGD", "torch", 300, 20, ["--hook", "localsgd:every=4,start=100"]),
    "pytorch-powersgd": ("PyTorch PowerSGD", "torch", 640, 40, ["--hook", "powersgd:rank=2,start=10"]),
    "hook-2bit": ("telegrad's hook in PyTorch, 2-bit", "torch", 800, 40, ["--telegrad", "2bit:lookahead=0"]),
    "hook-powersgd": ("telegrad's hook in PyTorch, PowerSGD", "torch", 1200, 40, ["--telegrad", "powersgd:rank=2"]),
    "hook-dgc": ("telegrad's hook in PyTorch, DGC 0.1 %", "torch", 2000, 40, ["--telegrad", "dgc:density=0.001,warmup=40,lookahead=0"]),
    "telegrad-dense": ("telegrad dense (ring)", "telegrad", 160, 20, ["--method", "dense:exchange=ring"]),
    "telegrad-2bit": ("telegrad 2-bit", "telegrad", 800, 40, ["--method", "2bit:lookahead=0", "--strategy", "ssgd"]),
    "telegrad-powersgd": ("telegrad PowerSGD", "telegrad", 1200, 40, ["--method", "powersgd:rank=2"]),
    "telegrad-dgc": ("telegrad DGC 0.1 %", "telegrad", 2000, 40, ["--method", "dgc:density=0.001,warmup=40,lookahead=0"]),
}
LEVELS = (0.95, 0.97, 0.98)
START_S, STEP_S = 600, 4  # at most, for start and tests, and for a step


class Watcher(threading.Thread):
    """What has to be caught while a run lasts: the bytes that rank 0's host had sent when training began, which the first record says,
    and the weights of each checkpoint, which are linked into another folder: telegrad itself keeps the last two."""

    def __init__(self, lab_folder, records, checkpoints, kept):
        super().__init__()
        self.lab_folder, self.records, self.checkpoints, self.kept = lab_folder, records, checkpoints, kept
        self.before, self.ended = None, threading.Event()

    def look(self):
        if self.before is None and self.records.exists() and self.records.stat().st_size > 0:
            self.before = sent(self.lab_folder)
        for place in self.checkpoints.glob("step-*[0-9]"):
            step = int(place.name.split("-")[1])
            try:
                os.link(place / "model.safetensors", self.kept / f"{step}.safetensors")
            except (FileExistsError, FileNotFoundError):  # linked before; removed just now
                pass

    def run(self):
        while not self.ended.wait(0.05):
            self.look()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
        self.look()


def tested(path):
    done = subprocess.run([TELEGRAD, "eval", "--weights", path, "--batch", "100", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def telegrad(folder, job, out, checkpoints):
    """Train; the records are in out."""
    steps, every, options = job
    lab(folder, "mpi.sh", str(RANKS), *MPI, TELEGRAD, "train", *options, "--steps", str(steps), "--no-eval", "--log-every", str(every),
        "--save", str(checkpoints), "--save-every", str(every), "--out", str(out), limit=START_S + STEP_S * steps)


def with_tests(records, kept):
    """A run of telegrad as ddp.py records it."""
    seconds = {record["step"]: record["seconds"] for record in records if record["type"] == "step"}
    places = sorted(int(path.stem) for path in kept.iterdir())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tested, [kept / f"{step}.safetensors" for step in places]))
    tests = [{"type": "test", "step": step, "seconds": seconds[step], "test_accuracy": result["test_accuracy"],
              "test_loss": result["test_loss"]} for step, result in zip(places, results)]
    return [records[0], *tests, {**records[-1], "test_accuracy": tests[-1]["test_accuracy"], "test_loss": tests[-1]["test_loss"]}]


def wait_for_all(ranks, deadline):
    """Until all have ended well; ends the others when one failed, or all at the deadline. What went wrong, or None."""
    try:
        while any(rank.poll() is None for rank in ranks):
            if any(rank.poll() for rank in ranks) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if all(rank.returncode == 0 for rank in ranks):
        return None
    return "failed" if any(rank.returncode > 0 for rank in ranks) else "did not end in time"


def torch(folder, job, out, scratch):
    """The same with ddp.py."""
    steps, every, options = job
    limit = START_S + STEP_S * steps
    env = {**environment(limit), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0"}
    err = scratch / "err"
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        command = [PYTHON, DDP, *options, "--steps", str(steps), "--test-every", str(every)]
        ranks = [subprocess.Popen([os.path.join(folder, "net.sh"), "exec", str(rank), *command], env={**env, "RANK": str(rank)},
                                  stdout=stdout if rank == 0 else subprocess.DEVNULL, stderr=stderr) for rank in range(RANKS)]
        wrong = wait_for_all(ranks, time.monotonic() + limit)
        if wrong:
            sys.exit(f"{' '.join(map(str, command))}: {wrong}\n{err.read_text(encoding='utf-8', errors='replace')[-3000:]}")


def run(folder, path, link, row, steps, every, more):
    title, program, own_steps, own_every, options = ROWS[row]
    job = steps or own_steps, every or own_every, [*options, *more]
    with tempfile.TemporaryDirectory() as temporary:
        scratch = pathlib.Path(temporary)
        out, checkpoints, kept = scratch / "run.jsonl", scratch / "checkpoints", scratch / "kept"
        checkpoints.mkdir()
        kept.mkdir()
        with network(folder, RANKS, link), Watcher(folder, out, checkpoints, kept) as watcher:
            (torch if program == "torch" else telegrad)(folder, job, out, scratch if program == "torch" else checkpoints)
            after = sent(folder)
        records = read(out) if program == "torch" else with_tests(read(out), kept)
    records[0] = {**records[0], "title": title, "network": link}
    records[-1]["ethernet_bytes"] = after - watcher.before
    text = "".join(json.dumps(record) + "\n" for record in records)
    aside = path.with_suffix(".part")
    aside.write_text(text, encoding="utf-8")
    aside.rename(path)


def reached(tests, level):
    """Seconds until the first test at this level."""
    return next((f"{test['seconds']:.0f} s" for test in tests if test["test_accuracy"] >= level), "-")


def table(folder):
    heads = [*(f"{100 * level:.0f} % after" for level in LEVELS), "test accuracy at the end"]
    print(f"| run | steps | ms per step | kB per step on Ethernet | {' | '.join(heads)} |")
    print("|---|---|---|---|" + "---|" * (len(LEVELS) + 1))
    for path in (folder / f"{row}-1.jsonl" for row in ROWS):
        if path.exists():
            records = read(path)
            tests, steps = [record for record in records if record["type"] == "test"], records[-1]["steps"]
            cells = [str(steps), f"{1e3 * tests[-1]['seconds'] / tests[-1]['step']:.0f}", f"{records[-1]['ethernet_bytes'] / steps / 1e3:.1f}",
                     *(reached(tests, level) for level in LEVELS), f"{100 * tests[-1]['test_accuracy']:.2f} % after {tests[-1]['seconds']:.0f} s"]
            print(f"| {records[0]['title']} | {' | '.join(cells)} |")


def arguments():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--link", default="20mbit,10ms")
    parser.add_argument("--steps", type=int, default=0, help="in the place of the rows' own")
    parser.add_argument("--every", type=int, default=0, metavar="STEPS", help="between tests, in the place of the rows' own")
    args = parser.parse_args(words[:cut])
    args.more = words[cut + 1:]
    unknown = [row for row in args.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]}; there are {', '.join(ROWS)}")
    return args


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    own = {"--model": "lenet5", "--data": "mnist", "--batch": "32", "--optimizer": "sgd:lr=0.05,momentum=0.9", "--seed": "1"}
    more = [word for option in own if option not in args.more for word in (option, own[option])] + args.more
    for row in args.rows or ROWS:
        path = args.out / f"{row}-1.jsonl"
        if not path.exists():
            print(f"{row} ...", file=sys.stderr, flush=True)
            run(args.lab, path, args.link, row, args.steps, args.every, more)
    table(args.out)


if __name__ == "__main__":
    main()
