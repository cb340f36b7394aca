"""In every track of a trace slices nest or follow each other: Perfetto drops one that begins inside another and ends after
it. Exchanges, which run side by side, have a track for each that does."""
import collections
import json
import unittest
from cli_tool import CliTest, TINY, over

SEVERAL = "--model", "lenet5", "--method", "bf16", "--fusion", "32K"  # five buckets
VIRTUAL = "--clock", "virtual", "--tau", "20ms"


def ns(us):
    return round(us * 1000)


class Tracks(CliTest):
    def tracks(self, *args):
        """{(rank, name): slices} of a run."""
        path = self.path("trace.json")
        self.ok("train", *over(*TINY, *SEVERAL, "--workers", "2", "--steps", "8", "--no-eval", "--link", "100mbit,5ms", "--trace", path,
                                *args))
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        tracks = collections.defaultdict(list)
        for e in events:
            if e["ph"] == "X":
                tracks[e["pid"], names[e["pid"], e["tid"]]].append((ns(e["ts"]), -ns(e["dur"])))
        self.assertEqual(len(set(names.items())), len({(rank, name) for (rank, _), name in names.items()}))
        return tracks

    def check(self, *args):
        """How many tracks of exchanges rank 0 has: as many as run at once."""
        tracks, ends = self.tracks(*args), []
        for track, slices in tracks.items():
            around = []  # ends
            for begin, minus in sorted(slices):
                while around and around[-1] <= begin:
                    around.pop()
                self.assertTrue(not around or begin - minus <= around[-1], (args, track, begin))
                around.append(begin - minus)
        own = [slices for (rank, name), slices in tracks.items() if rank == 0 and name.startswith("exchange")]
        at_once = 0
        for begin, minus in sorted(sum(own, [])):
            ends = [end for end in ends if end > begin] + [begin - minus]
            at_once = max(at_once, len(ends))
        self.assertEqual(len(own), at_once, args)
        return at_once

    def test_slices_nest(self):
        for strategy in ("ssgd", "cd:k=5,warmup=2", "dga:delay=3", "streaming:every=4"):
            for clock in (), VIRTUAL:
                self.assertGreater(self.check("--strategy", strategy, *clock), 1, strategy)
        for clock in (), VIRTUAL:  # at a rate that nothing is said of
            self.assertGreater(self.check("--strategy", "pipe:width=3", "--lr", "0.02", *clock), 1)
        self.check("--strategy", "dga:delay=3", "--driver", "inline")
        self.check("--method", "atomo:rank=2", "--accumulate", "2", "--driver", "inline", "--overlap", "full")
        self.check("--nodes", "1", *VIRTUAL)

    def test_one_bucket(self):
        self.assertEqual(self.check("--fusion", "10M", *VIRTUAL), 1)

    def test_same_again(self):
        self.assertEqual(*(self.tracks("--strategy", "pipe:width=3", "--lr", "0.02", *VIRTUAL) for _ in range(2)))


if __name__ == "__main__":
    unittest.main()
