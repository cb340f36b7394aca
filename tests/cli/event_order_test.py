"""The order of events in traces: what CD-SGD is made of (Fig. 5 of its paper), beside S-SGD, BIT-SGD and OD-SGD, on the
simulated clock and on the real one."""
import collections
import json
import unittest
from cli_tool import CliTest, TINY, over

WARMUP, STEPS, K = 2, 11, 3
JOB = ["--model", "mlp:hidden=8", *TINY, "--workers", "2", "--steps", str(STEPS), "--no-eval"]
BIT = ["--method", "2bit:threshold=auto"]
CLOCKS = {"real": ["--link", "100mbit,300ms"], "virtual": ["--clock", "virtual", "--tau", "5ms", "--link", "100mbit,60ms"]}


class EventOrder(CliTest):
    def events(self, *args):
        """For each rank {(event, step): (begin, end)} in ns, of an exchange whether it was dense, of several buckets all."""
        path = self.path("trace.json")
        self.ok("train", *over(*JOB, *args, "--trace", path))
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        layers = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "layers"}
        ranks = collections.defaultdict(lambda: collections.defaultdict(lambda: (float("inf"), 0)))
        dense = collections.defaultdict(dict)
        for e in events:
            if e["ph"] != "X" or (e["pid"], e["tid"]) in layers:
                continue
            name, step = e["name"].split()[0], e["args"]["step"]
            if name in ("encode", "exchange"):
                dense[e["pid"]].setdefault(step, e["name"].endswith(" dense"))
                self.assertEqual(dense[e["pid"]][step], e["name"].endswith(" dense"))
            begin, end = round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)
            before = ranks[e["pid"]][name, step]
            ranks[e["pid"]][name, step] = min(begin, before[0]), max(end, before[1])
        self.assertEqual(set(ranks), {0, 1})
        return [(ranks[r], dense[r]) for r in ranks]

    def after(self, at, later, earlier):
        self.assertGreaterEqual(at[later][0], at[earlier][1], (later, earlier))

    def check_each_step(self, at):
        """A gradient is encoded when it is there, sent when it is encoded, applied when its mean is there."""
        for t in range(STEPS):
            self.after(at, ("backward", t), ("forward", t))
            self.assertGreaterEqual(at["exchange", t][0], at["encode", t][0])
            self.assertLessEqual(at["encode", t][1], at["exchange", t][1])
            if t > 0:
                self.after(at, ("forward", t), ("backward", t - 1))

    def check_delayed(self, at):
        """From the end of the warm-up on a step begins before the mean of the one before is there, and after that of the
        one before that is; only one exchange is under way at a time."""
        for t in range(STEPS):
            if t <= WARMUP and t > 0:
                self.after(at, ("forward", t), ("exchange", t - 1))
            elif t > 0:
                self.assertLess(at["forward", t][0], at["exchange", t - 1][1], t)
                self.assertLess(at["backward", t][1], at["exchange", t - 1][1], t)
                self.after(at, ("exchange", t), ("backward", t))
                self.after(at, ("exchange", t), ("exchange", t - 1))
                self.after(at, ("forward", t), ("exchange", t - 2))

    def test_cd(self):
        for clock, options in CLOCKS.items():
            for at, dense in self.events(*options, *BIT, "--strategy", f"cd:k={K},warmup={WARMUP}"):
                with self.subTest(clock=clock):
                    self.check_each_step(at)
                    self.check_delayed(at)
                    wanted = {t: t < WARMUP or (t - WARMUP) % K == 0 for t in range(STEPS)}
                    self.assertEqual(dense, wanted)

    def test_od(self):
        for clock, options in CLOCKS.items():
            for at, dense in self.events(*options, "--strategy", f"od:warmup={WARMUP}"):
                with self.subTest(clock=clock):
                    self.check_each_step(at)
                    self.check_delayed(at)
                    self.assertTrue(all(dense.values()))

    def test_synchronous(self):
        """S-SGD and BIT-SGD wait in each step for its own mean."""
        for clock, options in CLOCKS.items():
            for method in ([], BIT):
                for at, _ in self.events(*options, "--link", "100mbit,20ms", *method):
                    with self.subTest(clock=clock, method=method):
                        self.check_each_step(at)
                        for t in range(1, STEPS):
                            self.after(at, ("forward", t), ("exchange", t - 1))

    def test_waiting(self):
        """Fig. 5: over the same link BIT-SGD waits for 60 ms and more in each step, CD-SGD, once its dense first mean is there, never."""
        link = ["--clock", "virtual", "--tau", "100ms", "--link", "100mbit,60ms"]
        waits = {}
        for strategy in ("ssgd", f"cd:k={STEPS},warmup=0"):
            (at, _), _ = self.events(*link, *BIT, "--strategy", strategy)
            waits[strategy] = [end - begin for (name, step), (begin, end) in at.items() if name == "wait" and 2 <= step < STEPS]
        self.assertEqual([len(w) for w in waits.values()], [STEPS - 2, STEPS - 2])
        self.assertGreater(min(waits["ssgd"]), 60e6)
        self.assertEqual(max(waits[f"cd:k={STEPS},warmup=0"]), 0)


if __name__ == "__main__":
    unittest.main()
