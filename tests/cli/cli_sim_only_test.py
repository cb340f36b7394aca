"""Training that is only simulated: the times of a run by the virtual clock, without computing; what it refuses."""
import json
import os
import signal
import time
import unittest
from cli_tool import CliTest, over, records, run, start

MODEL = ["train", "--model", "mlp:hidden=32", "--data", "glyphs:train=640,test=16", "--batch", "4", "--no-eval"]
VIRTUAL = ["--clock", "virtual", "--tau", "20ms"]
LINKS = ("100mbit,20ms", "10mbit,2ms")
WAYS = (("ssgd", "powersgd"), ("cd:k=3,warmup=2", "2bit:threshold=0.01"), ("dga:delay=2", "dense"),
        ("local:every=3", "topk:density=0.05"), ("streaming:every=4", "qsgd:bits=4"))


class SimOnly(CliTest):
    def last(self, *args):
        out = self.path("run.jsonl")
        self.ok(*MODEL, *VIRTUAL, *args, "--out", out)
        run = records(out)
        self.assertEqual(run[-1]["clock"], "virtual")
        return run

    def test_as_the_virtual_clock_has_it(self):
        for link in LINKS:
            for strategy, method in WAYS:
                job = ["--workers", "4", "--steps", "12", "--link", link, "--strategy", strategy, "--method", method]
                real, sim = self.last(*job)[-1], self.last(*job, "--sim-only")[-1]
                self.assertLess(abs(sim["seconds"] / real["seconds"] - 1), 0.1, (job, sim["seconds"], real["seconds"]))

    def test_bytes(self):
        """Those of the steps are the same; of the run, parameters and handshake are left out."""
        for method in ("dense", "qsgd:bits=4", "dgc:density=0.01,warmup=0"):
            job = ["--workers", "4", "--steps", "12", "--method", method]
            real, sim = self.last(*job), self.last(*job, "--sim-only")
            self.assertLess(abs(sim[-1]["bytes_per_step"] / real[-1]["bytes_per_step"] - 1), 0.01, method)
            self.assertAlmostEqual(sim[-1]["bytes_sent"] / sim[-1]["bytes_per_step"], 12, 9)
            besides = real[-1]["bytes_sent"] - 12 * real[-1]["bytes_per_step"]
            self.assertTrue(0 < besides - 3 * 4 * real[0]["params"] < 3 * 3000, (method, besides))

    def test_ranks_that_differ(self):
        job = ["--workers", "3", "--steps", "8", "--link", "50mbit,10ms", "--slow", "2:2x@3-6", "--jitter", "20%"]
        # The slowest link stands for all: too long where only one rank has a tenth of the rate.
        for other, too_long in (("1=50mbit,30ms", 0.05), ("1=5mbit,10ms", 0.15), ("1=5mbit,30ms", 0.2)):
            real, sim = self.last(*job, "--link-of", other)[-1], self.last(*job, "--link-of", other, "--sim-only")[-1]
            error = sim["seconds"] / real["seconds"] - 1
            self.assertTrue(-0.02 < error < too_long, (other, sim["seconds"], real["seconds"]))
            self.assertAlmostEqual(sim["compute_ms_median"], real["compute_ms_median"], 4)
            self.assertAlmostEqual(sim["compute_ms_mean"], real["compute_ms_mean"], 4)
            self.assertAlmostEqual(sim["step_ms_mean"], 1000 * sim["seconds"] / 8)

    def test_links_that_differ(self):
        job = ["--workers", "3", "--steps", "4", "--sim-only"]
        def seconds(*links):
            return self.last(*job, *links)[-1]["seconds"]
        slow = seconds("--link", "5mbit,30ms")
        self.assertEqual(seconds("--link", "50mbit,10ms", "--link-of", "1=5mbit,30ms"), slow)
        self.assertEqual(seconds("--link", "5mbit,30ms", "--link-of", "1=up=7mbit,delay=30ms"), slow)
        self.assertEqual(seconds("--link-of", "2=5mbit,30ms"), slow)
        self.assertEqual(seconds("--link", "5mbit,30ms", "--link-of", "0=none"), slow)
        printed = self.ok(*MODEL, *VIRTUAL, *job, "--link", "50mbit,10ms", "--link-of", "1=5mbit,30ms")
        self.assertIn("differ: every exchange is simulated over the slowest, 5mbit,30ms", printed)
        self.assertNotIn("differ", self.ok(*MODEL, *VIRTUAL, *job, "--link", "5mbit", "--link-of", "1=5mbit,0ms"))
        for other in ("5mbit,1ms", "100mbit,80ms", "30ms", "50mbit,0ms,jitter=1ms"):
            self.refused(2, ["--sim-only with links", other, "50mbit,10ms"],
                         *MODEL, *VIRTUAL, *job, "--link", "50mbit,10ms", "--link-of", "1=" + other)

    def test_records_and_times_of_a_run(self):
        measured = self.path("measured.jsonl")
        self.ok(*MODEL, "--workers", "2", "--steps", "3", "--clock", "virtual", "--method", "2bit", "--out", measured)
        out = self.path("run.jsonl")
        printed = self.ok(*MODEL, "--workers", "2", "--epochs", "1", "--clock", "virtual", "--sim-only", "--tau", measured,
                          "--method", "2bit", "--out", out)
        self.assertIn("nothing was computed", printed)
        self.assertIn("80 steps", printed)
        run = records(out)
        self.assertTrue(run[0]["sim_only"])
        self.assertEqual(run[0]["times"], records(measured)[0]["times"])
        self.assertEqual([r["type"] for r in run], ["start", "step", "step", "end"])
        self.assertEqual((run[-1]["steps"], run[-1]["params_hash"]), (80, None))
        self.assertGreater(run[-1]["bytes_per_step"], 0)

    def test_ten_thousand(self):
        """In time for this test to end: a step of two delays of 30 ms, whatever the number of ranks."""
        run = self.last("--workers", "10000", "--steps", "50", "--link", "30ms", "--sim-only")
        self.assertAlmostEqual(run[-1]["seconds"], 50 * 0.080, 6)
        self.assertEqual(run[0]["world"], 10000)
        run = self.last("--workers", "10000", "--steps", "50", "--link", "30ms", "--slow", "9999:2x", "--link-of", "5000=50ms",
                        "--sim-only")
        self.assertAlmostEqual(run[-1]["seconds"], 50 * 0.140, 6)

    def test_precision(self):
        """Of a CPU that this one need not be, if it has not to be measured."""
        job = [*MODEL, "--sim-only", "--clock", "virtual", "--steps", "4", "--precision", "bf16"]
        self.assertEqual(run(*job, "--tau", "5ms", TG_CPU="ref").returncode, 0)
        refused = run(*job, "--tau", "measured", TG_CPU="ref")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("precision bf16", refused.stderr)

    def test_data_that_are_not_here(self):
        """How many steps an epoch has is not known then: durations are in steps, or the run is refused, not played with another one."""
        job = ["train", "--model", "lenet5", "--data", "cifar10:train=1-4,test=5", "--clock", "virtual", "--sim-only", "--tau", "5ms", "--link", "10mbit,5ms",
               "--workers", "2", "--steps", "400"]
        out = self.path("run.jsonl")
        for way in (["--strategy", "cd:k=4,warmup=100", "--method", "2bit"], ["--method", "dgc:warmup=4ep"], ["--strategy", "gossip"]):
            self.ok(*job, *way, "--out", out, TELEGRAD_DATA=self.path("none"))
            start, *steps, end = records(out)
            self.assertEqual((start["steps_per_epoch"], {s["epoch"] for s in steps}, end["steps"]), (None, {0}, 400), way)
        for way in (["--strategy", "cd:k=4,warmup=1ep", "--method", "2bit"], ["--strategy", "local:every=4,after=.5ep"], ["--strategy", "gossip:mean=1ep"],
                    ["--lr-schedule", "cosine:warmup=1ep"]):
            self.refused(2, [way[1].split("=")[-1], "in steps, or with the data (cifar10:train=1-4,test=5 is not here)"], *job, *way,
                         TELEGRAD_DATA=self.path("none"))

    def test_many_clients(self):
        """Likewise where each worker is looked at in each step: who takes part is drawn once a round, not for each of them."""
        for deadline, steps in ((0, 10), (0.07, 4)): # a round's; none begins after 70 ms
            run = self.last("--workers", "60000", "--steps", "20", "--link", "30ms", "--sim-only", "--jitter", "1%",
                            "--strategy", "fedavg:every=10,clients=0.1,deadline=%g" % deadline)
            least = 2 * (steps * 0.020 + 0.060)
            self.assertTrue(least < run[-1]["seconds"] < least + 2 * steps * 0.0002, (deadline, run[-1]["seconds"]))

    def test_a_worker_that_is_not_drawn(self):
        """Worker 0's median step is idle: the time of computing is that of the workers that compute."""
        text = self.ok(*MODEL, *VIRTUAL, "--sim-only", "--workers", "10", "--steps", "50", "--strategy", "fedavg:every=10,clients=0.3")
        self.assertIn(", computing takes 20.0 ms a step\n", text)
        self.assertIn("; mean step 20.0 ms, worker 0 is not drawn for most\n", text)

    def test_compare(self):
        """The runs that train --sim-only has, in one table without accuracies."""
        out = self.path("all.jsonl")
        args = ["compare", *MODEL[1:], *VIRTUAL, "--sim-only", "--workers", "10000", "--steps", "24", "--link", "100mbit,20ms",
                "--run", "name=all", "--run", "name=few;method=topk:exchange=reducescatter;strategy=local:every=6", "--run", "name=long;steps=48"]
        rows = [json.loads(line) for line in self.ok(*args, "--json", "--out", out).splitlines()]
        self.assertEqual([(row["run"], row["steps"], row["test_accuracy"]) for row in rows],
                         [("all", 24, None), ("few", 24, None), ("long", 48, None)])
        alone = self.last("--sim-only", "--workers", "10000", "--steps", "24", "--link", "100mbit,20ms")[-1]
        self.assertEqual((rows[0]["time_to_finish"], rows[0]["bytes_per_step"]), (alone["seconds"], alone["bytes_per_step"]))
        self.assertEqual(records(out)[-1], {"type": "table", "rows": rows})
        starts = [r for r in records(out) if r["type"] == "start"]
        self.assertEqual([(r["run"], r["sim_only"], r["world"]) for r in starts],
                         [("all", True, 10000), ("few", True, 10000), ("long", True, 10000)])
        caption, *lines = self.ok(*args).splitlines()
        self.assertEqual(caption, "mlp:hidden=32 on glyphs:train=640,test=16; 10000 workers (simulated), batch 4, link 100mbit,20ms, "
                         "sgd:lr=0.05,momentum=0.9")
        self.assertEqual(len(lines), 6)  # the last one says that steps differ
        self.refused(2, ["--dense-timed and --sim-only"], *args, "--dense-timed", "3")
        self.refused(2, ["--run 1", "--sim-only and --nodes"], *args, "--nodes", "2")
        self.refused(2, ["--run 1", "--sim-only requires --clock virtual"], "compare", "--sim-only", "--run", "name=a")
        self.refused(2, ["1000001", "--sim-only to 1000000"], *over(*args, "--workers", "1000001"))

    def test_says_what_is_a_guess(self):
        job = [*MODEL, *VIRTUAL, "--sim-only", "--workers", "4", "--steps", "3"]
        for more, words in ((["--method", "adacomp"], "what method adacomp sends depends on the gradients"),
                            (["--strategy", "gossip", "--slow", "1:2x"], "strategy gossip is simulated as if each worker waited for all others")):
            done = run(*job, *more, "--out", self.path("run.jsonl"))
            self.assertEqual((done.returncode, done.stderr.count(words)), (0, 1), done.stderr)
            self.assertIn(words, records(self.path("run.jsonl"))[0]["note"])
            self.assertNotIn(words, run(*(word for word in job if word not in ("--sim-only", *VIRTUAL)), *more[:2]).stderr)
        many = ["--workers", "200"]
        self.assertIn("samples        a step takes more than the data have", self.ok(*over(*job, *many)))
        self.refused(2, ["--batch 4: allowed: 1 to 3"], *over(*(word for word in job if word not in ("--sim-only", *VIRTUAL)), *many))

    def test_interrupt(self):
        """What was played is written, as of a run that computes."""
        out = self.path("run.jsonl")
        process = start(*MODEL, *VIRTUAL, "--sim-only", "--workers", "4", "--steps", "1000000000", "--log-every", "1000",
                        "--out", out)
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists(out) and os.path.getsize(out) > 4096):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        printed, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, said), (143, "telegrad: interrupted by SIGTERM\n"))
        last = records(out)[-1]
        self.assertEqual((last["type"], last["interrupted"]), ("end", True))
        self.assertTrue(0 < last["steps"] < 1000000000)
        self.assertIn("steps          %d of 1000000000, interrupted" % last["steps"], printed)

    def test_refusals(self):
        sim = [*MODEL, *VIRTUAL, "--sim-only"]
        self.refused(2, ["--sim-only", "--clock virtual", "--tau"], *MODEL, "--sim-only")
        self.refused(2, ["--sim-only", "--tau"], *MODEL, "--sim-only", "--clock", "virtual")
        for other in (["--save", self.path("d")], ["--trace", self.path("t")], ["--nodes", "2"], ["--fault", "0=fault:kill=1"],
                      ["--dry-run"]):
            self.refused(2, ["--sim-only", other[0]], *sim, "--workers", "4", *other)
        self.refused(2, ["label:classes=11: the data have 10 classes: allowed: 1 to 10"], *sim, "--workers", "4", "--shard", "label:classes=11")
        self.refused(2, ["--slow 5000", "ranks 0 to 3"], *sim, "--workers", "4", "--slow", "5000:2x")
        self.refused(2, ["--link-of 5000", "ranks 0 to 3"], *sim, "--workers", "4", "--link-of", "5000=1ms")
        self.refused(2, ["--slow", "1000000:2x"], *sim, "--workers", "4", "--slow", "1000000:2x")
        self.refused(2, ["--epochs 0: allowed: whole numbers from 1"], *sim, "--epochs", "0")
        self.refused(2, ["--fusion auto"], *sim, "--fusion", "auto")
        self.refused(2, ["5000", "4096", "--sim-only"], *MODEL, *VIRTUAL, "--workers", "5000")
        self.refused(2, ["1000001", "4096"], *sim, "--workers", "1000001")
        self.refused(2, ["topk"], *sim, "--workers", "4", "--method", "dgc:warmup=0", "--strategy", "local")


if __name__ == "__main__":
    unittest.main()
