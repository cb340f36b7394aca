#!/usr/bin/env python3
"""Parameter servers and workers that are killed, stopped and cut off at random, over real TCP; every gradient is counted at the end.

    bench/chaos.py LAB_DIR OUT.jsonl --hours H [--until HH:MM] [--seed N] [--every S] [--minutes M] [--setting N]

LAB_DIR has a laboratory as bench/lab.py needs it. Two servers (shards, with journals) and four workers, each in a network namespace with a key
of its own. A worker's gradient is 1 at one element that no other step has (bench/chaos/token_worker.c), and the learning rate is 1, so each
element of the parameters says whether its gradient was applied, and how often. An episode lasts M minutes, with a mode and a method of its own.
About every S seconds something happens to a worker or a server: kill -9 (and a new start up to 3 s later), SIGTERM, SIGSTOP for up to 4 s, its
link is cut for up to 5 s, or it vanishes: its link is cut, it is killed, and its connections are wiped out without a word, as by a power
failure. Then all is healed; all workers must make a step within 60 s. They end, and the parameters are read:

    - each gradient that a worker saw answered was applied exactly once; with a deadline, one that was late with the worker's next one in time
    - no other gradient was applied more than once: of a worker that was killed or refused, the last one may be missing, and late ones before it
    - all who saw a chunk of the parameters with so many gradients in it saw the same bits
    - a worker ends only because it was told to, or refused in a way that docs/servers.md describes

A JSON line for each episode goes to OUT.jsonl. The exit status is 1 if one of them fails. --hours says when no new episode begins; so does --until,
whichever comes first. With the same seed, the same things happen at the same times; what they hit depends on the machine."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import lab

SERVERS, WORKERS, PORT, PAUSE_MS = 2, 4, 4242, 60
FEW, MANY = 16384, 131072  # elements; a server's half of many travels in slices if it is dense
TIMEOUT_S, WITHIN_S = 8, 60  # of the servers; for a step of all workers once all is healed
WORKER = os.path.abspath(os.environ.get("TOKEN_WORKER", os.path.join(os.path.dirname(lab.TELEGRAD), "bench_token_worker")))
EPISODES = [("async", "topk:density=0.001", FEW, []), ("async:staleness=4", "dense", MANY, []),
            ("sync", "topk:density=0.001", FEW, ["--min", "2", "--deadline", "300ms"]), ("sync", "topk:density=0.001", FEW, ["--min", "2"]),
            ("async:compensate=0.04", "fp16", MANY, []), ("sync", "dense", MANY, []), ("sync", "topk:density=0.001", FEW, ["--deadline", "1s"]),
            ("async:staleness=1", "topk:density=0.001", FEW, []), ("async:staleness=0", "fp16", FEW, ["--min", "3"]),
            ("sync", "topk:density=0.001,values=f32,exchange=twoway", FEW, ["--min", "2"])]
FAULTS = {"kill worker": 5, "kill server": 2, "end worker": 1, "end server": 1, "stop worker": 2, "stop server": 2, "cut worker": 3, "cut server": 2,
          "vanish worker": 1, "vanish server": 1}
# Why a worker may end although nobody told it to: the server went on without it, or it comes after the seat was given away.
REFUSALS = r"goes on without it|is taken by another worker|all \d+ seats for workers are taken|worker \d+ sent nothing for|it was called for"


class Actor:
    """A server or a worker: its host, the process that it has now, and when it is to be started, continued or connected again."""

    def __init__(self, host, name):
        self.host, self.name, self.process, self.due = host, name, None, {}

    def signal(self, number):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)


class Episode:
    def __init__(self, folder, scratch, setting, rng):
        self.folder, self.scratch, self.rng = folder, pathlib.Path(scratch), rng
        self.mode, self.method, self.elements, self.options = setting
        self.waits = "--min" in self.options
        self.counts, self.refused, self.errors = collections.Counter(), [], []
        self.servers = [Actor(q, f"s{q}") for q in range(SERVERS)]
        self.workers = [Actor(SERVERS + i, f"w{i}") for i in range(WORKERS)]
        self.lives, self.read, self.steps, self.latest, self.still_s = 0, {}, 0, time.monotonic(), 0.0
        self.began, self.done, self.seen = {}, {}, {}
        self.owed = {a: set() for a in self.workers}  # late, and in the residual of the worker that runs now
        self.late = set()  # a server made the step without it, and no later step of the same worker was in time
        self.turned, self.gap_s = time.monotonic(), 0.0  # how long this program itself did nothing, at most
        self.keys = [self.make_key(a.name) for a in self.servers + self.workers]
        (self.scratch / "workers").write_text("".join(f"{key} w{i}\n" for i, key in enumerate(self.keys[SERVERS:])), encoding="utf-8")

    def make_key(self, name):
        done = subprocess.run([lab.TELEGRAD, "key", "new", self.path(f"{name}.key")], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def path(self, name):
        return str(self.scratch / name)

    def net(self, *args):
        lab.lab(self.folder, "net.sh", *args)

    # ---- processes

    def start(self, actor, *command, out=subprocess.DEVNULL):
        with open(self.path(f"{actor.name}.err"), "ab") as err:
            return subprocess.Popen([os.path.join(self.folder, "net.sh"), "exec", str(actor.host), *command], stdout=out, stderr=err,
                                    env=lab.environment(), start_new_session=True)

    def start_server(self, actor):
        q = actor.host
        actor.process = self.start(actor, lab.TELEGRAD, "serve", "--listen", f"tcp://0.0.0.0:{PORT}", "--shard", f"{q}/{SERVERS}", "--workers",
                                   str(WORKERS + 2), "--key", self.path(f"{actor.name}.key"), "--allow", self.path("workers"), "--journal",
                                   self.path(f"journal{q}"), "--mode", self.mode, "--optimizer", "sgd:lr=1,momentum=0", "--timeout", str(TIMEOUT_S),
                                   *self.options)

    def worker_command(self, actor, *rest):
        addresses = ",".join(f"tcp://h{q}:{PORT}" for q in range(SERVERS))
        return [WORKER, addresses, ",".join(self.keys[:SERVERS]), self.path(f"{actor.name}.key"), str(self.elements), self.method, *rest]

    def start_worker(self, actor):
        """A new life, with tokens that no other has had."""
        each = self.elements // WORKERS
        end = (actor.host - SERVERS + 1) * each
        first = max([token + 1 for token in self.began if end - each <= token < end], default=end - each)
        if first >= end:
            self.counts["out of tokens"] += 1
            return
        self.lives += 1
        self.owed[actor] = set()
        actor.process = self.start(actor, *self.worker_command(actor, str(PAUSE_MS), self.path(f"{actor.name}.log"), str(first), str(end)))

    def restart(self, actor):
        self.look()
        (self.start_server if actor in self.servers else self.start_worker)(actor)

    # ---- what happens

    def happen(self):
        kind = self.rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        verb, who = kind.split()
        actor = self.rng.choice(self.servers if who == "server" else self.workers)
        now, length = time.monotonic(), self.rng.random()
        if actor.due or not actor.process or actor.process.poll() is not None:
            return  # something has happened to it just now
        self.counts[kind] += 1
        if verb == "cut":
            self.net("cut", str(actor.host))
            actor.due["heal"] = now + 5 * length
        elif verb == "stop":
            actor.signal(signal.SIGSTOP)
            actor.due["continue"] = now + 4 * length
        elif verb == "vanish":
            self.net("cut", str(actor.host))
            actor.signal(signal.SIGKILL)
            actor.process.wait()
            self.net("exec", str(actor.host), "ss", "-K", "dst", "10.77.0.0/24")  # no FIN is sent again once the link is back
            actor.due |= {"heal": now + 2 * length, "start": now + 3 * length}
        else:
            actor.signal(signal.SIGKILL if verb == "kill" else signal.SIGTERM)
            actor.due["start"] = now + 3 * length

    def mend(self, actor, now):
        for what in [what for what, when in actor.due.items() if when <= now]:
            if what == "start" and actor.process.poll() is None:
                continue  # one that was told to end needs a moment
            del actor.due[what]
            if what == "heal":
                self.net("heal", str(actor.host))
            elif what == "continue":
                actor.signal(signal.SIGCONT)
            else:
                self.restart(actor)

    def check_alive(self):
        for actor in self.servers + self.workers:
            if not actor.process or actor.process.poll() is None or "start" in actor.due:
                continue
            said = pathlib.Path(self.path(f"{actor.name}.err")).read_text(encoding="utf-8").splitlines()[-1:] or [""]
            status, actor.due["start"] = actor.process.returncode, time.monotonic() + 0.5
            if actor in self.workers and status == 1 and re.search(REFUSALS, said[0]):
                self.counts["refused"] += 1
                self.refused.append(said[0])
            elif actor not in self.workers or status != 0:  # a worker that has no tokens left ends with 0
                self.errors.append(f"{actor.name} ended with status {status}: {said[0]}")

    def look(self):
        """Read what the workers have written since the last time."""
        for actor in self.workers:
            path = pathlib.Path(self.path(f"{actor.name}.log"))
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self.read.get(actor, 0))
                text = file.read()
            text = text[:text.rfind(b"\n") + 1]
            self.read[actor] = self.read.get(actor, 0) + len(text)
            for line in text.decode().splitlines():
                self.note(actor, line.split())

    def note(self, actor, words):
        now, token = time.monotonic(), int(words[1])
        if words[0] == "began":
            self.began[token] = actor
            return
        if words[0] == "late":
            self.owed[actor].add(token)
            self.late.add(token)
            self.counts["late"] += 1
            return
        if token not in self.late:  # the residual went with it
            self.late -= self.owed[actor]
            self.owed[actor] = set()
        self.done[token] = now
        self.steps += 1
        self.still_s = max(self.still_s, now - self.latest)
        self.latest = now
        for chunk, part in enumerate(words[3:]):
            count, bits = part.split(":")
            if self.seen.setdefault((chunk, int(count)), bits) != bits:
                self.errors.append(f"chunk {chunk} with {count} gradients: {actor.name} has other bits after token {token} than another worker")

    def turn(self, pause):
        time.sleep(pause)
        now = time.monotonic()
        self.turned, self.gap_s = now, max(self.gap_s, now - self.turned)
        self.look()
        self.check_alive()
        for actor in self.servers + self.workers:
            self.mend(actor, time.monotonic())

    # ---- the end

    def heal(self):
        """Returns how long it took until all workers had made a step."""
        for actor in self.servers + self.workers:
            actor.due = {what: 0.0 for what in actor.due}
        begin = time.monotonic()
        while True:
            self.turn(0.1)
            each = self.elements // WORKERS
            last = [max((when for token, when in self.done.items() if token // each == i), default=0) for i in range(WORKERS)]
            if all(when > begin for when in last):
                return time.monotonic() - begin
            if time.monotonic() > begin + WITHIN_S:
                late = [f"w{i}" for i in range(WORKERS) if last[i] <= begin]
                self.errors.append(f"{', '.join(late)} made no step within {WITHIN_S} s after all was healed")
                return WITHIN_S

    def end(self):
        """All workers end as planned; then the parameters are read."""
        here = [actor for actor in self.workers if "start" not in actor.due]  # the others have ended already, as check_alive has noted
        for actor in here:
            actor.signal(signal.SIGTERM)
        for actor in here:
            try:
                status = actor.process.wait(timeout=5 if self.waits else WITHIN_S)
            except subprocess.TimeoutExpired:
                status = None
                if self.waits:  # the others have left, so it waits for them in its step
                    actor.signal(signal.SIGKILL)
                    status = actor.process.wait() * 0
            if status not in (0, -signal.SIGTERM):  # the latter: it had just been started
                self.errors.append(f"{actor.name} was to end, but its status is {status}")
        self.look()
        with open(self.path("w.txt"), "wb") as out:
            status = self.start(self.workers[0], *self.worker_command(self.workers[0], "look"), out=out).wait(timeout=WITHIN_S)
        if status != 0:
            self.errors.append("the parameters could not be read")
            return
        self.count_tokens([float(line) for line in pathlib.Path(self.path("w.txt")).read_text(encoding="utf-8").split()])

    def count_tokens(self, w):
        whole = {-1.0} if self.mode != "sync" and self.mode != "async:staleness=0" else {-float(f"{1 / c:.9g}") for c in range(1, WORKERS + 3)}
        for token, value in enumerate(w):
            applied = any(abs(value - one) <= 1e-7 for one in whole)
            if value != 0 and not applied:
                self.errors.append(f"token {token} was applied as {-value:g}")
            elif value != 0 and token not in self.began:
                self.errors.append(f"token {token} was applied, but never sent")
            elif token in self.done and token not in self.late and not applied:
                self.errors.append(f"token {token} was answered, but is not there")
            self.counts["applied"] += applied
            self.counts["applied, not answered"] += applied and token not in self.done
            self.counts["lost with a worker"] += token in self.began and not applied

    def close(self):
        for actor in self.servers + self.workers:
            actor.signal(signal.SIGKILL)
            if actor.process:
                actor.process.wait()

    def run(self, seconds, every):
        for actor in self.servers:
            self.start_server(actor)
        for actor in self.workers:
            self.start_worker(actor)
        begin = self.latest = self.turned = time.monotonic()
        due = begin + 3
        while time.monotonic() < begin + seconds and not self.errors:
            self.turn(0.1)
            if time.monotonic() >= due:
                self.happen()
                due += self.rng.expovariate(1 / every)
        healed_s = self.heal() if not self.errors else 0
        if not self.errors:
            self.end()
        return {"mode": " ".join([self.mode, *self.options]), "method": self.method, "seconds": round(time.monotonic() - begin, 1),
                "faults": {kind: self.counts[kind] for kind in FAULTS}, "lives": self.lives, "refused": self.counts["refused"],
                "elements": self.elements, "steps": self.steps, "tokens": len(self.began), "late": self.counts["late"], "applied": self.counts["applied"],
                "applied_unanswered": self.counts["applied, not answered"], "lost": self.counts["lost with a worker"],
                "still_s_most": round(self.still_s, 2), "own_gap_s": round(self.gap_s, 2), "healed_s": round(healed_s, 2), "same_bits": len(self.seen),
                "refusals": sorted(set(self.refused))[:5], "errors": self.errors[:20]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("out")
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--until", help="no episode ends later than this time of day")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two faults, on average")
    parser.add_argument("--setting", type=int, choices=range(len(EPISODES)), metavar="N", help="only episodes of this one of EPISODES, from 0")
    parser.add_argument("--minutes", type=float, default=4.0, help="of an episode")
    args = parser.parse_args()
    end = time.time() + 3600 * args.hours
    if args.until:
        now = datetime.datetime.now()
        until = datetime.datetime.combine(now.date(), datetime.time.fromisoformat(args.until))
        end = min(end, (until if until > now else until + datetime.timedelta(days=1)).timestamp() - 2 * WITHIN_S)
    failed = False
    for number in range(10**6):
        seconds = min(60 * args.minutes, end - time.time())
        if seconds < 10:
            break
        with tempfile.TemporaryDirectory() as scratch, lab.network(args.lab, SERVERS + WORKERS, "100mbit,0ms"):
            setting = EPISODES[number % len(EPISODES) if args.setting is None else args.setting]
            episode = Episode(args.lab, scratch, setting, random.Random(1000 * args.seed + number))
            try:
                row = {"episode": number, "seed": args.seed, **episode.run(seconds, args.every)}
            finally:
                episode.close()
            if row["errors"]:
                failed = True
                kept = f"{args.out}.failed-{number}"
                subprocess.run(["cp", "-r", scratch, kept], check=True)
        with open(args.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
