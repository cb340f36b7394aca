#!/usr/bin/env python3
"""Steps with parameter servers over real TCP, beside the time that their bytes and delays take at least.

    bench/server_link.py LAB_DIR OUT.jsonl [--links LINK...] [--methods SPEC...] [--repeat N]

LAB_DIR has a laboratory as bench/lab.py needs it. Four workers and one or two servers, each in a network namespace with a key of its own,
over telegrad's own TCP. ResNet-20 on two generated digits a worker and step, in five buckets (--fusion 256K). Servers are

    sum    ranks of the job (train --servers S), which sum gradients
    sync   telegrad serve --mode sync, which keeps the parameters

The least time of a step is max(C, F/R, D/R, P F/(S R), P D/(S R)) + 2 delays: C is the time of computing, as the run itself says; F and D are
what a worker sends and gets, R is the link's rate for TCP's payload, P = 4, and S is the number of servers. A JSON line for each run goes to
OUT.jsonl; one that is there is not made again. Prints a Markdown table of all there is."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import lab

WORKERS, STEPS, PORT, LIMIT = lab.RANKS, 25, 4242, 600
METHODS = ["dense", "fp16", "2bit:threshold=auto", "2bit:threshold=auto,exchange=twoway", "dgc:density=0.001,warmup=0",
           "dgc:density=0.001,warmup=0,exchange=twoway"]
PARAMETERS = 269434  # of ResNet-20


def start(folder, host, *command, err):
    return subprocess.Popen([os.path.join(folder, "net.sh"), "exec", str(host), "timeout", str(LIMIT), lab.TELEGRAD, *command],
                            stdout=subprocess.DEVNULL, stderr=err, env=lab.environment(LIMIT))


def make_keys(scratch, count):
    public = []
    for i in range(count):
        done = subprocess.run([lab.TELEGRAD, "key", "new", os.path.join(scratch, f"{i}.key")], capture_output=True, text=True, check=True)
        public.append(done.stdout.strip())
    with open(os.path.join(scratch, "all"), "w", encoding="utf-8") as file:
        file.write("".join(f"{key} host{i}\n" for i, key in enumerate(public)))
    return public


def commands(mode, servers, method, scratch, public):
    """Of the hosts in turn: workers, then servers."""
    def key(i):
        return ["--key", os.path.join(scratch, f"{i}.key")]

    train = [*lab.JOB, "--fusion", "256K", "--method", method, "--steps", str(STEPS)]
    allow, out = ["--allow", os.path.join(scratch, "all")], ["--out", os.path.join(scratch, "out.jsonl")]
    count = WORKERS + servers
    if mode == "sum":
        job = [*train, "--servers", str(servers)]
        return [[*job, *out, "--listen", f"tcp://0.0.0.0:{PORT}", "--ranks", str(count), *key(0), *allow],
                *([*job, "--join", f"tcp://h0:{PORT}", "--peer-key", public[0], *key(i)] for i in range(1, count))]
    addresses = ",".join(f"tcp://h{WORKERS + q}:{PORT}" for q in range(servers))
    attach = ["--server", addresses, "--server-key", ",".join(public[WORKERS:])]
    return [*([*train, *attach, *key(i), *(out if i == 0 else [])] for i in range(WORKERS)),
            *(["serve", "--listen", f"tcp://0.0.0.0:{PORT}", "--mode", "sync", "--min", str(WORKERS), "--workers", str(WORKERS), "--shard",
               f"{q}/{servers}", *key(WORKERS + q), *allow] for q in range(servers))]


def measure(folder, link, mode, servers, method):
    with tempfile.TemporaryDirectory() as scratch, open(os.path.join(scratch, "err"), "w+b") as err:
        public = make_keys(scratch, WORKERS + servers)
        running = [start(folder, host, *command, err=err) for host, command in enumerate(commands(mode, servers, method, scratch, public))]
        failed = any([process.wait() for process in running[:WORKERS]])  # all are waited for
        for process in running[WORKERS:]:
            if mode == "sync":
                process.terminate()
            process.wait()
        if failed:
            err.seek(0)
            sys.exit(f"{link} {mode} {method}: a worker failed\n{err.read().decode()[-2000:]}")
        end = lab.end_of(os.path.join(scratch, "out.jsonl"))
    return {"step_ms": end["step_ms_median"], "compute_ms": end["compute_ms_median"], "exchange_ms": end["exchange_ms_median"],
            "up": end["bytes_per_step"]}


def least_ms(row):
    rate, delay = lab.payload_link(row["link"]).split(",")
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", rate).groups()
    bytes_ms = float(number) * {"mbit": 1e6, "gbit": 1e9}[unit] / 8e3
    down = row["up"] if "twoway" in row["method"] else 4 * PARAMETERS
    most = max(row["up"], down)
    return max(row["compute_ms"], most / bytes_ms, WORKERS * most / (row["servers"] * bytes_ms)) + 2 * float(delay[:-2])


def print_tables(rows):
    links = [link for link in lab.LINKS if any(r["link"] == link for r in rows)]
    for mode, servers in sorted({(r["mode"], r["servers"]) for r in rows}):
        print(f"\n{mode}, {servers} server{'s' * (servers > 1)}\n\n| method | up, kB | {' | '.join(links)} |\n|---|---|{'---|' * len(links)}")
        for method in METHODS:
            of = [r for r in rows if (r["mode"], r["servers"], r["method"]) == (mode, servers, method)]
            cells = []
            for link in links:
                here = [r for r in of if r["link"] == link]
                if here:
                    row = min(here, key=lambda r: r["step_ms"] / least_ms(r))
                    ratio = statistics.median(r["step_ms"] / least_ms(r) for r in here)
                    cells.append(f"{row['step_ms']:.0f} / {least_ms(row):.0f} = {ratio:.2f}")
                else:
                    cells.append("-")
            if of:
                print(f"| `{method}` | {of[0]['up'] / 1e3:.1f} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out")
    parser.add_argument("--links", nargs="+", default=lab.LINKS)
    parser.add_argument("--methods", nargs="+", default=METHODS, metavar="SPEC")
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    there = []
    if os.path.exists(args.out):
        with open(args.out, encoding="utf-8") as file:
            there = [json.loads(line) for line in file]
    for link in args.links:
        for servers in (1, 2):
            with lab.network(args.lab, WORKERS + servers, link):
                for repeat, mode, method in ((n, m, s) for n in range(args.repeat) for m in ("sum", "sync") for s in args.methods):
                    names = {"link": link, "mode": mode, "servers": servers, "method": method, "repeat": repeat}
                    if any(all(r[k] == v for k, v in names.items()) for r in there):
                        continue
                    row = {**names, **measure(args.lab, link, mode, servers, method)}
                    there.append(row)
                    with open(args.out, "a", encoding="utf-8") as out:
                        out.write(json.dumps(row) + "\n")
                    print(f"{link} {mode} {servers} {method}: {row['step_ms']:.1f} / {least_ms(row):.1f} ms", file=sys.stderr, flush=True)
    print_tables(there)


if __name__ == "__main__":
    main()
