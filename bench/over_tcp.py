#!/usr/bin/env python3
"""telegrad's TCP transport beside MPI, between network namespaces: exchanges, arrivals of messages, lossy links, loopback.

    bench/over_tcp.py LAB_DIR OUT.jsonl [--links LINK...] [--methods SPEC...] [--parts PART...] [--seconds S]

LAB_DIR has a laboratory as bench/lab.py needs it ($LAB: its name). Needs root, and telegrad and bench_messages of one build ($BUILD,
or build/release). A JSON line for each measurement goes to OUT.jsonl and, in short, to standard output. Parts:

    exchanges  each method over TCP and over MPI, in turn, four ranks: the median step beside the bound of telegrad bench exchange
    arrivals   messages of 64 bytes and 1 MiB, also after 10 s of silence: ms from sending to the end of receiving
    losses     50 Mbit/s, 25 ms and lost packets: Mbit/s of telegrad's TCP, and of one plain connection with bbr and with cubic
    loopback   1 MiB messages on one machine: MB/s and processor seconds a GB, and what openssl speed encrypts on one core"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import lab

BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(lab.HERE, "..", "build", "release")))
TELEGRAD, MESSAGES = os.path.join(BUILD, "telegrad"), os.path.join(BUILD, "bench_messages")
METHODS = ["dense", "dense:exchange=ring", "dense:exchange=allgather", "dgc:density=0.001,warmup=0"]
MIB, PORT, LIMIT = 1 << 20, 4242, 300
TURNS = 3
ARRIVALS = ["arrival:64:20:0.1", f"arrival:{MIB}:10:0.1", "arrival:64:2:10", f"arrival:{MIB}:2:10"]


def together(commands):
    """Run the commands at the same time. Returns what each has printed."""
    running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=lab.environment(LIMIT)) for c in commands]
    said = [p.communicate(timeout=LIMIT + 60) for p in running]
    for p, (out, err) in zip(running, said):
        if p.returncode != 0:
            sys.exit(f"{' '.join(p.args)}: exit status {p.returncode}\n{out[-2000:]}{err[-2000:]}")
    return [out for out, _ in said]


def rows(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def inside(folder, host, *command):
    return [os.path.join(folder, "net.sh"), "exec", str(host), "timeout", str(LIMIT), *command]


def bench(*options):
    return [TELEGRAD, "bench", "exchange", "--model", "resnet20", "--json", *options]


def over_tcp(folder, options, keys):
    """telegrad bench exchange on four ranks over TCP; the rows of rank 0."""
    ranks = [inside(folder, 0, *bench(*options), "--listen", f"tcp://0.0.0.0:{PORT}", "--ranks", str(lab.RANKS), "--key",
                    os.path.join(keys, "0.key"), "--allow", os.path.join(keys, "1.pub"))]
    with open(os.path.join(keys, "0.pub"), encoding="utf-8") as file:
        peer = file.read().strip()
    for host in range(1, lab.RANKS):
        ranks.append(inside(folder, host, *bench(*options), "--join", f"tcp://h0:{PORT}", "--peer-key", peer, "--key",
                            os.path.join(keys, "1.key")))
    return rows(together(ranks)[0])


def over_mpi(folder, options):
    return rows(lab.lab(folder, "mpi.sh", str(lab.RANKS), *lab.MPI, *bench(*options)))


def drops(folder):
    return sum(int(n) for n in re.findall(r"drop_(?:up|down) (\d+)", lab.lab(folder, "net.sh", "stats")))


def exchanges(folder, link, args, keys, write):
    options = ["--seconds", str(args.seconds), "--real-link", lab.payload_link(link)]
    for method in args.methods:
        for turn in range(TURNS):
            for over in ("tcp", "mpi"):
                before = drops(folder)
                done = over_tcp(folder, [*options, method], keys) if over == "tcp" else over_mpi(folder, [*options, method])
                row = done[0]
                write({"part": "exchanges", "link": link, "method": method, "over": over, "turn": turn, "ms": row["ms"]["median"],
                       "min_ms": row["ms"]["min"], "samples": row["samples"], "bound_ms": row["bound_ms"], "codec_ms": row["codec_ms"]["median"],
                       "bytes": row["bytes_sent"], "drops": drops(folder) - before})


def messages_over_tcp(commands, over, address, keys, tests):
    """bench_messages on two ranks, which the command prefixes start; the rows."""
    options = [over, "{}", address, *(["--keys", keys] if over != "plain" and keys else []), *tests]
    ends = [[*commands[r], MESSAGES, *(o.format(("listen", "join")[r]) for o in options)] for r in range(2)]
    return rows(together(ends)[0])


def arrivals(folder, link, keys, write):
    hosts = [inside(folder, 0), inside(folder, 1)]
    rate, delay = lab.payload_link(link).split(",")
    bits = float(re.match(r"[\d.]+", rate).group()) * (1e9 if "gbit" in rate else 1e6)
    done = messages_over_tcp(hosts, "tcp", f"tcp://10.77.0.1:{PORT}", keys, ARRIVALS)
    done += rows(lab.lab(folder, "mpi.sh", "2", *lab.MPI, MESSAGES, "mpi", *ARRIVALS))
    for row in done:
        write({"part": "arrivals", "link": link, **row, "least_ms": float(delay[:-2]) + row["bytes"] * 8e3 / bits})


def set_control(folder, control):
    for host in range(2):
        lab.lab(folder, "net.sh", "exec", str(host), "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={control}")


def losses(folder, keys, write):
    for loss in ("0.0005", "0.005"):
        lab.lab(folder, "net.sh", "up", "2", "--rate", "50mbit", "--delay", "25ms", "--loss", loss)
        hosts = [inside(folder, 0), inside(folder, 1)]
        for turn in range(TURNS):
            for over, control in (("tcp", "cubic"), ("plain", "bbr"), ("plain", "cubic")):
                set_control(folder, control)
                row = messages_over_tcp(hosts, over, f"tcp://10.77.0.1:{PORT}", keys, [f"stream:{MIB}:20"])[0]
                name = "telegrad" if over == "tcp" else control
                write({"part": "losses", "loss": float(loss), "turn": turn, "control": name, "mbit_s": 8 * row["MB_s"]})
        lab.lab(folder, "net.sh", "down")


def loopback(keys, write):
    cores = [["taskset", "-c", str(core)] for core in (0, 1)]
    for turn in range(TURNS):
        said = subprocess.run(["taskset", "-c", "0", "openssl", "speed", "-seconds", "1", "-bytes", "16384", "-evp", "aes-128-gcm"],
                              capture_output=True, text=True, check=True).stdout
        write({"part": "loopback", "turn": turn, "over": "openssl speed", "MB_s": float(re.search(r"([\d.]+)k\s*$", said).group(1)) / 1e3})
        for over, with_keys in (("plain", None), ("tcp", None), ("tcp", keys), ("memory", keys)):
            done = messages_over_tcp(cores, over, f"tcp://127.0.0.1:{PORT}", with_keys, [f"stream:{MIB}:2000", "arrival:64:500:0"])
            for row in done:
                write({"part": "loopback", "turn": turn, **row})
        mpi = subprocess.run(["mpirun", "-n", "2", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                              MESSAGES, "mpi", f"stream:{MIB}:2000", "arrival:64:500:0"], capture_output=True, text=True, check=True)
        for row in rows(mpi.stdout):
            write({"part": "loopback", "turn": turn, **row})


def summarise(done):
    """The medians over the turns."""
    groups = {}
    for row in done:
        key = tuple(str(row.get(k, "")) for k in ("part", "link", "loss", "method", "test", "bytes", "pause_s", "over", "control"))
        if row["part"] == "exchanges":
            key = ("exchanges", row["link"], row["method"], row["over"])
        groups.setdefault(key, []).append(row)
    for key, group in groups.items():
        figures = [k for k in ("ms", "bound_ms", "least_ms", "mbit_s", "MB_s", "sender_s_GB", "receiver_s_GB", "drops") if k in group[0]]
        print(" ".join(k for k in key if k), " ".join(f"{k} {statistics.median(r[k] for r in group):.4g}" for k in figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out")
    parser.add_argument("--links", nargs="+", default=lab.LINKS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--parts", nargs="+", default=["exchanges", "arrivals", "losses", "loopback"])
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    done = []
    with tempfile.TemporaryDirectory() as keys, open(args.out, "a", encoding="utf-8") as out:
        subprocess.run([MESSAGES, "keys", keys], check=True)

        def write(row):
            done.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
        for link in args.links:
            if "exchanges" in args.parts or "arrivals" in args.parts:
                with lab.network(args.lab, lab.RANKS, link):
                    if "exchanges" in args.parts:
                        exchanges(args.lab, link, args, keys, write)
                    if "arrivals" in args.parts:
                        arrivals(args.lab, link, keys, write)
        if "losses" in args.parts:
            losses(args.lab, keys, write)
        if "loopback" in args.parts:
            loopback(keys, write)
    summarise(done)


if __name__ == "__main__":
    main()
