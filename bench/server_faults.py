#!/usr/bin/env python3
"""Parameter servers and workers that are killed on the way: the accuracy beside that of a run that nobody disturbs.

    bench/server_faults.py LAB_DIR OUT.jsonl [--link LINK] [--model SPEC] [--data SPEC] [--steps N] [--batch N] [--lr LR] [--lr-schedule SPEC]
                           [--method SPEC] [--optimizer SPEC] [--precision P] [--runs NAME...]

LAB_DIR has a laboratory as bench/lab.py needs it. Two servers (shards, with journals) and four workers, each in a network namespace with a
key of its own. Runs:

    undisturbed
    disturbed   after a third of its steps, worker 1 is killed (kill -9), and 5 s later another one comes, which begins at the step of the
                others; after two thirds of those of worker 0, server 1 is killed, and 5 s later started again

A JSON line for each run goes to OUT.jsonl; a run that is there is not made again."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import lab

SERVERS, WORKERS, PORT, LIMIT, AWAY_S = 2, 4, 4242, 24 * 3600, 5


class Job:
    def __init__(self, folder, scratch, args):
        self.folder, self.scratch, self.args, self.running = folder, scratch, args, []
        self.publics = []
        for name in [f"s{q}" for q in range(SERVERS)] + [f"w{i}" for i in range(WORKERS)]:
            done = subprocess.run([lab.TELEGRAD, "key", "new", self.path(f"{name}.key")], capture_output=True, text=True, check=True)
            self.publics.append(done.stdout.strip())
        with open(self.path("workers"), "w", encoding="utf-8") as file:
            file.write("".join(f"{key} w{i}\n" for i, key in enumerate(self.publics[SERVERS:])))

    def path(self, name):
        return os.path.join(self.scratch, name)

    def start(self, host, name, *command):
        with open(self.path(f"{name}.err"), "ab") as err, open(self.path(f"{name}.txt"), "wb") as out:
            process = subprocess.Popen([os.path.join(self.folder, "net.sh"), "exec", str(host), lab.TELEGRAD, *command], stdout=out, stderr=err,
                                       env=lab.environment(LIMIT), start_new_session=True)
        self.running.append(process)
        return process

    def kill(self, process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.running.remove(process)

    def server(self, q):
        return self.start(q, f"s{q}", "serve", "--listen", f"tcp://0.0.0.0:{PORT}", "--shard", f"{q}/{SERVERS}", "--workers", str(WORKERS), "--key",
                             self.path(f"s{q}.key"), "--allow", self.path("workers"), "--journal", self.path(f"journal{q}"), "--mode",
                             "async:staleness=4", "--optimizer", self.args.optimizer)

    def worker(self, i, name, evaluates):
        a = self.args
        servers = ",".join(f"tcp://h{q}:{PORT}" for q in range(SERVERS))
        return self.start(SERVERS + i, name, "train", "--server", servers, "--server-key", ",".join(self.publics[:SERVERS]), "--key",
                          self.path(f"w{i}.key"), "--model", a.model, "--data", a.data, "--batch", str(a.batch), "--method", a.method, "--optimizer",
                          a.optimizer, "--lr", str(a.lr), "--lr-schedule", a.lr_schedule, "--precision", a.precision, "--steps", str(a.steps), "--out",
                          self.path(f"{name}.jsonl"), "--log-every", "10", *([] if evaluates else ["--no-eval"]))

    def records(self, name):
        try:
            with open(self.path(f"{name}.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except OSError:
            return []

    def step_of(self, name):
        steps = [r["step"] for r in self.records(name) if r.get("type") == "step"]
        return steps[-1] if steps else 0

    def await_step(self, process, name, step):
        while self.step_of(name) < step:
            if process.poll() is not None:
                self.fail(f"{name} ended at step {self.step_of(name)}")
            time.sleep(0.2)

    def fail(self, what):
        said = "".join(open(self.path(f), encoding="utf-8").read()[-600:] for f in sorted(os.listdir(self.scratch)) if f.endswith(".err"))
        sys.exit(f"{what}\n{said}")

    def end(self):
        for process in list(self.running):
            if process.poll() is None:
                self.kill(process)


def run(job, steps, disturbed):
    begin = time.time()
    servers = [job.server(q) for q in range(SERVERS)]
    workers = [job.worker(i, f"w{i}", i == 0) for i in range(WORKERS)]
    names = [f"w{i}" for i in range(WORKERS)]
    events = []
    if disturbed:
        job.await_step(workers[1], "w1", steps // 3)
        job.kill(workers[1])
        events.append({"s": round(time.time() - begin, 1), "killed": "worker 1", "step": job.step_of("w1")})
        time.sleep(AWAY_S)
        workers[1], names[1] = job.worker(1, "w1b", False), "w1b"
        job.await_step(workers[0], "w0", 2 * steps // 3)
        job.kill(servers[1])
        events.append({"s": round(time.time() - begin, 1), "killed": "server 1", "step": job.step_of("w0")})
        time.sleep(AWAY_S)
        servers[1] = job.server(1)
    for process, name in zip(workers, names):
        if process.wait(timeout=LIMIT) != 0:
            job.fail(f"{name}: exit status {process.returncode}")
    end = job.records("w0")[-1]
    again = [len(re.findall("reconnected to server", open(job.path(f"{name}.err"), encoding="utf-8").read())) for name in names]
    return {"run": "disturbed" if disturbed else "undisturbed", "steps": steps, "seconds": round(time.time() - begin, 1), "events": events,
            "connected_again": again, "test_accuracy": end["test_accuracy"], "test_loss": end["test_loss"], "train_loss": end["train_loss"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out")
    parser.add_argument("--link", default="100mbit,20ms")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--data", default="cifar10:train=1-4,test=5")
    parser.add_argument("--steps", type=int, default=9375, help="of each worker (default: 30 epochs of ResNet-20)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--lr-schedule", default="cosine:warmup=1ep")
    parser.add_argument("--method", default="topk:density=0.01")
    parser.add_argument("--optimizer", default="sgd:momentum=0,weight_decay=0.0005")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--runs", nargs="+", default=["undisturbed", "disturbed"])
    args = parser.parse_args()
    there = []
    if os.path.exists(args.out):
        with open(args.out, encoding="utf-8") as file:
            there = [json.loads(line) for line in file]
    about = {key: getattr(args, key) for key in ("link", "model", "data", "steps", "batch", "lr", "lr_schedule", "method", "optimizer", "precision")}
    for name in args.runs:
        if any(row["run"] == name and all(row[key] == value for key, value in about.items()) for row in there):
            continue
        with tempfile.TemporaryDirectory() as scratch, lab.network(args.lab, SERVERS + WORKERS, args.link):
            job = Job(args.lab, scratch, args)
            try:
                row = {**about, **run(job, args.steps, name == "disturbed")}
            finally:
                job.end()
        with open(args.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
