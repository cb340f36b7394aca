"""Training by simulated time: the same bits as by the real clock, times that can be worked out by hand, the same records
from run to run on whatever cores."""
import re
import subprocess
import unittest
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, TINY, last_run, over, records, run
from same_hash_test import params_hash

MODEL = ["train", "--model", "mlp:hidden=32", *TINY]
VIRTUAL = ["--clock", "virtual", "--tau", "20ms"]


class SimulatedTime(CliTest):
    def train(self, *args):
        """The records of a run without an evaluation; adds the hash that was printed to the last one."""
        out = self.path("run.jsonl")
        printed = self.ok(*MODEL, "--no-eval", *args, "--log-every", "2", "--out", out)
        self.assertIn("clock          virtual", printed)
        return last_run(out)

    def seconds(self, *args):
        return self.train(*VIRTUAL, *args)[-1]["seconds"]

    def test_alone(self):
        run = self.train(*VIRTUAL, "--steps", "6")
        self.assertEqual(run[-1]["seconds"], 0.12)
        self.assertEqual([r["seconds"] for r in run if "step_ms" in r], [0.04, 0.08, 0.12])
        self.assertEqual((run[0]["clock"], run[0]["tau"], run[0]["tau_ms"]), ("virtual", "20ms", 20))
        self.assertEqual(run[-1]["clock"], "virtual")
        self.assertEqual(run[-1]["step_ms_median"], 20)
        self.assertEqual(run[-1]["compute_ms_median"], 20)
        self.assertEqual(self.seconds("--steps", "3", "--accumulate", "2"), 0.12)

    def test_coding_is_told_where_it_takes_time(self):
        job = [*MODEL, "--workers", "2", "--steps", "2", "--no-eval", "--clock", "virtual"]
        self.assertRegex(self.ok(*job, "--tau", "20ms"), r"\ncoding +100 % of the elements kept\n")
        self.assertRegex(self.ok(*job), r"\ncoding +100 % of the elements kept; [0-9.e-]+ ns an element to encode, [0-9.e-]+ to decode\n")

    def test_times_of_other_buckets(self):
        measured = self.path("measured.jsonl")
        job = [*MODEL, "--no-eval", "--clock", "virtual", "--workers", "2", "--steps", "2", "--link", "5mbit"]
        self.ok(*job, "--out", measured)
        for way in ([], ["--sim-only"]):
            self.refused(1, [f"--tau {measured}: costs of 1 buckets, but the ", "give the --fusion and --rule of that run"],
                         *job, "--tau", measured, "--fusion", "4K", *way)

    def test_slow_after_the_end(self):
        job = [*MODEL, "--no-eval", *VIRTUAL, "--workers", "2", "--steps", "4"]
        self.assertIn("--slow 1:...@5-9: these steps come after the end of this run, which has 4 steps",
                      run(*job, "--slow", "1:2x@5-9").stderr)
        self.assertNotIn("--slow", run(*job, "--slow", "1:2x@4-9").stderr)

    def test_late_worker(self):
        """One that takes three times as long as the others is late, leaves out steps, and ends each epoch with them."""
        job = [*MODEL, *VIRTUAL, "--workers", "3", "--servers", "1", "--strategy", "server", "--method", "topk:density=0.1", "--epochs", "2"]
        out, ends = self.path("run.jsonl"), []
        for _ in range(2):
            done = run(*job, "--slow", "0:3x", "--server-deadline", "5ms", "--log-every", "1", "--out", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("rank 0: step 0: the gradient came after the server's deadline: it is sent with the next one", done.stderr)
            ends.append(last_run(out)[-1])
        late, steps = ends[0], last_run(out)[0]["steps"]
        self.assertEqual([end["late"] > 0 and end["late"] == ends[0]["late"] for end in ends], [True, True])
        self.assertEqual((late["steps"], late["epochs"], len({end["params_hash"] for end in ends})), (steps, 2, 1))
        made = [record["step"] for record in last_run(out) if "step_ms" in record]
        self.assertLess(len(made), steps)
        waits = last_run(self.run_to(out, *job, "--slow", "0:3x"))[-1]
        self.assertLess(late["seconds"], 0.6 * waits["seconds"])
        self.assertEqual((waits["late"], waits["params_hash"] == last_run(self.run_to(out, *job, "--server-deadline", "1s"))[-1]["params_hash"]),
                         (0, True))

    def run_to(self, out, *args):
        self.ok(*args, "--out", out)
        return out

    def test_mean_beside_the_median(self):
        """Where a few steps wait for the link and the others do not, the mean is printed, too."""
        job = [*MODEL, "--no-eval", *VIRTUAL, "--workers", "4", "--link", "20mbit,10ms", "--steps", "40"]
        printed = self.ok(*job, "--strategy", "dga:delay=2", "--method", "dense:exchange=allgather")
        seconds, mean, median = re.search(r"\ntime +([\d.]+) s; mean step ([\d.]+) ms, median step ([\d.]+) ms", printed).groups()
        self.assertAlmostEqual(float(seconds) / 40, float(mean) / 1000, delta=0.002)
        self.assertGreater(float(mean), 1.25 * float(median))
        self.assertRegex(self.ok(*job), r"\ntime +[\d.]+ s; median step ")

    def test_resuming_goes_on(self):
        folder = self.path("saved")
        self.train(*VIRTUAL, "--steps", "4", "--save", folder)
        run = self.train(*VIRTUAL, "--steps", "6", "--resume", folder)
        self.assertEqual(run[0]["first_step"], 4)
        self.assertAlmostEqual(run[-1]["step_ms_mean"], 20, 9)  # of this run's steps
        self.assertAlmostEqual(run[-1]["seconds"], 0.12, 9)

    def test_the_length_of_epochs_does_not_matter(self):
        """Who waits for others at an epoch's end does so in training's time, and no message gets ahead during a test."""
        def seconds(images, *args):
            out = self.path("run.jsonl")
            self.ok("train", "--model", "mlp:hidden=32", "--data", f"glyphs:train={images},test=500", *VIRTUAL, "--workers", "4",
                    "--steps", "24", "--batch", "16", *args, "--out", out)
            return records(out)[-1]["seconds"]

        slow = ["--no-eval", "--link", "10mbit,5ms", "--strategy", "local:every=12"]
        bound = 24 * 0.2
        for rank in ("0", "3"):
            for images in (8000, 512):
                took = seconds(images, *slow, "--slow", f"{rank}:10x")
                self.assertTrue(bound < took < 1.1 * bound, (rank, images, took))
        late = ["--link", "2mbit,20ms", "--strategy", "dga:delay=4"]
        whole = seconds(8000, "--no-eval", *late)
        self.assertGreater(whole, 24 * 0.04, "the link is what it waits for")
        for more in (["--no-eval"], [], ["--save", self.path("saved"), "--save-every", "6"]):
            took = seconds(512, *late, *more)
            self.assertTrue(0.97 * whole < took < 1.35 * whole, (more, whole, took))

    def test_a_deadline_is_resumed(self):
        """What counts is time in steps: not what it took to begin, to save, to go on."""
        job = [*VIRTUAL, "--workers", "3", "--link", "10mbit,30ms", "--slow", "1:2x", "--strategy", "fedavg:every=8,deadline=0.1"]
        folder = self.path("saved")
        whole = self.train(*job, "--steps", "14")[-1]
        self.train("-q", *job, "--steps", "4", "--save", folder)  # less than a round, which is said
        resumed = self.train(*job, "--steps", "14", "--resume", folder)[-1]
        self.assertEqual(resumed["params_hash"], whole["params_hash"])

    def test_same_records_on_whatever_cores(self):
        job = [*MODEL, "--workers", "3", "--steps", "8", "--link", "10mbit,5ms,jitter=3ms", "--link-of", "2=3mbit,9ms", "--method",
               "dgc:density=0.01,warmup=4", "--clock", "virtual", "--slow", "1:1.5x", "--jitter", "10%", "--trace",
               self.path("trace")]
        first, same, once = self.path("first.jsonl"), self.path("same.jsonl"), self.path("once.jsonl")
        self.ok(*job, "--out", first)
        hashed = params_hash(self.ok(*job, "--tau", first, "--out", same))
        with open(self.path("trace"), encoding="utf-8") as file:
            trace = file.read()
        pinned = subprocess.run(["taskset", "-c", "0", TELEGRAD, *job, "--tau", same, "--out", once], env=ENVIRONMENT,
                                capture_output=True, text=True)
        self.assertEqual((pinned.returncode, pinned.stderr), (0, ""))
        with open(self.path("trace"), encoding="utf-8") as file:
            self.assertEqual(trace, file.read())
        a, b, c = records(first), records(same), records(once)
        self.assertGreater(a[0]["tau_ms"], 0)
        self.assertEqual(len(a[0]["times"]["buckets"]), 1)
        for run in (a, b, c):
            for field in ("time", "out", "tau"):
                del run[0][field]
        self.assertEqual(a, b)
        self.assertEqual(b, c)
        self.assertEqual(hashed, b[-1]["params_hash"])

    def test_same_bits_as_by_the_real_clock(self):
        for job in (["--method", "dgc:density=0.01,warmup=4"], ["--method", "2bit:threshold=0.01", "--strategy", "cd:k=3,warmup=2"],
                    ["--method", "powersgd:rank=2", "--fusion", "20000", "--driver", "inline"]):
            job = [*MODEL, "--workers", "2", "--steps", "8", *job]
            self.assertEqual(params_hash(self.ok(*job)),
                             params_hash(self.ok(*job, "--link", "5mbit,10ms", "--clock", "virtual")), job)

    def test_delays(self):
        """A dense exchange in two delays of 30 ms and no bytes' time; computing takes 20 ms."""
        link = ["--workers", "2", "--steps", "10", "--link", "30ms"]
        self.assertAlmostEqual(self.seconds(*link), 10 * 0.080, 6)
        self.assertAlmostEqual(self.seconds(*link, "--strategy", "od:warmup=0"), 0.020 + 9 * 0.060 + 0.060, 6)
        self.assertAlmostEqual(self.seconds(*link, "--strategy", "od:warmup=0", "--slow", "0:4x", "--slow", "1:4x"),
                               10 * 0.080 + 0.060, 6)
        # The longer of both ends' delays, there and back.
        self.assertAlmostEqual(self.seconds(*link[:4], "--link-of", "1=45ms"), 10 * 0.110, 6)

    def test_bytes(self):
        run = self.train(*VIRTUAL, "--workers", "2", "--steps", "6", "--link", "8mbit,30ms", "--method",
                         "dense:exchange=allgather")
        step = [r for r in run if "step_ms" in r][-1]
        # But for the moment by which the ranks' first steps begin apart.
        self.assertAlmostEqual(run[-1]["seconds"], 6 * (0.020 + 0.030 + step["bytes_sent"] / 1e6), delta=0.0005)

    def test_straggler(self):
        two = ["--workers", "2", "--steps", "8"]
        self.assertAlmostEqual(self.seconds(*two, "--slow", "1:2x"), 0.32, 9)
        self.assertAlmostEqual(self.seconds(*two, "--slow", "1:2x@5-6"), 0.20, 9)

    def test_refusals(self):
        self.refused(2, ["--tau", "--clock virtual"], *MODEL, "--tau", "20ms")
        self.refused(2, ["--slow", "3", "ranks 0 to 1"], *MODEL, "--workers", "2", *VIRTUAL, "--slow", "3:2x")
        for bad in ("1:2", "1=2x", "1:0x", "1:-1x", "1:0x10x", "1:1e7x", "1:2xx", "1:nanx", "1:%sx" % ("0" * 99), "1:2x@5", "1:2x@5-4", "x"):
            self.refused(2, ['--slow "%s' % bad[:64], "above 0 and up to 1e6", "3:2.5x@100-200"], *MODEL, "--workers", "2", *VIRTUAL,
                         "--slow", bad)
        for bad in ("0.1", "0x10%", "-1%", "1001%", "1%%", "%"):
            self.refused(2, ["--jitter", "0% to 1000%"], *MODEL, *VIRTUAL, "--jitter=" + bad)
        self.refused(2, ["--clock", "real, virtual"], *MODEL, "--clock", "sundial")
        self.refused(2, ["--link-of", "2=5mbit,80ms"], *MODEL, "--link-of", "20ms")
        self.refused(2, ["--clock virtual under mpirun", "start it without mpirun, with --workers N"], *MODEL, *VIRTUAL, OMPI_COMM_WORLD_SIZE="2",
                     OMPI_COMM_WORLD_RANK="0")
        none = self.path("nothing")
        allowed = "allowed: measured, a time such as 150ms (above 0, up to 3600s), or a FILE of records that train --clock virtual --out wrote"
        self.refused(1, ["--tau %s: cannot be read: No such file or directory: %s" % (none, allowed)], *MODEL, "--clock", "virtual", "--tau", none)
        for bad in ("-5ms", "+5ms", "nan", "-inf", "1e30s", "999999999s", "3601s", "150", "0ms", ".5"):
            self.refused(2, ['--tau "%s": %s' % (bad, allowed)], *MODEL, "--clock", "virtual", "--tau=" + bad)
        other = self.path("other.jsonl")
        self.ok("train", "--model", "lenet5", *TINY, "--no-eval", "--steps", "1", *VIRTUAL, "--out", other)
        self.refused(1, ["--model lenet5", "mlp:hidden=32"], *MODEL, "--clock", "virtual", "--tau", other)
        lenet = ["train", "--model", "lenet5:act=tanh", *TINY, "--no-eval", "--steps", "1", "--clock", "virtual", "--tau", other]
        self.ok(*lenet)
        self.refused(1, ["--batch 16", "32"], *over(*lenet, "--batch", "32"))
        self.refused(1, ["--model lenet5,", "act=relu"], *over(*lenet, "--model", "lenet5:act=relu"))
        with open(other, "w", encoding="utf-8") as file:
            file.write('{"type":"start","model":"mlp:hidden=32","batch":16,"precision":"fp32","times":{"forward_ns":[1,-2],"weights_ns":[1],"buckets":[]}}\n')
        self.refused(1, ["damaged"], *MODEL, "--clock", "virtual", "--tau", other)
        with open(other, "w", encoding="utf-8") as file:
            file.write("no record\n")
        self.refused(1, ["no record with times is in it: " + allowed], *MODEL, "--clock", "virtual", "--tau", other)

    def test_deadlines_are_of_simulated_time(self):
        """A rank that stalls is named after the timeout, which takes no time in fact."""
        done = self.refused(1, ["rank 1"], *MODEL, "--no-eval", "--workers", "2", "--steps", "50", *VIRTUAL, "--timeout", "3600",
                            "--fault", "1=fault:stall=40")
        self.assertIn("3600", done)


if __name__ == "__main__":
    unittest.main()
