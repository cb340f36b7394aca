"""Parameter servers in simulated time: who waits for whom, times that can be worked out by hand, the same run again and again."""
import os
import signal
import subprocess
import time
import unittest
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, last_run, over, records, run, start
from same_hash_test import params_hash

MODEL = ["train", "--model", "mlp:hidden=16", "--data", "glyphs:train=512,test=64", "--batch", "16"]
VIRTUAL = ["--clock", "virtual", "--tau", "20ms"]
ALIKE = ["--workers", "4", "--servers", "1", "--strategy", "server", "--lr", "0.01"]
FOUR = [*ALIKE, "--slow", "3:2x"]


class SimulatedServers(CliTest):
    def train(self, *args):
        """The records of a run."""
        out = self.path("run.jsonl")
        done = run(*MODEL, *VIRTUAL, *args, "--log-every", "4", "--out", out)  # of one worker it says that it exchanges nothing
        self.assertEqual(done.returncode, 0, done.stderr)
        return last_run(out)

    def seconds(self, mode, *args, workers=FOUR):
        return self.train("--no-eval", *workers, "--server-mode", mode, *args)[-1]["seconds"]

    def test_a_slow_worker(self):
        """In step, all wait for the one that takes 40 ms. Otherwise three make a step in 20 ms and one in 40: 3.5 steps in 20 ms, and
        4 * 14 in 16 * 20. With a bound of staleness, in the long run nobody is faster than the slowest."""
        self.assertAlmostEqual(self.seconds("sync", "--steps", "14"), 14 * 0.040, 9)
        self.assertAlmostEqual(self.seconds("async", "--steps", "14"), 16 * 0.020, 9)
        bounded = [self.seconds(f"async:staleness={s}", "--steps", "14") for s in (0, 1, 2, 4, 1000)]
        self.assertEqual(bounded, sorted(bounded, reverse=True))
        self.assertAlmostEqual(bounded[0], 14 * 0.040, 9)
        self.assertTrue(13 * 0.040 <= bounded[2] < bounded[0], bounded)  # it makes 13 steps, and the others 14 or 15
        self.assertAlmostEqual(bounded[-1], 16 * 0.020, 9)

    def test_delays(self):
        """There and back, 60 ms a step; three workers then make a step in 80 ms and one in 100."""
        link = ["--steps", "20", "--link", "30ms"]
        self.assertAlmostEqual(self.seconds("sync", *link), 20 * 0.100, delta=0.061)  # workers begin as far apart
        took, rate = self.seconds("async", *link), 3 / 0.080 + 1 / 0.100
        self.assertTrue(80 / rate <= took < 80 / rate + 0.200, (took, 80 / rate))

    def test_stragglers_that_change(self):
        """Each step takes 20 to 60 ms. In step it takes the longest of four, 52 ms on average; else the mean, 40."""
        jitter = ["--steps", "60", "--jitter", "200%"]
        sync, bounded, free = (self.seconds(mode, *jitter, workers=ALIKE) for mode in ("sync", "async:staleness=4", "async"))
        self.assertAlmostEqual(sync / 60, 0.052, delta=0.003)
        self.assertAlmostEqual(free / 60, 0.040, delta=0.003)
        self.assertTrue(free <= bounded < 0.9 * sync, (sync, bounded, free))

    def test_limits(self):
        """One worker trains alone; staleness 0 is sync, which is training without servers; one that is never reached is async."""
        alone = self.train("--steps", "9")[-1]
        for mode in ("async", "async:staleness=3,compensate=0.5"):
            served = self.train("--steps", "9", "--servers", "2", "--strategy", "server", "--server-mode", mode)[-1]
            for same in ("params_hash", "seconds", "test_accuracy", "steps", "train_loss"):
                self.assertEqual(served[same], alone[same], (mode, same))
        job = ["--workers", "3", "--steps", "9", "--slow", "1:3x"]
        ssgd = self.train(*job)[-1]
        for mode in ("sync", "async:staleness=0"):
            served = self.train(*job, "--servers", "2", "--strategy", "server", "--server-mode", mode)[-1]
            for same in ("params_hash", "seconds", "test_accuracy"):
                self.assertEqual(served[same], ssgd[same], (mode, same))
        job += ["--servers", "2", "--strategy", "server", "--server-mode"]
        unbounded, never, bounded = (self.train(*job, mode)[-1] for mode in ("async", "async:staleness=1000", "async:staleness=1"))
        for same in ("params_hash", "seconds", "test_accuracy"):
            self.assertEqual(never[same], unbounded[same], same)
        self.assertNotEqual(bounded["params_hash"], unbounded["params_hash"])

    def test_same_again(self):
        """On whatever cores, also with ties, jitter and links that differ."""
        job = [*MODEL, *VIRTUAL, *over(*FOUR, "--servers", "2"), "--server-mode", "async:staleness=6,compensate=0.04", "--epochs", "2", "--method",
               "topk:density=0.1", "--link", "20mbit,5ms,jitter=3ms", "--link-of", "1=5mbit,9ms", "--link-of", "4=50mbit", "--jitter", "10%"]
        first, again = self.path("first.jsonl"), self.path("again.jsonl")
        hashed = params_hash(self.ok(*job, "--out", first))
        pinned = subprocess.run(["taskset", "-c", "0", TELEGRAD, *job, "--out", again], env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual((pinned.returncode, params_hash(pinned.stdout)), (0, hashed), pinned.stderr)
        a, b = records(first), records(again)
        for lines in (a, b):
            del lines[0]["time"], lines[0]["out"]
        self.assertEqual(a, b)
        other = self.ok(*job, "--seed", "2")
        self.assertNotEqual(params_hash(other), hashed)

    def test_epochs(self):
        """Of 8 steps of the job, 32 of all workers: they are tested while the workers go on."""
        for slow in ("0:3x", "2:3x"):
            lines = self.train(*ALIKE, "--slow", slow, "--server-mode", "async", "--epochs", "3")
            epochs = [r for r in lines if r["type"] == "epoch"]
            self.assertEqual([(e["epoch"], e["step"]) for e in epochs], [(0, 8), (1, 16), (2, 24)])
            self.assertEqual([e["seconds"] for e in epochs], sorted(e["seconds"] for e in epochs))
            for e in epochs:
                self.assertTrue(0 < e["test_accuracy"] <= 1 and e["train_loss"] > 0, e)
            end = lines[-1]
            self.assertEqual((end["steps"], end["epochs"], end["test_accuracy"]), (24, 3, epochs[-1]["test_accuracy"]))
            self.assertEqual(end["seconds"], epochs[-1]["seconds"])
            self.assertAlmostEqual(end["seconds"], 24 * 4 / (3 + 1 / 3) * 0.020, delta=0.061)

    def test_without_training(self):
        """What --sim-only says, and what the clock shows when the same run trains: within a few percent, in step and async, whatever
        limits it (delays, up-links, down-links, the servers' links, a slow worker), among 4, 16 and 64."""
        links = {
            "delay": ["--link", "30ms"],
            "up": ["--link", "up=2mbit,down=100mbit,delay=5ms"],
            "down": ["--link", "up=100mbit,down=2mbit,delay=5ms"],
            "server": ["--link", "100mbit,5ms", "--link-of", "{0}=20mbit,5ms", "--link-of", "{1}=20mbit,5ms"],
            "slow": ["--link", "10mbit,5ms", "--slow", "2:3x"],
            "own": ["--link", "10mbit,5ms", "--link-of", "1=4mbit,20ms", "--link-of", "{0}=50mbit", "--link-of", "{1}=50mbit"],
        }
        for workers, name, mode, method in (
                (4, "delay", "sum", "topk:density=0.05"), (4, "down", "sum", "topk:density=0.2,exchange=twoway"),
                (16, "server", "sum", "int8:exchange=twoway"), (4, "up", "async", "dense"), (4, "down", "sum", "dense"), (4, "slow", "sum", "dense"),
                (4, "slow", "async:staleness=3", "dense"), (4, "own", "async", "dense"), (16, "server", "sum", "dense"),
                (16, "server", "async", "topk:density=0.05"), (4, "down", "async", "topk:density=0.2,exchange=twoway"),
                (16, "server", "async:staleness=3", "int8:exchange=twoway"), (64, "server", "sum", "dense")):
            job = ["train", "--model", "mlp:hidden=16", "--data", "glyphs:train=2048,test=64", "--batch", "2", "--no-eval", *VIRTUAL,
                   "--workers", str(workers), "--servers", "2", "--steps", "20" if workers == 4 else "5", "--method", method, "--lr", "0.001",
                   *(word.format(workers, workers + 1) for word in links[name])]
            job += [] if mode == "sum" else ["--strategy", "server", "--server-mode", mode]
            out = self.path("run.jsonl")
            seconds = []
            for more in ([], ["--sim-only"]):
                self.ok(*job, *more, "--out", out)
                seconds.append(last_run(out)[-1]["seconds"])
            self.assertLess(abs(seconds[1] / seconds[0] - 1), 0.04, (workers, name, mode, method, seconds))

    def test_ten_thousand(self):
        """At 1 Gbit/s, ten servers of 10 Gbit/s take 1,000 frames of 0.2 MB each, and as many answers; async as in step."""
        out = self.path("run.jsonl")
        job = ["train", "--model", "mlp:hidden=64", "--data", "glyphs:train=512,test=64", "--batch", "1", *VIRTUAL, "--sim-only", "--workers",
               "10000", "--servers", "10", "--steps", "20", "--link", "1gbit,10ms", "--strategy", "server"]
        job += [word for s in range(10) for word in ("--link-of", f"{10000 + s}=10gbit,10ms")]
        took = {}
        for mode in ("sync", "async"):
            printed = self.ok(*job, "--server-mode", mode, "--out", out)
            lines = records(out)
            took[mode] = lines[-1]["seconds"] / 20
            self.assertIn(f"servers        10 (simulated), {mode}", printed)
            least = 10000 * 4 * lines[0]["params"] / 10 * 8 / 10e9
            self.assertTrue(least < took[mode] < 1.1 * least + 0.045, (mode, took[mode], least))
        self.refused(2, ["--link-of 10010", "ranks 0 to 10009"], *job, "--link-of", "10010=1gbit")

    def test_refusals(self):
        weights = self.path("w.safetensors")
        self.refused(2, ["--save-weights with --clock virtual and --server-mode async:staleness=2: ", "--server-mode sync"], *MODEL, *VIRTUAL,
                     *ALIKE, "--server-mode", "async:staleness=2", "--steps", "2", "--save-weights", weights)
        self.ok(*MODEL, *VIRTUAL, *ALIKE, "--server-mode", "sync", "--steps", "2", "--save-weights", weights)
        self.refused(2, ["--sim-only and --server-deadline"], *MODEL, *VIRTUAL, *ALIKE, "--sim-only", "--server-deadline", "1")

    def test_a_worker_that_fails(self):
        """Nobody waits for it at the end."""
        for rank in "10":
            for mode in ("async", "async:staleness=2"):
                self.refused(1, [f"rank {rank}: killed by fault"], *MODEL, *VIRTUAL, *ALIKE, "--server-mode", mode, "--steps", "30", "--fault",
                             f"{rank}=fault:kill=5")

    def test_stopped(self):
        """Also while some are ahead as far as they may be."""
        out = self.path("run.jsonl")
        process = start(*MODEL, *VIRTUAL, *FOUR, "--server-mode", "async:staleness=1", "--steps", "1000000", "--log-every", "1", "--out", out)
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists(out) and os.path.getsize(out) > 4096):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143)
        last = records(out)[-1]
        self.assertEqual((last["type"], last["interrupted"]), ("end", True))
        self.assertTrue(0 < last["steps"] < 1000000)


if __name__ == "__main__":
    unittest.main()
