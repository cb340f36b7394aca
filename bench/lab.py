#!/usr/bin/env python3
"""Training over real TCP between four network namespaces, beside the same over emulated links in one process.

    bench/lab.py LAB_DIR OUT.jsonl [--links LINK...] [--methods SPEC...]

LAB_DIR has a laboratory: net.sh (up N --rate R --delay D, exec I CMD..., stats, down) and mpi.sh (N [MPIRUN OPTIONS] PROGRAM...); needs root and a
telegrad with MPI ($TELEGRAD, or build/release/telegrad). Each method trains ResNet-20 for two numbers of steps over each link: the
difference is what so many steps cost, without the start. A line for each link and method goes to OUT.jsonl, a table is printed.
An Ethernet link of R bits/s carries R x 1448 / 1538 of TCP's payload: that is the emulated link's rate."""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TELEGRAD = os.path.abspath(os.environ.get("TELEGRAD", os.path.join(HERE, "..", "build", "release", "telegrad")))
LINKS = ["1gbit,0ms", "100mbit,0ms", "100mbit,20ms", "20mbit,50ms"]
METHODS = ["none", "dense", "dense:exchange=ring", "dense:exchange=allgather", "fp16", "int8:exchange=ring", "2bit:threshold=auto",
           "powersgd:rank=4", "topk:density=0.01", "topk:density=0.01,exchange=reducescatter", "dgc:density=0.001,warmup=0"]
RANKS, FEW, MANY = 4, 5, 25
JOB = ["train", "--model", "resnet20", "--data", "glyphs:train=2000,test=100", "--batch", "2", "--no-eval"]
MPI = ["--mca", "btl_tcp_flags", "1", "--mca", "btl_tcp_eager_limit", "1048576"]  # docs/cluster.md says why
PAYLOAD = 1448 / 1538  # of an Ethernet frame with preamble and gap


def environment(limit=600):
    """Of the laboratory's programs, each of which ends after so many seconds."""
    return {**os.environ, "LAB": os.environ.get("LAB", "telegrad"), "LIMIT": str(limit), "OMP_NUM_THREADS": "1"}


def lab(folder, *args, limit=600):
    done = subprocess.run([os.path.join(folder, args[0]), *args[1:]], capture_output=True, text=True, timeout=limit + 300, check=False,
                          env=environment(limit))
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def sent(folder):
    """Ethernet bytes that host h0, where rank 0 is, has sent."""
    return int(re.search(r"eth0 of h0: tx (\d+)", lab(folder, "net.sh", "stats")).group(1))


def end_of(path):
    with open(path, encoding="utf-8") as file:
        return json.loads(file.readlines()[-1])


def job(method, steps, out):
    return [*JOB, "--method", "dense:exchange=none" if method == "none" else method, "--steps", str(steps), "--out", out]


def over_lab(folder, method, scratch):
    """The end records of few and of many steps, and the bytes of h0 between them."""
    ends, bytes_sent = [], []
    for steps in (FEW, MANY):
        out, before = os.path.join(scratch, f"{steps}.jsonl"), sent(folder)
        lab(folder, "mpi.sh", str(RANKS), *MPI, os.path.abspath(TELEGRAD), *job(method, steps, out))
        bytes_sent.append(sent(folder) - before)
        ends.append(end_of(out))
    return ends, bytes_sent[1] - bytes_sent[0]


def payload_link(link):
    """The emulated link that carries what TCP does over such an Ethernet."""
    rate, delay = link.split(",")
    number, unit = re.fullmatch(r"(\d+)(\w+)", rate).groups()
    return f"{float(number) * PAYLOAD:.3f}{unit},{delay}"


def emulated(method, link, scratch):
    out = os.path.join(scratch, "emulated.jsonl")
    subprocess.run([TELEGRAD, *job(method, MANY, out), "--workers", str(RANKS), "--link", payload_link(link)],
                   stdout=subprocess.DEVNULL, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return end_of(out)


def measure(folder, link, method):
    with tempfile.TemporaryDirectory() as scratch:
        (few, many), wire = over_lab(folder, method, scratch)
        own = emulated(method, link, scratch)
    steps = MANY - FEW
    said = (many["bytes_sent"] - few["bytes_sent"]) / steps
    same = many["params_hash"] == own["params_hash"]
    return {"link": link, "method": method, "ranks": RANKS, "steps": steps, "bytes_step": said, "ethernet_bytes_step": wire / steps,
            "step_ms": many["step_ms_median"], "exchange_ms": many["exchange_ms_median"], "compute_ms": many["compute_ms_median"],
            "emulated_step_ms": own["step_ms_median"], "emulated_exchange_ms": own["exchange_ms_median"],
            "emulated_compute_ms": own["compute_ms_median"], "same_parameters": same}


@contextlib.contextmanager
def network(folder, ranks, link):
    """The laboratory's hosts with this link, while it lasts. Without a delay the kernel's token bucket is the link, which takes less of
    the processors than emulating one."""
    rate, delay = link.split(",")
    lab(folder, "net.sh", "up", str(ranks), "--rate", rate, *(["--kind", "tbf"] if delay == "0ms" else ["--delay", delay]))
    try:
        for host in range(ranks):
            lab(folder, "net.sh", "exec", str(host), "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0")
        yield
    finally:
        lab(folder, "net.sh", "down")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out")
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    args = parser.parse_args()
    print(f"{'link':14} {'method':42} {'kB/step':>8} {'on eth0':>8} {'ratio':>6} {'step ms':>8} {'emulated':>8} {'ratio':>6}  parameters")
    with open(args.out, "a", encoding="utf-8") as out:
        for link in args.links:
            with network(args.lab, RANKS, link):
                for method in args.methods:
                    row = measure(args.lab, link, method)
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    kb, eth = row["bytes_step"] / 1e3, row["ethernet_bytes_step"] / 1e3
                    print(f"{link:14} {method:42} {kb:8.2f} {eth:8.2f} {eth / kb if kb else float('nan'):6.2f} {row['step_ms']:8.1f} "
                          f"{row['emulated_step_ms']:8.1f} {row['step_ms'] / row['emulated_step_ms']:6.2f}  "
                          f"{'same' if row['same_parameters'] else 'DIFFER'}", flush=True)


if __name__ == "__main__":
    main()
