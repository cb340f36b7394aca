#!/usr/bin/env python3
"""Two machines with two processes each: stock DistributedDataParallel, and telegrad.torch.ddp without and with node=.

    bench/nodes.py LAB_DIR OUT.jsonl [LINK...]

LAB_DIR is a laboratory as for bench/lab.py; needs root. $PYTHON (python3) has PyTorch and telegrad. A namespace is a machine; the
processes in it reach each other by its loopback. Measures forward and backward passes of a model with 1.6 million parameters. A line for each
link and row goes to OUT.jsonl; a Markdown table is printed."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
from lab import environment, network

PYTHON = os.environ.get("PYTHON", "python3")
RANK = pathlib.Path(__file__).resolve().parent / "torch" / "nodes_rank.py"
METHODS = ["dense", "fp16", "qsgd:bits=4", "topk:density=0.01", "dgc:density=0.001,warmup=0"]
JOBS = [[0, "all-reduce"], *([levels, method] for method in METHODS for levels in (1, 2))]
NAMES = ("DistributedDataParallel", "one level", "two levels")
MACHINES, EACH = 2, 2


def measure(folder, link):
    size = MACHINES * EACH
    env = {**environment(900), "WORLD_SIZE": str(size), "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "eth0"}
    with network(folder, MACHINES, link):
        ranks = [subprocess.Popen([os.path.join(folder, "net.sh"), "exec", str(rank // EACH), PYTHON, RANK, json.dumps(JOBS)], text=True,
                                  env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE) for rank in range(size)]
        lines = ranks[0].communicate()[0].splitlines()
        if any(rank.wait() for rank in ranks):
            sys.exit("bench/nodes.py: a rank has failed")
    return [{"link": link, **json.loads(line)} for line in lines]


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    folder, out, links = sys.argv[1], sys.argv[2], sys.argv[3:] or ["1gbit,0ms", "100mbit,20ms", "20mbit,50ms"]
    records = [record for link in links for record in measure(folder, link)]
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    print("| method | levels |" + "".join(f" {link}: ms | kB |" for link in links))
    print("|---|---|" + "---|---|" * len(links))
    for levels, method in JOBS:
        cells = [r for r in records if (r["levels"], r["method"]) == (levels, method)]
        print(f"| `{method}` | {NAMES[levels]} |" + "".join(f" {statistics.mean(r['ms']):.0f} | {r['bytes'] / 1000:.1f} |" for r in cells))


if __name__ == "__main__":
    main()
