"""tune: the best of all combinations by successive halving, continued where it was stopped."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, last_run, over, records, run

# 461 to train, 51 held out: 28 steps an epoch; the search has 28 steps, its first rung 9.
BASE = ["--data", "glyphs:train=512,test=128", "--batch", "16", "--model", "mlp:hidden=16,hidden2=0", "--epochs", "3"]
RATES = ["--vary", "optimizer.lr=0.0001,0.1,0.001,0.02"]
ONE = ["--seeds", "1"]
# What changes nothing but the time: a delay for every exchange.
SLOW = ["--workers", "2", "--link", "1gbit,3ms"]


def without(args, *options):
    """The arguments, without these options and their values."""
    return [arg for i, arg in enumerate(args) if arg not in options and (i == 0 or args[i - 1] not in options)]


def argument(args, option):
    return args[args.index(option) + 1]


class Tune(CliTest):
    def tune(self, *args, **more):
        """The rows of the table, and the winner."""
        rows = [json.loads(line) for line in self.ok("tune", *over(*BASE, *ONE, *args), "--json", **more).splitlines()]
        return rows[:-1], rows[-1]

    def trained(self, *args):
        """The end of a run of train."""
        out = self.path("alone.jsonl")
        self.ok("train", *args, "--out", out)
        return last_run(out)[-1]

    def test_winner_is_the_best_of_all(self):
        """The search chooses what training all combinations to its end would, with the same bits."""
        folder = self.path("tuned")
        rows, winner = self.tune(*RATES, "--lr-schedule", "cosine", "--out", folder)
        ends = {rate: self.trained(*without(BASE, "--epochs"), "--lr-schedule", "cosine", "--steps", "28", "--holdout", "51", "--lr", rate)
                for rate in ("0.0001", "0.1", "0.001", "0.02")}
        best = max(ends, key=lambda rate: (ends[rate]["test_accuracy"], -ends[rate]["test_loss"]))
        self.assertEqual(winner["winner"], {"optimizer.lr": best})
        self.assertEqual(rows[0]["values"], winner["winner"])
        self.assertEqual([row["state"] for row in rows], ["winner", "stopped", "stopped", "stopped"])
        self.assertEqual([[rung["step"] for rung in row["rungs"]] for row in rows], [[9, 28]] * 2 + [[9]] * 2)
        for row in rows[:2]:
            end = ends[row["values"]["optimizer.lr"]]
            self.assertEqual(row["rungs"][1]["params_hash"], end["params_hash"])
            self.assertEqual((row["rungs"][1]["accuracy"], row["rungs"][1]["loss"]), (end["test_accuracy"], end["test_loss"]))
        # The command that is printed trains what the seeds trained.
        words = shlex.split(winner["command"])
        self.assertEqual(words[:2], ["telegrad", "train"])
        self.assertNotIn("--holdout", words)
        end = self.trained(*words[2:])
        final = winner["seeds"][0]
        self.assertEqual((final["seed"], final["params_hash"]), (1, end["params_hash"]))
        self.assertEqual((final["test_accuracy"], final["test_loss"]), (end["test_accuracy"], end["test_loss"]))
        # Records of every run, a picture, and the checkpoint of the winner only.
        self.assertEqual(sorted(os.listdir(os.path.join(folder, "runs"))), [f"run-00{i}.jsonl" for i in (1, 2, 3, 4)] + ["winner-seed-1.jsonl"])
        self.assertEqual(os.listdir(os.path.join(folder, "checkpoints")), ["winner-seed-1"])
        self.assertEqual(records(os.path.join(folder, "runs", "winner-seed-1.jsonl"))[0]["holdout"], 0)
        picture = xml.etree.ElementTree.parse(os.path.join(folder, "tune.svg")).getroot()
        texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
        for text in ("steps", "optimizer.lr", "at 1/9", "at 1/3", f"optimizer.lr={best}"):
            self.assertIn(text, texts)

    def test_a_folder_of_something_else(self):
        os.makedirs(self.path("ck/step-000000000004"))
        self.refused(2, ["it holds other files, such as step-000000000004, and no sweep: allowed: a new or empty folder"],
                     "tune", *BASE, *RATES, "--out", self.path("ck"))
        self.assertEqual(os.listdir(self.path("ck")), ["step-000000000004"])

    def test_pauses_with_the_same_bits(self):
        """Where a run pauses, it has the parameters of one that was cut off there, whatever is under way."""
        args = ["--workers", "2", "--method", "topk:density=0.05", "--strategy", "dga:delay=3"]
        rows, _ = self.tune(*args, "--batch", "8", *RATES, "--out", self.path("tuned"))
        for row in rows[:2]:
            end = self.trained(*without(BASE, "--epochs", "--batch"), *args, "--batch", "8", "--steps", str(row["steps"]),
                               "--holdout", "51", "--lr", row["values"]["optimizer.lr"])
            self.assertEqual(row["rungs"][1]["params_hash"], end["params_hash"])

    def until(self, folder, count):
        """When the sweep has recorded so many runs."""
        path, end = os.path.join(folder, "tune.jsonl"), time.monotonic() + 60
        while time.monotonic() < end:
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if file.read().count("\n") > count:
                        return
            time.sleep(0.005)
        self.fail("no records")

    def test_continues(self):
        """Interrupted by both ways, with a record cut off: the table of one that was not stopped, byte for byte."""
        args = ["tune", *BASE, *SLOW, *ONE, *RATES, "--vary", "optimizer.momentum=0,0.9", "--out", "tuned"]
        for name in ("whole", "parts"):
            os.mkdir(self.path(name))
        whole = self.ok(*args, cwd=self.path("whole"))
        cwd = self.path("parts")
        for number, count, status in ((signal.SIGINT, 2, 130), (signal.SIGKILL, 5, -9), (signal.SIGTERM, 9, 143)):
            job = subprocess.Popen([TELEGRAD, *args], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            self.until(os.path.join(cwd, "tuned"), count)
            job.send_signal(number)
            stdout, stderr = job.communicate(timeout=60)
            self.assertEqual((job.returncode, stdout), (status, ""))
            if number == signal.SIGKILL:
                with open(os.path.join(cwd, "tuned", "tune.jsonl"), "a", encoding="utf-8") as file:
                    file.write('{"type":"rung","ru')
            else:
                self.assertRegex(stderr, rf"telegrad: interrupted by {number.name}; finished: \d+ of 13 runs; to continue, give the same command again\n$")
        self.assertEqual(self.ok(*args, cwd=cwd), whole)
        again = records(os.path.join(cwd, "tuned", "tune.jsonl"))
        self.assertEqual(len(again), 1 + 13)
        self.assertEqual(again, records(self.path("whole/tuned/tune.jsonl")))
        # Nothing is left to do: the table once more.
        self.assertEqual(self.ok(*args, cwd=cwd), whole)
        self.assertEqual(len(records(os.path.join(cwd, "tuned", "tune.jsonl"))), 1 + 13)

    def test_more_seeds(self):
        """Seeds added to a sweep that has ended: the table of one with all of them from the start, also without its checkpoints."""
        args = ["tune", *BASE, *RATES, "--out", "tuned"]
        for name in ("whole", "parts"):
            os.mkdir(self.path(name))
        whole = self.ok(*args, cwd=self.path("whole"))
        cwd = self.path("parts")
        one = self.ok(*args, *ONE, cwd=cwd)
        folder = os.path.join(cwd, "tuned")
        shutil.rmtree(os.path.join(folder, "checkpoints"))
        before = records(os.path.join(folder, "tune.jsonl"))
        self.assertEqual(self.ok(*args, cwd=cwd), whole)
        after = records(os.path.join(folder, "tune.jsonl"))
        self.assertEqual(after[:len(before)], before)
        self.assertEqual([r["seed"] for r in after if r["type"] == "final"], [1, 2, 3])
        self.assertEqual(self.ok(*args, *ONE, cwd=cwd), one)

    def test_only_the_same_sweep_continues(self):
        folder = self.path("tuned")
        args = [*without(BASE, "--epochs"), *ONE, "--steps", "9", "--vary", "optimizer.lr=0.1,0.2", "--out", folder]
        self.ok("tune", *args)
        before = records(os.path.join(folder, "tune.jsonl"))
        self.refused(2, [f"--out {folder}: it holds a sweep with --batch 16, this one has --batch 8: give the same options"],
                     "tune", *over(*args, "--batch", "8"))
        self.refused(2, ["it holds a sweep without --lr-schedule cosine"], "tune", *args, "--lr-schedule", "cosine")
        self.refused(2, ["with --vary optimizer.lr=0.1,0.2, this one has --vary optimizer.lr=0.1,0.3"], "tune",
                     *[a.replace("0.1,0.2", "0.1,0.3") for a in args])
        self.assertEqual(records(os.path.join(folder, "tune.jsonl")), before)
        with open(self.path("tune.jsonl"), "w", encoding="utf-8") as file:
            file.write("mine\n")
        self.refused(2, ["something other than a sweep of telegrad tune"], "tune", *over(*args, "--out", self.folder))

    def test_diverged(self):
        """Runs that diverge are named and never win; if all do, the command fails."""
        wild = ["--vary", "optimizer.lr=1e10,0.05,1e12", "--optimizer", "sgd:momentum=0.9,weight_decay=1"]
        done = run("tune", *BASE, *ONE, *wild, "--out", self.path("tuned"))
        self.assertEqual(done.returncode, 0, done.stderr)
        table = done.stdout.splitlines()[1:]
        self.assertRegex(table[2], r"^1 +0\.05 .* winner$")
        self.assertRegex(table[3], r"^2 +1e10 +diverged +- +9 +diverged$")
        self.assertRegex(table[4], r"^3 +1e12 +diverged +- +9 +diverged$")
        self.assertRegex(done.stderr, r"^telegrad: warning: 1/6 optimizer.lr=1e10: diverged: .*\ntelegrad: warning: 3/6 optimizer.lr=1e12: diverged: .*\n$")
        done = run("tune", *BASE, *ONE, "--vary", "optimizer.lr=1e10,1e12", *wild[2:], "--out", self.path("none"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("telegrad: all 2 runs diverged: lower rates would help; their records are in ", done.stderr)

    def test_ties(self):
        """Equal runs share a rank, and the one given first wins."""
        done = run("tune", *BASE, *ONE, "--vary", "optimizer.momentum=0.0,0,0.90", "--optimizer", "sgd:lr=1e-30", "--out", self.path("tuned"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("training changed no parameter", done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[3], r"^1 +0\.0 .*winner$")
        self.assertRegex(lines[4], r"^1 +0 .*stopped$")
        self.assertIn("! optimizer.momentum=0 did as well as the winner, and was given later", lines)

    def test_table(self):
        text = self.ok("tune", *without(BASE, "--batch"), *RATES, "--vary", "batch=8,16", "--out", self.path("tuned"))
        caption, heads, rule, *rest = text.splitlines()
        self.assertEqual(caption, "mlp:hidden=16,hidden2=0 on glyphs (generated), 461 to train, 51 held out; 1 worker")
        self.assertEqual(heads.split(), ["rank", "optimizer.lr", "batch", "at", "1/9", "at", "1/3", "steps", "state"])
        self.assertEqual(set(rule), {"-"})
        table = rest[:8]
        self.assertEqual(len({len(line) for line in table}), 1, "columns are aligned")
        self.assertEqual(sum(line.endswith(" stopped") for line in table), 7)
        self.assertTrue(any(line.startswith("winner         optimizer.lr=") for line in rest))
        self.assertTrue(any(re.match(r"test           accuracy [\d.]+ % \([\d.]+ to [\d.]+; seeds 1 to 3\), loss ", line) for line in rest))
        self.assertRegex(rest[-1], r"^telegrad train --data \S+ --model \S+ --epochs 3 --optimizer sgd:lr=[\d.]+ --batch \d+ --seed 1$")

    def test_specs_that_vary(self):
        """Whole specs, keys of what the strategy chooses, and keys on top of specs."""
        rows, winner = self.tune("--workers", "2", "--vary", "method=dense,[topk:density=0.05,values=fp16],2bit", "--vary", "optimizer.momentum=0,0.9",
                                 "--vary", "lr-schedule.final=0.1", "--lr-schedule", "cosine", "--out", self.path("tuned"))
        self.assertEqual(len(rows), 6)
        self.assertIn({"method": "topk:density=0.05,values=fp16", "optimizer.momentum": "0", "lr-schedule.final": "0.1"}, [row["values"] for row in rows])
        words = shlex.split(winner["command"])
        self.assertEqual(argument(words, "--lr-schedule"), "cosine:final=0.1")
        self.assertEqual(argument(words, "--optimizer"), "sgd:momentum=" + winner["winner"]["optimizer.momentum"])
        self.assertEqual(argument(words, "--method"), winner["winner"]["method"])

    def test_texts(self):
        """The end of the training text is held out, and the loss decides."""
        with open(self.path("poem"), "w", encoding="utf-8") as file:
            file.write("to be or not to be that is the question\n" * 50)
        args = ["--model", "lstm:hidden=8,embed=8", "--data", "text:" + self.path("poem"), "--batch", "4", "--context", "16", "--epochs", "1",
                "--seeds", "1", "--vary", "optimizer.lr=0.01,1", "--out", self.path("tuned")]
        caption, _, _, first, second, *rest = self.ok("tune", *args).splitlines()
        self.assertIn("1,620 to train, 180 held out", caption)
        self.assertRegex(first, r"^1 +[\d.]+ +[\d.]{6} +[\d.]{6} +\d+ +winner$")
        self.assertRegex(second, r"^2 +[\d.]+ +[\d.]{6} +- +\d +stopped$")
        self.assertTrue(any(re.match(r"test           loss [\d.]+ \(seed 1\), [\d.]+ bits a character$", line) for line in rest))

    def test_servers(self):
        """They change nothing: the search and the winner have the same bits."""
        def found(name, *servers):
            rows, winner = self.tune(*RATES, "--workers", "2", "--strategy", "ssgd", *servers, "--out", self.path(name))
            return [(row["values"], row["state"], row["rungs"]) for row in rows], winner["winner"]
        without_any = found("none")
        self.assertEqual(found("sums", "--servers", "2"), without_any)
        self.assertEqual(found("keep", "--servers", "1", "--strategy", "server"), without_any)

    def test_short_runs_mislead(self):
        """What was judged after a few steps, and a winner that full length has made worse, are told."""
        rate = ["--vary", "optimizer.lr=0.01,0.1"]
        few = lambda *args: [line for line in self.ok("tune", *over(*BASE, *ONE, *rate, *args)).splitlines() if "1/9 is" in line]  # noqa: E731
        self.assertEqual(few("--out", self.path("few")), ["! the column at 1/9 is after 9 steps, which may mislead: runs of at least 180 "
                                                          "steps are judged after 20"])
        self.assertEqual(few("--epochs", "7", "--out", self.path("many")), [])
        self.assertIn("after 1 step,", self.ok("tune", *without(BASE, "--epochs"), *ONE, *rate, "--steps", "9", "--out", self.path("one")))
        with open(self.path("poem"), "w", encoding="utf-8") as file:  # whose test set, the last tenth, is like nothing before
            file.write("to be or not to be that is the question\n" * 45 + "ZQX" * 66)
        done = run("tune", "--model", "lstm:hidden=8,embed=8", "--data", "text:" + self.path("poem"), "--batch", "4", "--context", "16",
                   "--epochs", "8", *ONE, "--vary", "optimizer.lr=0.01,0.1", "--out", self.path("texts"))
        self.assertRegex(done.stdout, r"(?m)^! the winner is worse at full length, a loss of [\d.]+, than at 1/3, [\d.]+: the short runs misled")

    def test_refusals(self):
        """Before anything is trained or written: the value, and what is allowed."""
        vary = ["--vary", "optimizer.lr=0.1,0.2"]
        many = ",".join(str(i) for i in range(1, 41))
        for args, words in (
                ([], ["nothing to tune: give --vary KEY=VALUE"]),
                (["--vary", "0.1"], ['--vary "0.1": allowed: KEY=VALUE,VALUE']),
                (["--vary", "optimizer.lr="], ["--vary optimizer.lr: an empty value"]),
                (["--vary", "optimizer.lr=0.1,,0.2"], ["--vary optimizer.lr: an empty value"]),
                (["--vary", "optimizer.lr=0.1,0.1"], ["--vary optimizer.lr: the value 0.1 is given twice"]),
                (["--vary", "optimizer.lr=0.1"], ["one combination", "allowed: two values or more"]),
                (["--vary", "method=[topk,dense"], ["--vary method: brackets that do not match"]),
                ([*vary, *vary], ["--vary optimizer.lr is given twice"]),
                (["--vary", "optimizr.lr=0.1,0.2"], ['"optimizr" cannot vary: did you mean "optimizer"? allowed: model, ']),
                (["--vary", "workers=1,2"], ['"workers" cannot vary: allowed: model, context, batch, method, strategy, optimizer, lr, ']),
                (["--vary", "batch.n=1,2"], ["--vary batch.n: batch has no keys"]),
                (["--vary", "optimizer.rate=1,2"], ["optimizer.rate=1: --optimizer sgd:rate=1", 'unknown key "rate"', "allowed: lr, "]),
                (["--vary", "optimizer.momentum=0,1.5"], ["optimizer.momentum=1.5: ", "momentum=1.5", "allowed: 0 <= momentum"]),
                (["--vary", "batch=16,0"], ["batch=0: --batch 0: allowed: whole numbers from 1"]),
                (["--vary", "batch=16,5000"], ["batch=5000: --batch 5000: allowed: 1 to 461 (461 training samples"]),
                (["--vary", "method.densty=0.1,0.2", "--method", "topk"], ['unknown key "densty"', 'did you mean "density"?']),
                (["--vary", "strategy.k=2,3", "--strategy", "cd:k=5"], ["--vary strategy.k: --strategy sets it, too"]),
                (["--vary", "method=dense,topk", "--method", "dgc"], ["--vary method: --method sets it, too"]),
                ([*vary, "--lr", "0.1"], ["--vary optimizer.lr and --lr: both set the rate"]),
                ([*vary, "--vary", "lr=0.1,0.2"], ["--vary optimizer.lr and --vary lr: both set the rate"]),
                (["--vary", "lr=0.1,0.2", "--optimizer", "sgd:lr=0.1"], ["--vary lr and --optimizer sgd:lr=0.1: both set the rate"]),
                (["--vary", f"accumulate={many}", "--vary", f"optimizer.lr={many}"], ["more than 256 combinations", "allowed: 2 to 256"]),
                ([*vary, "--holdout", "0"], ["--holdout 0: runs are judged on training samples that are held out"]),
                ([*vary, "--holdout", "512"], ["--holdout 512: allowed: 0 to 511"]),
                ([*vary, "--data", "glyphs:train=9,test=9", "--batch", "1"], ["a tenth of its 9 training samples is less than one", "give --holdout N"]),
                ([*vary, "--steps", "8"], ["8 steps: allowed: 9 and more"]),
                ([*vary, "--seeds", "0"], ['--seeds "0": allowed: 1 to 100']),
                ([*vary, "--method", "dgc", "--optimizer", "adam"], ['method "dgc" accumulates']),
                ([*vary, "--workers", "2", "--servers", "1", "--strategy", "server", "--server-mode", "async"],
                 ["--server-mode async: workers make different numbers of steps", "allowed: sum, sync"]),
                ([*vary, "--workers", "2", "--servers", "1", "--strategy", "server", "--server-deadline", "1s"], ["'--server-deadline': train has it, and tune does not"]),
                ([*vary, "--save", "x"], ["unrecognized option '--save': train has it, and tune does not"]),
                ([*vary, "--no-eval"], ["unrecognized option '--no-eval'"])):
            with self.subTest(args=args):
                plain = without(BASE, *(["--epochs"] if "--steps" in args else ["--batch"] if "batch=" in str(args) else []))
                self.refused(2, words, "tune", *over(*plain, *args), "--out", self.path("tuned"))
                self.assertEqual(os.listdir(self.folder), [])
        self.refused(2, ["no --out DIR"], "tune", *BASE, *vary)
        self.refused(2, ["tune runs in one process: start it without mpirun"], "tune", *BASE, *vary, "--out", self.path("tuned"),
                     OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
        self.refused(1, ["cannot make folder"], "tune", *BASE, *vary, "--out", self.path("none/tuned"))


if __name__ == "__main__":
    unittest.main()
