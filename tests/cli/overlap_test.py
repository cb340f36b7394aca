"""The trace shows what exchanges run beside. A delayed strategy: the next forward pass begins before the exchange ends, by
design. Synchronous SGD: with --overlap full it begins before the exchange of the last layers' buckets ends; with backward
exchanges begin before the backward pass ends, and end before the next forward pass; with none they do neither. The virtual
clock gives exact counts. Real clocks give about as many, less what a busy machine loses: links are slow beside any pause."""
import json
import unittest
from cli_tool import CliTest, TINY, over

SEVERAL = "--model", "lenet5", "--method", "2bit:threshold=0.01", "--fusion", "64K"  # five buckets
LARGE = "--model", "mlp:hidden=64,hidden2=4096", "--method", "dense", "--fusion", "64K"  # fc2.weight has most of it
VIRTUAL = "--clock", "virtual", "--tau", "100ms"
STEPS = 6
FOLLOWED = 2 * (STEPS - 1)  # of two ranks, steps that another one follows
US = 1  # virtual times that are equal differ by rounding


class Trace(CliTest):
    def spans(self, *args):
        """For each rank: forward and backward passes by step, and exchanges."""
        path = self.path("trace.json")
        self.ok("train", *TINY, "--workers", "2", "--steps", str(STEPS), "--no-eval", "--trace", path, *args)
        with open(path, encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank]
            passes = [{e["args"]["step"]: e for e in own if e["name"] == name} for name in ("forward", "backward")]
            self.assertEqual([len(p) for p in passes], [STEPS, STEPS])
            for name in ("encode", "wait", "apply"):
                self.assertTrue(any(e["name"].startswith(name) for e in own), name)
            yield *passes, [e for e in own if e["name"].startswith("exchange")]

    def overlaps(self, *args):
        """How many exchanges began while their step's backward pass had a third of its time before it; how many were under
        way when the next step's forward pass began; how many there were."""
        backwards = forwards = count = 0
        for forward, backward, exchanges in self.spans(*args):
            for e in exchanges:
                own, following = backward[e["args"]["step"]], forward.get(e["args"]["step"] + 1)
                backwards += e["ts"] < own["ts"] + own["dur"] * 2 / 3
                forwards += following is not None and following["ts"] + US < e["ts"] + e["dur"]
                count += 1
        return backwards, forwards, count

    def test_delayed(self):
        one = "--model", "mlp:hidden=32", "--method", "2bit:threshold=0.01", "--link", "1mbit,100ms"
        delayed = *one, "--strategy", "cd:k=0,warmup=0"
        self.assertEqual(self.overlaps(*one, *VIRTUAL), (0, 0, 2 * STEPS))  # one bucket: what the next pass begins with
        self.assertEqual(self.overlaps(*delayed, *VIRTUAL), (0, FOLLOWED, 2 * STEPS))
        self.assertEqual(self.overlaps(*one)[1:], (0, 2 * STEPS))
        self.assertGreaterEqual(self.overlaps(*delayed)[1], FOLLOWED / 2)

    def test_full(self):
        """fc2.weight goes over the wire in slices, most of a second; fc1.weight, ready behind it, overtakes."""
        large = *LARGE, "--link", "10mbit,10ms"
        _, forwards, count = self.overlaps(*large, *VIRTUAL)
        self.assertEqual((forwards, count), (FOLLOWED, 6 * 2 * STEPS))
        self.assertEqual(self.overlaps(*large, "--overlap", "backward", *VIRTUAL)[1], 0)
        self.assertGreaterEqual(self.overlaps(*large)[1], FOLLOWED / 2)
        self.assertEqual(self.overlaps(*large, "--overlap", "backward")[1], 0)

    def test_backward_and_none(self):
        """The last conv has a third of the backward pass behind it: of five buckets four are ready before."""
        several = *SEVERAL, "--link", "20mbit,10ms"
        for overlap, backwards in ("backward", 4 * 2 * STEPS), ("none", 0):
            exact = self.overlaps(*several, "--overlap", overlap, *VIRTUAL)
            self.assertEqual(exact, (backwards, 0, 5 * 2 * STEPS))
            real = self.overlaps(*several, "--overlap", overlap, "--driver", "inline")
            self.assertEqual(real[1:], exact[1:])
            if backwards > 0:
                self.assertGreaterEqual(real[0], 2 * STEPS)
            else:
                self.assertLess(real[0], 2 * STEPS)

    def test_same_parameters(self):
        hashes = set()
        for more in ([], ["--overlap", "backward"], ["--overlap", "none"], ["--driver", "inline"]):
            result = self.ok(*over("train", *TINY, *SEVERAL, "--workers", "2", "--method", "dgc:density=0.05,warmup=4", "--steps",
                             "12", "--save", self.path("saved" + "".join(more)), "--save-every", "5", *more))
            hashes.add(result.split("params hash")[1].split()[0])
        self.assertEqual(len(hashes), 1)


if __name__ == "__main__":
    unittest.main()
