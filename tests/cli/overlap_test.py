"""The trace shows what exchanges run beside. A delayed strategy: the next forward pass begins before the exchange ends, by
design. Synchronous SGD: with --overlap full it begins before the exchange of the last layers' buckets ends; with backward
exchanges begin before the backward pass ends, and end before the next forward pass; with none they do neither."""
import json
import unittest
from cli_tool import CliTest, TINY

SEVERAL = "--model", "lenet5", "--method", "2bit:threshold=0.01", "--fusion", "64K"  # five buckets


class Trace(CliTest):
    def spans(self, *args, link="20mbit,10ms"):
        """For each rank: forward and backward passes by step, and exchanges."""
        path = self.path("trace.json")
        self.ok("train", *TINY, "--workers", "2", "--steps", "12", "--no-eval", "--link", link, "--trace", path,
                *args)
        with open(path, encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank]
            passes = [{e["args"]["step"]: e for e in own if e["name"] == name} for name in ("forward", "backward")]
            self.assertEqual([len(p) for p in passes], [12, 12])
            for name in ("encode", "wait", "apply"):
                self.assertTrue(any(e["name"].startswith(name) for e in own), name)
            yield *passes, [e for e in own if e["name"].startswith("exchange")]

    def overlaps(self, *args, **link):
        """How many exchanges began while their step's backward pass had a third of its time before it; how many were under
        way when the next step's forward pass began; how many there were."""
        backwards = forwards = count = 0
        for forward, backward, exchanges in self.spans(*args, **link):
            for e in exchanges:
                own, following = backward[e["args"]["step"]], forward.get(e["args"]["step"] + 1)
                backwards += e["ts"] < own["ts"] + own["dur"] * 2 / 3
                forwards += following is not None and following["ts"] < e["ts"] + e["dur"]
                count += 1
        return backwards, forwards, count

    def test_delayed(self):
        one = "--model", "mlp:hidden=32", "--method", "2bit:threshold=0.01"
        forwards, count = self.overlaps(*one, "--strategy", "cd:k=0,warmup=0")[1:]
        self.assertGreaterEqual(forwards, 12)  # of 22; a busy machine may lose some
        self.assertEqual(count, 24)
        self.assertEqual(self.overlaps(*one)[1:], (0, 24))  # one bucket: what the next forward pass begins with

    def test_full(self):
        forwards, count = self.overlaps(*SEVERAL, link="2mbit,10ms")[1:]  # half a second a step, however busy the machine is
        self.assertEqual(count, 5 * 24)
        self.assertGreater(forwards, 0)  # a hundred on an idle machine, a few on a busy one; with backward there are none

    def test_backward_and_none(self):
        backwards, forwards, _ = self.overlaps(*SEVERAL, "--overlap", "backward")
        self.assertGreaterEqual(backwards, 12)
        self.assertEqual(forwards, 0)
        none, forwards, _ = self.overlaps(*SEVERAL, "--overlap", "none")
        self.assertLess(3 * none, backwards)  # 0, but for a thread that must wait behind its last layer for long
        self.assertEqual(forwards, 0)

    def test_same_parameters(self):
        hashes = set()
        for more in ([], ["--overlap", "backward"], ["--overlap", "none"], ["--driver", "inline"]):
            result = self.ok("train", *TINY, *SEVERAL, "--workers", "2", "--method", "dgc:density=0.05,warmup=4", "--steps",
                             "12", "--save", self.path("saved" + "".join(more)), "--save-every", "5", *more)
            hashes.add(result.split("params hash")[1].split()[0])
        self.assertEqual(len(hashes), 1)


if __name__ == "__main__":
    unittest.main()
