#!/usr/bin/env python3
"""PyTorch's own communication hooks, torchft and hivemind beside telegrad from Python, on the same model, data and seeds.

    bench/peers.py LAB_DIR OUT_DIR [--rows ROW...] [--models MODEL...] [--parts PART...] [--links LINK...] [--repeat N]
    bench/peers.py LAB_DIR OUT_DIR --curves FOLDER --links LINK --models MODEL

LAB_DIR is a laboratory as for bench/lab.py; needs root. $PYTHON (python3) has PyTorch and telegrad (docs/pytorch.md), $PEERS_PYTHON the
same and torchft and hivemind; the rows of these two are left out without it. Four ranks, one thread of computing each, in two parts:

steps   a few steps over each link, a namespace for each rank ("loopback": all on this machine): time and bytes of a step
loss    all steps of a training, on this machine alone, because what is learned in a step does not depend on the link

What is in OUT_DIR is not measured again, so a run that was ended continues. Prints Markdown tables of all there is. --curves writes one
file for each row: its tests, with the times that its steps take over the link, as bench/curves.py reads them."""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from lab import RANKS, environment, network
from runs import read

PYTHONS = {"own": os.environ.get("PYTHON", "python3"), "peers": os.environ.get("PEERS_PYTHON")}
RANK = pathlib.Path(__file__).resolve().parent / "torch" / "peers_rank.py"
LINKS = ["100mbit,20ms", "20mbit,50ms", "1gbit,0ms", "loopback"]
BUDGET_S, STALL_S = 12, 400  # of the timed steps of a cell; without a result
MODELS = {
    "gpt": {"model_spec": "gpt", "data": "shakespeare", "context": 64, "batch": 8, "optimizer": "adamw:lr=0.002", "steps": 200, "round": 20,
            "test_every": 20, "eta_loc": 0.01, "bucket_bytes": 1 << 20},
    "resnet18": {"model_spec": "resnet18", "data": "cifar10:train=1", "context": 0, "batch": 4,
                 "optimizer": "sgd:lr=0.002,momentum=0.9,weight_decay=0.0005", "steps": 300, "round": 10, "test_every": 60, "eta_loc": 0.002,
                 "bucket_bytes": 0},
}
# Name: title, system (torch/systems.py), settings. period: steps of a round; warm: first steps that are not like the rest; most: steps of a
# training.
ROWS = {
    "alone": ("no exchange", "alone", {}),
    "pytorch-allreduce": ("PyTorch all-reduce", "ddp", {"spec": "none"}),
    "pytorch-fp16": ("PyTorch fp16", "ddp", {"spec": "fp16"}),
    "pytorch-powersgd": ("PyTorch PowerSGD, rank 2", "ddp", {"spec": "powersgd:rank=2,start=2", "warm": 3}),
    "torchft-diloco": ("torchft DiLoCo", "torchft", {"period": "round"}),
    "torchft-bucketed": ("torchft DiLoCo, in buckets", "torchft", {"period": "round", "bucketized": True}),
    "hivemind": ("hivemind", "hivemind", {"most": 20, "test_every": 4}),
    "telegrad-dense": ("telegrad dense", "telegrad", {"spec": "dense"}),
    "telegrad-ring": ("telegrad dense, ring", "telegrad", {"spec": "dense:exchange=ring"}),
    "telegrad-fp16": ("telegrad fp16, ring", "telegrad", {"spec": "fp16:exchange=ring"}),
    "telegrad-qsgd": ("telegrad QSGD, 4 bits", "telegrad", {"spec": "qsgd:exchange=reducescatter"}),
    "telegrad-powersgd": ("telegrad PowerSGD, rank 2", "telegrad", {"spec": "powersgd:rank=2,start=2", "warm": 3}),
    "telegrad-dgc": ("telegrad DGC 0.1 %", "telegrad", {"spec": "dgc:density=0.001,warmup=0,lookahead=0"}),
    "telegrad-cd": ("telegrad CD, 2 bits", "local", {"spec": "cd:k=0,warmup=0,local=sgd,eta_loc={eta_loc}", "method": "2bit:lookahead=0"}),
    "telegrad-diloco": ("telegrad DiLoCo", "local", {"spec": "diloco:every={round},warmup=0,rescale=no", "method": "dense:exchange=ring", "period": "round"}),
    "telegrad-streaming": ("telegrad Streaming DiLoCo", "local", {"spec": "streaming:every={round},fragments=2,overlap={half},warmup=0,rescale=no",
                                                                  "method": "dense:exchange=ring", "period": "round"}),
    "telegrad-sparseloco": ("telegrad SparseLoCo", "local", {"spec": "sparseloco:every={round}", "period": "round"}),
}
OF_PEERS = ("torchft", "hivemind")  # systems
LOSS_LEFT_OUT = ("alone", "telegrad-ring", "torchft-bucketed")  # the last two are others but for the order of sums


def job(part, link, model, row, repeat):
    """What peers_rank.py needs to know."""
    _, system, own = ROWS[row]
    settings = MODELS[model]
    keys = {**settings, "half": settings["round"] // 2}
    filled = {key: value.format(**keys) if isinstance(value, str) else value for key, value in own.items()}
    period = settings["round"] if own.get("period") else 1
    return {"part": part, "link": link, "model": model, "row": row, "repeat": repeat, "system": system, "seed": 1, "budget": BUDGET_S, "warm": 2,
            **settings, **filled, "period": period, "steps": min(settings["steps"], own.get("most", settings["steps"]))}


def name(cell):
    return tuple(cell[key] for key in ("part", "link", "model", "row", "repeat"))


class Records:
    """OUT_DIR/PART.jsonl: a line for each cell that was measured, or has failed."""

    def __init__(self, folder):
        self.folder = folder
        self.all = [record for path in sorted(folder.glob("*.jsonl")) for record in read(path)]
        self.names = {name(record) for record in self.all}

    def add(self, record):
        with open(self.folder / f"{record['part']}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.all.append(record)
        self.names.add(name(record))
        what = record.get("failed") or (f"{step_ms([record]):.0f} ms a step" if record["part"] == "steps" else f"loss {record['train_loss'][-1]}")
        print(*name(record), what, file=sys.stderr, flush=True)


def lines_of(path, known):
    """The whole lines that a rank has written behind the first so many."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines(keepends=True)[known:] if line.endswith("\n")]


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def launch(folder, link, python, jobs, records):
    """Start the ranks, and take in the results as they come. Returns what went wrong, or None."""
    inside = link != "loopback"
    env = {**environment(), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "10.77.0.1" if inside else "127.0.0.1", "MASTER_PORT": str(free_port()),
           "GLOO_SOCKET_IFNAME": "eth0" if inside else "lo"}
    with tempfile.TemporaryDirectory() as temporary:
        scratch = pathlib.Path(temporary)
        (scratch / "jobs").write_text(json.dumps(jobs), encoding="utf-8")
        out, err = scratch / "out", scratch / "err"
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            host = [os.path.join(folder, "net.sh"), "exec"]
            ranks = [subprocess.Popen([*(host + [str(rank)] if inside else []), python, RANK, scratch / "jobs"], stderr=stderr,
                                      stdout=stdout if rank == 0 else subprocess.DEVNULL, env={**env, "RANK": str(rank)})
                     for rank in range(RANKS)]
            try:
                known, news = 0, time.monotonic()
                while True:
                    running = any(rank.poll() is None for rank in ranks)
                    found = lines_of(out, known)
                    for record in found:
                        records.add(record)
                    known += len(found)
                    news = time.monotonic() if found else news
                    if not running or any(rank.poll() for rank in ranks) or time.monotonic() > news + STALL_S:
                        break
                    time.sleep(0.3)
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.wait()
        if known == len(jobs):
            return None
        said = [line for line in err.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        print("\n".join(said[-12:]), file=sys.stderr)
        ended = time.monotonic() > news + STALL_S
        return f"no result after {STALL_S} s" if ended else next((line for line in reversed(said) if "Error" in line), "ended")[:300]


def measure(folder, link, jobs, records):
    """All jobs over a link. A job that fails is recorded as failed, and the others go on without it."""
    for kind, python in PYTHONS.items():
        todo = [j for j in jobs if (j["system"] in OF_PEERS) == (kind == "peers") and name(j) not in records.names]
        while todo and python:
            with contextlib.nullcontext() if link == "loopback" else network(folder, RANKS, link):
                wrong = launch(folder, link, python, todo, records)
            todo = [j for j in todo if name(j) not in records.names]
            if todo and wrong:
                records.add({**{key: todo[0][key] for key in ("part", "link", "model", "row", "repeat")}, "failed": wrong})
                todo = todo[1:]


def step_ms(records):
    """Time of a step: the median over whole periods."""
    periods = []
    for record in records:
        period = MODELS[record["model"]]["round"] if ROWS[record["row"]][2].get("period") else 1
        times = record["ms"]
        periods += [statistics.mean(times[i:i + period]) for i in range(0, len(times), period)]
    return statistics.median(periods)


def cells_of(records, **wanted):
    return [r for r in records.all if all(r.get(key) == value for key, value in wanted.items()) and "failed" not in r]


def rows_of(records, part, model):
    found = {r["row"] for r in records.all if r["part"] == part and r["model"] == model}
    return [row for row in ROWS if row in found]


def table_of_steps(records, model):
    links = [link for link in LINKS if cells_of(records, part="steps", model=model, link=link)]
    print(f"\n{model}\n\n| row | {' | '.join(f'{link}: ms per step | kB per step' for link in links)} |")
    print("|---|" + "---|" * 2 * len(links))
    for row in rows_of(records, "steps", model):
        cells = []
        for link in links:
            found = cells_of(records, part="steps", model=model, link=link, row=row)
            sizes = [r["bytes_step"] / 1e3 for r in found if r["bytes_step"] is not None]
            cells += [f"{step_ms(found):.0f}" if found else "-", f"{statistics.median(sizes):.1f}" if sizes else "-"]
        print(f"| {ROWS[row][0]} | {' | '.join(cells)} |")


def smooth(losses, last=10):
    return statistics.mean(losses[-last:])


def reached(tests, level):
    """The step of the first test at this level."""
    return next((test["step"] for test in tests if test["test_loss"] <= level), None)


def table_of_loss(records, model):
    """The level is what plain all-reduce reaches after two fifths of its steps."""
    base = cells_of(records, part="loss", model=model, row="pytorch-allreduce")
    if not base:
        return
    level = base[0]["tests"][max(0, 2 * len(base[0]["tests"]) // 5 - 1)]["test_loss"]
    links = [link for link in LINKS if cells_of(records, part="steps", model=model, link=link) and link != "loopback"]
    print(f"\n{model}\n\n| row | samples | training loss | test loss at the end | {' | '.join(f'{level:.2f} over {link}' for link in links)} |")
    print("|---|---|---|---|" + "---|" * len(links))
    for row in rows_of(records, "loss", model):
        for r in cells_of(records, part="loss", model=model, row=row):
            step, cells = reached(r["tests"], level), []
            for link in links:
                found = cells_of(records, part="steps", model=model, link=link, row=row)
                cells.append(f"{step * step_ms(found) / 1e3:.0f} s" if step and found else "-")
            print(f"| {ROWS[row][0]} | {r['samples']} | {smooth(r['train_loss']):.3f} | {r['tests'][-1]['test_loss']:.3f} | {' | '.join(cells)} |")


def tables(records):
    for model in MODELS:
        if rows_of(records, "steps", model):
            table_of_steps(records, model)
    for model in MODELS:
        table_of_loss(records, model)
    failed = [r for r in records.all if "failed" in r]
    if failed:
        print("\nFailed:\n")
    for r in failed:
        print("-", *name(r)[:4], r["failed"])


def curves(records, model, link, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows_of(records, "loss", model):
        loss = cells_of(records, part="loss", model=model, row=row)
        steps = cells_of(records, part="steps", model=model, link=link, row=row)
        if loss and steps:
            head = {"type": "start", "title": ROWS[row][0], "network": link, "model": model}
            tests = [{"type": "test", "seconds": test["step"] * step_ms(steps) / 1e3, **test} for test in loss[0]["tests"]]
            text = "".join(json.dumps(record) + "\n" for record in [head, *tests, {**tests[-1], "type": "end"}])
            (folder / f"{row}-1.jsonl").write_text(text, encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--parts", nargs="*", choices=("steps", "loss"), default=["loss", "steps"], metavar="PART",
                        help="steps, loss; none: only tables")
    parser.add_argument("--links", nargs="+", default=LINKS, metavar="LINK", help="RATE,DELAY or loopback")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="times that the steps of each row are measured, in turn")
    parser.add_argument("--curves", type=pathlib.Path, metavar="FOLDER")
    return parser.parse_args()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    records = Records(args.out)
    if args.curves:
        curves(records, args.models[0], args.links[0], args.curves)
        return
    if "loss" in args.parts:
        jobs = [job("loss", "loopback", model, row, 0) for model in args.models for row in args.rows if row not in LOSS_LEFT_OUT]
        measure(args.lab, "loopback", jobs, records)
    if "steps" in args.parts:
        for link in args.links:
            jobs = [job("steps", link, model, row, repeat) for repeat in range(args.repeat) for model in args.models for row in args.rows]
            measure(args.lab, link, jobs, records)
    tables(records)


if __name__ == "__main__":
    main()
