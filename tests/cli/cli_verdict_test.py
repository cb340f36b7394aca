"""What is said of a run that came to its end without having trained, or without its method."""
import json
import unittest

from cli_tool import CliTest, TINY, over, records, run

JOB = [*TINY, "--model", "mlp:hidden=16", "--workers", "2"]
LARGER = ["--data", "glyphs:train=2048,test=512", "--batch", "32", "--model", "mlp:hidden=32"]


class Verdict(CliTest):
    def end(self, status, whats, *args):
        """The end record of a run of this exit status, of which these things are said."""
        out = self.path("run.jsonl")
        done = run("train", *over(*JOB, "--out", out, *args))
        self.assertEqual(done.returncode, status, done.stderr)
        end = records(out)[-1]
        self.assertEqual([remark["what"] for remark in end["remarks"]], whats, end["remarks"])
        self.assertEqual(end["diverged"], status == 1)
        said = done.stderr.replace("the run failed: ", "warning: ") if status == 1 else done.stderr
        self.assertTrue(said.endswith("".join(f"telegrad: warning: {remark['text']}\n" for remark in end["remarks"])), done.stderr)
        self.assertEqual("telegrad: the run failed: " in done.stderr, status == 1)
        return end

    def test_nothing_to_say(self):
        self.end(0, [], "--steps", "20")
        self.end(0, [], "--steps", "20", "--method", "dgc:density=0.01")

    def test_diverged(self):
        end = self.end(1, ["skipped", "loss"], "--steps", "20", "--optimizer", "sgd:lr=1e9")
        self.assertRegex(end["remarks"][0]["text"], r"^1\d of 20 steps were skipped")
        end = self.end(1, ["skipped", "loss"], "--steps", "20", "--optimizer", "sgd:lr=1e9", "--no-eval")
        self.assertIn("training loss", end["remarks"][1]["text"])
        saved = run("train", *JOB, "--steps", "20", "--optimizer", "sgd:lr=1e9", "--no-eval", "--save", self.path("ck"))
        self.assertIn("step-000000000020, but the run failed: do not continue from it\n", saved.stdout)
        self.assertNotIn("--resume", saved.stdout)
        page = self.path("page.html")
        self.ok("report", self.path("run.jsonl"), "-o", page)
        with open(page, encoding="utf-8") as file:
            self.assertIn(end["remarks"][0]["text"][5:], file.read())

    def test_rate_too_low(self):
        """Updates that are lost in rounding."""
        for options in (["--lr", "1e-20"], ["--optimizer", "sgd:lr=0.1,clip=1e-30"]):
            end = self.end(0, ["unchanged"], "--steps", "20", *options)
            self.assertIn("a higher learning rate would help", end["remarks"][0]["text"])
        self.end(0, [], "--steps", "20", "--lr", "1e-4")
        self.end(0, [], "--model", "lenet5", "--steps", "2", "--lr", "1e-3")

    def test_diverged_quietly(self):
        """The reason for exit status 1 is an error, and nothing else is said."""
        for options, words in (["--steps", "20", "--lr", "1e9"], ["skipped", "not finite"]), (["--steps", "2", "--optimizer", "sgd:lr=1e4,momentum=0"], ["guessing"]):
            done = run("train", *JOB, "-q", *options)
            self.assertEqual((done.returncode, len(words)), (1, done.stderr.count("telegrad: the run failed: ")), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), len(words))
            for word in words:
                self.assertIn(word, done.stderr)
        done = run("compare", *JOB, "-q", "--steps", "20", "--run", "name=bad;lr=1e9")
        self.assertRegex(done.stderr, r"^telegrad: 1/1 bad: the run failed: 1\d of 20 steps were skipped")

    def test_no_average_before_the_end(self):
        """Said before the run and after it, for ranks that would have exchanged."""
        for strategy, what in (("local:every=30", "nothing was exchanged"), ("diloco:every=30", "nothing was exchanged"), ("fedavg:every=30", "nothing was exchanged"),
                               ("dga:delay=20", "no average arrived"), ("dga:delay=30,every=30", "nothing was exchanged"), ("pipe:width=21", "no average arrived")):
            job = ["train", *over(*JOB, "--steps", "20", "--lr", "0.01", "--strategy", strategy)]
            done = run(*job)
            self.assertEqual(done.returncode, 0, done.stderr)
            before, *_, after = [line for line in done.stderr.splitlines() if " in a run of 20 steps: " in line]
            self.assertIn("before the end, and tests until then use the parameters that the run started with: use a smaller ", before)
            self.assertTrue(after.endswith(what + " before the end"), after)
            self.assertIn(before, run(*job, "--dry-run").stderr)
            self.assertNotIn("in a run of", run(*over(*job, "--workers", "1")).stderr)
            self.assertNotIn("in a run of", run(*over(*job, "--steps", "32")).stderr)
            sim = run(*job, "--clock", "virtual", "--tau", "1ms", "--sim-only")
            self.assertEqual(sim.stderr.count("before the end"), 2, sim.stderr)

    def test_few_rounds(self):
        """Said before the run if Adam makes the steps, in rounds of the default length."""
        job = ["train", *JOB, "--steps", "250", "--no-eval", "--dry-run"]
        adam = ["--optimizer", "adamw:lr=0.001"]
        for strategy, fusion in ("diloco", []), ("streaming", ["--fusion", "8K"]):
            said = f"telegrad: warning: strategy {strategy}: every=100 makes 2 rounds in a run of 250 steps, which is few: "
            self.assertIn(said, run(*job, *fusion, *adam, "--strategy", strategy).stderr)
            self.assertIn(said, run(*job, *fusion, *adam, "--strategy", f"{strategy}:momentum=0").stderr)
            for others in (["--strategy", strategy], [*adam, "--strategy", strategy, "--workers", "1"],
                           [*adam, "--strategy", f"{strategy}:every=10"]):
                self.assertNotIn("which is few", run(*over(*job, *fusion, *others)).stderr)
            self.assertNotIn("which is few", run(*over(*job, *fusion, *adam, "--strategy", strategy, "--steps", "3000")).stderr)

    def test_far_worse_than_guessing(self):
        """However short the run, and though all numbers are finite."""
        for evaluation in ([], ["--no-eval"]):
            end = self.end(1, ["loss"], "--steps", "2", "--optimizer", "sgd:lr=1e4,momentum=0", *evaluation)
            self.assertIn("above that of guessing, 2.3026", end["remarks"][0]["text"])
            self.assertTrue(end["diverged"])

    def test_diverged_to_about_guessing(self):
        """The test loss is not far above guessing, but the training loss of an epoch was: of the last one, or of one before."""
        for evaluation in ([], ["--no-eval"]):
            for steps in ("64", "96"):
                end = self.end(1, ["loss"], *over(*LARGER, "--steps", steps, "--lr", "3", *evaluation))
                self.assertRegex(end["remarks"][0]["text"], r"above that of guessing, 2.3026 \(log of 10\).*: a lower learning rate would help$")
        done = run("compare", *over(*JOB, *LARGER), "--steps", "64", "--run", "name=good", "--run", "name=bad;lr=3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ *bad ! ")
        self.assertRegex(done.stdout, r"(?m)^! bad: the test loss at the end")
        self.assertNotIn("good !", done.stdout)

    def test_given_up(self):
        """A run that ends because all steps are skipped says what would help, too; NaN has no sign."""
        done = run("train", *over(*JOB, *LARGER), "--steps", "200", "--optimizer", "sgd:weight_decay=100")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"20 steps in a row had gradients that are not finite \(loss nan, lr 0.05\): a lower learning rate would help\n$")

    def test_short_and_healthy(self):
        """First losses are slightly above guessing."""
        for steps in ("2", "5", "20"):
            for more in ([], ["--no-eval"], ["--lr", "0.001"]):
                self.end(0, [], "--steps", steps, *more)

    def test_no_better_than_guessing(self):
        end = self.end(0, ["loss"], "--steps", "120", "--optimizer", "sgd:lr=1e-9")
        self.assertIn("above that of guessing, 2.3026 (log of 10)", end["remarks"][0]["text"])

    def test_what_did_not_start(self):
        end = self.end(0, ["not_started"], "--steps", "20", "--strategy", "cd:warmup=20", "--method", "2bit")
        self.assertIn("strategy cd: its warm-up of 20 steps does not end in 20 steps", end["remarks"][0]["text"])
        self.end(0, ["not_started"], "--steps", "20", "--method", "dgc:density=0.01,warmup=2ep")
        end = self.end(0, ["not_started"], "--steps", "20", "--lr-schedule", "cosine:warmup=100")
        self.assertIn("lr-schedule cosine: its warm-up of 100 steps does not end in 20 steps", end["remarks"][0]["text"])
        self.end(0, [], "--steps", "20", "--lr-schedule", "cosine:warmup=19")
        end = self.end(0, ["warm_up"], "--steps", "20", "--method", "dgc:density=0.01,warmup=11")
        self.assertIn("method dgc: its warm-up takes 11 of 20 steps, so bytes and ratio, which are of the second half, count a part of it",
                      end["remarks"][0]["text"])
        self.end(0, [], "--steps", "20", "--method", "dgc:density=0.01,warmup=10")
        planned = run("train", *JOB, "--steps", "20", "--method", "dgc:density=0.01,warmup=30", "--dry-run")
        self.assertEqual((planned.returncode, "method dgc: its warm-up of 30 steps does not end in 20 steps" in planned.stderr), (0, True))
        self.end(0, [], "--steps", "20", "--strategy", "cd", "--method", "2bit")

    def test_what_sent_nothing_or_everything(self):
        self.end(0, ["sent_nothing"], "--steps", "20", "--method", "2bit:threshold=1000")
        self.end(0, [], "--steps", "20", "--method", "2bit")
        self.end(0, ["sent_everything"], "--steps", "20", "--method", "csc:chunk=1000000,warmup=0")
        end = self.end(0, ["sent_everything"], "--steps", "20", "--method", "powersgd:rank=1000")
        self.assertIn("at rank=1000", end["remarks"][0]["text"])
        self.end(0, [], "--steps", "20", "--method", "powersgd:rank=2")
        rules = ["--rule", "*.bias=f32", "--rule", "fc[0-9]*=fp16"]  # all that there are
        end = self.end(0, ["not_used"], "--steps", "20", "--method", "dgc", *rules)
        self.assertEqual(end["remarks"][0]["text"], "rules cover all tensors: method dgc is not used")
        self.end(0, [], "--steps", "20", *rules)
        end = self.end(0, [], "--steps", "20", "--method", "atomo")
        self.assertLess(end["density_kept"], 0.9)

    def test_compare(self):
        out = self.path("c.jsonl")
        done = run("compare", *JOB, "--steps", "20", "--out", out, "--run", "name=good", "--run", "name=bad;optimizer=sgd:lr=1e9")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ *bad ! ")
        self.assertRegex(done.stdout, r"(?m)^! bad: 1\d of 20 steps were skipped")
        self.assertNotIn("good !", done.stdout)
        rows = records(out)[-1]["rows"]
        self.assertEqual([row["diverged"] for row in rows], [False, True])
        self.assertEqual([bool(row["remarks"]) for row in rows], [False, True])
        self.assertNotIn("the speed-up is over", done.stdout)
        done = run("compare", *JOB, "--steps", "20", "--json", "--run", "strategy=cd:warmup=20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["remarks"][0]["what"], "not_started")

    def test_compare_without_the_first_run(self):
        """A run that failed has no ratio and no speed-up, and is not what others are compared with."""
        runs = ["--run", "name=a;lr=1e9", "--run", "name=few;method=topk:density=0.01", "--run", "name=b"]
        out = self.path("c.jsonl")
        done = run("compare", *JOB, "--steps", "20", "--out", out, *runs)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\nthe speed-up is over b, the first dense run that did not fail\n", done.stdout)
        rows = {row["run"]: row for row in records(out)[-1]["rows"]}
        self.assertEqual([rows["a"][key] for key in ("ratio", "ratio_wire", "speed_up", "test_accuracy")], [None] * 4)
        self.assertEqual(rows["b"]["speed_up"], 1)
        self.assertAlmostEqual(rows["few"]["speed_up"], rows["b"]["step_ms"] / rows["few"]["step_ms"])
        row = next(line for line in done.stdout.splitlines() if line.strip().startswith("a !"))
        self.assertEqual([row.split().count("-"), row.split()[-1]], [3, "-"], row)


if __name__ == "__main__":
    unittest.main()
