"""The trace shows what a delayed strategy is for: the next forward pass begins before the exchange ends. In synchronous
SGD it never does."""
import json
import unittest
from cli_tool import CliTest, TINY


class Trace(CliTest):
    def overlaps(self, *args):
        """For each rank: how many exchanges were still under way when the next step's forward pass began."""
        path = self.path("trace.json")
        self.ok("train", "--model", "mlp:hidden=32", *TINY, "--workers", "2", "--steps", "12", "--no-eval", "--link",
                "20mbit,10ms", "--method", "2bit:threshold=0.01", "--trace", path, *args)
        with open(path, encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        count = 0
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank]
            forward = {e["args"]["step"]: e["ts"] for e in own if e["name"] == "forward"}
            exchanges = [e for e in own if e["name"].startswith("exchange")]
            self.assertEqual(len(forward), 12)
            self.assertEqual(len(exchanges), 12)
            for e in exchanges:
                begin = forward.get(e["args"]["step"] + 1)
                count += begin is not None and begin < e["ts"] + e["dur"]
            for name in ("backward", "encode", "wait", "apply"):
                self.assertTrue(any(e["name"].startswith(name) for e in own), name)
        return count

    def test_synchronous_waits(self):
        self.assertEqual(self.overlaps("--strategy", "ssgd"), 0)

    def test_delayed_does_not(self):
        self.assertGreaterEqual(self.overlaps("--strategy", "cd:k=0,warmup=0"), 12)  # of 22; a busy machine may lose some


if __name__ == "__main__":
    unittest.main()
