"""compare: one table, the same as JSON, and the records of all runs."""
import json
import os
import re
import signal
import subprocess
import time
import unittest
import mpi_tool
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, records, run, start

RUNS = ["--run", "name=all;strategy=ssgd", "--run", "name=few;method=topk:density=0.01",
        "--run", "method=2bit:threshold=0.01;strategy=cd:k=2,warmup=2"]
DIVERGES = "sgd:lr=1e10,momentum=0.9,weight_decay=1"  # the loss is lost for good
BASE = [*TINY, "--workers", "2", "--steps", "6"]


class Compare(CliTest):
    def test_table(self):
        caption, *lines = self.ok("compare", *BASE, *RUNS).splitlines()
        for word in ("lenet5", "glyphs (generated)", "2 workers", "batch 16"):
            self.assertIn(word, caption)
        for title in ("run", "test acc.", "sent/step", "ratio", "ms/step", "time to finish", "speed-up"):
            self.assertIn(title, lines[0])
        self.assertEqual(set(lines[1]), {"-"})
        self.assertEqual(len(lines), 5)
        self.assertEqual(len({len(line) for line in lines}), 1, "columns are aligned")
        self.assertTrue(lines[2].startswith("all ") and lines[2].endswith(" 1.00x"))
        self.assertTrue(lines[3].startswith("few "))
        self.assertTrue(lines[4].startswith("2bit:threshold=0.01 cd:k=2,warmup=2 "))

    def test_columns(self):
        run = ["--run", "name=a name that is far longer than all the other columns;method=fp16", *RUNS]
        for columns in (80, 40):
            text = self.ok("compare", *BASE, *run, COLUMNS=str(columns))
            table = text[text.index("\n") + 1:]
            self.assertLessEqual(max(map(len, table.splitlines())), max(columns, 57), table)
            self.assertIn("..." if columns == 80 else "time to finish", table)

    def test_rates(self):
        """The optimizer stands in the caption, or where runs have several, each with its runs."""
        caption = self.ok("compare", *BASE, *RUNS).splitlines()[0]
        self.assertTrue(caption.endswith(", sgd:lr=0.05,momentum=0.9"), caption)
        args = [*BASE, "--no-eval", "--run", "method=signsgd", "--run", "method=dense", "--run", "name=own;method=signsgd;lr=0.003",
                "--run", "name=other;method=topk"]
        done = run("compare", *args)
        self.assertEqual([line.split(": method")[0] for line in done.stderr.splitlines()],
                         ["telegrad: 1/4 signsgd", "telegrad: 3/4 own"])
        self.assertEqual(done.stdout.splitlines()[-3:], ["optimizer sgd:lr=0.001,momentum=0: signsgd",
                                                  "optimizer sgd:lr=0.05,momentum=0.9: dense, other",
                                                  "optimizer sgd:lr=0.003,momentum=0: own"])
        rows = [json.loads(line)["optimizer"] for line in run("compare", *args, "--json").stdout.splitlines()]
        self.assertEqual([row.split(",weight_decay")[0] for row in rows],
                         ["sgd:lr=" + rest for rest in ("0.001,momentum=0", "0.05,momentum=0.9", "0.003,momentum=0", "0.05,momentum=0.9")])

    def test_servers(self):
        """Servers change no bits: those that sum gradients, and those that keep the parameters."""
        runs = ["--run", "name=a;method=dense;strategy=ssgd", "--run", "name=b;method=topk"]
        hashes = []
        for i, more in enumerate(([], ["--servers", "2", "--run", "name=c;strategy=server"])):
            out = self.path(f"{i}.jsonl")
            self.ok("compare", *BASE, *runs, *more, "--out", out)
            hashes.append([r["params_hash"] for r in records(out) if r["type"] == "end"])
        self.assertEqual(hashes[1], [*hashes[0], hashes[0][0]])

    def test_json_and_records(self):
        out = self.path("all.jsonl")
        text = self.ok("compare", *BASE, *RUNS, "--json", "--out", out)
        rows = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([row["run"] for row in rows][:2], ["all", "few"])
        self.assertEqual((rows[0]["speed_up"], rows[0]["extrapolated"]), (1.0, False))
        self.assertAlmostEqual(rows[0]["ratio"], 1, places=2)
        self.assertGreater(rows[1]["ratio"], 50)
        for row in rows:
            self.assertAlmostEqual(row["step_ms"], 1000 * row["time_to_finish"] / row["steps"])
        lines = records(out)
        self.assertEqual(lines[-1], {"type": "table", "rows": rows})
        for row in rows:
            of_run = [line["type"] for line in lines if line.get("run") == row["run"]]
            self.assertEqual((of_run[0], of_run[-1]), ("start", "end"))
        self.assertEqual(os.listdir(self.folder), ["all.jsonl"])

    def test_same_samples(self):
        """A run of compare is the run that train does."""
        out, alone = self.path("all.jsonl"), self.path("alone.jsonl")
        self.ok("compare", *BASE, *RUNS, "--out", out)
        self.ok("train", *BASE, "--method", "topk:density=0.01", "--out", alone)
        few = [line for line in records(out) if line.get("run") == "few" and line["type"] == "end"]
        self.assertEqual(few[0]["params_hash"], records(alone)[-1]["params_hash"])

    def test_minibatches(self):
        """Optimizer, minibatch and the rate that goes with it are a run's own."""
        out = self.path("all.jsonl")
        self.ok("compare", *BASE, "--model", "mlp:hidden=32", "--accumulate", "4", "--out", out, "--run", "name=a", "--run",
                "name=b;optimizer=adam:lr=0.0025;lr-schedule=onecycle:div_factor=1;lr-scale=linear;accumulate=2")
        start = {line["run"]: line for line in records(out) if line["type"] == "start"}
        step = {line["run"]: line for line in records(out) if line["type"] == "step"}
        self.assertEqual((start["a"]["accumulate"], start["a"]["lr_scale"]), (4, "none"))
        self.assertEqual((start["b"]["accumulate"], start["b"]["lr_scale"]), (2, "linear"))
        self.assertEqual((start["a"]["steps_per_epoch"], start["b"]["steps_per_epoch"]), (4, 8))
        self.assertAlmostEqual(step["b"]["lr"], 0.0025 * 4 / 1e4, places=12)

    def test_dense_timed(self):
        """Dense S-SGD trains without the link; some steps over it say how long it would have taken."""
        args = [*BASE, *RUNS, "--link", "1gbit,20ms", "--dense-timed", "3"]
        out = self.path("all.jsonl")
        rows = [json.loads(line) for line in self.ok("compare", *args, "--json", "--out", out).splitlines()]
        self.assertEqual([row["extrapolated"] for row in rows], [True, False, False])
        self.assertEqual(rows[0]["timed_steps"], 3)
        self.assertGreater(rows[0]["step_ms"], 2 * 20)  # two one-way delays
        self.assertAlmostEqual(rows[0]["time_to_finish"], rows[0]["step_ms"] * 6 / 1000, places=6)
        starts = {line["run"]: line for line in records(out) if line["type"] == "start"}
        self.assertEqual((starts["all"]["link"], starts["all"]["steps"]), (None, 6))
        self.assertEqual((starts["all (timed)"]["link"], starts["all (timed)"]["steps"]), ("1gbit,20ms", 3))
        self.assertEqual(starts["few"]["link"], "1gbit,20ms")
        text = self.ok("compare", *args)
        self.assertIn("* extrapolated from 3 steps", text.splitlines()[-1])
        self.assertEqual(text.splitlines()[3].count("*"), 2)

    def test_spec_file(self):
        path, out = self.path("runs.txt"), self.path("all.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# what to compare\n--data glyphs:train=512,test=128\n--batch=16\n\n--steps 9  # overruled\n"
                       "--no-eval\nDense : strategy=ssgd\nTop-k 1 %: method=topk:density=0.01; steps=3\n")
        self.ok("compare", "--spec", path, "--steps", "4", "--workers", "2", "--out", out)
        starts = [line for line in records(out) if line["type"] == "start"]
        self.assertEqual([(s["run"], s["steps"], s["batch"], s["evaluate"]) for s in starts],
                         [("Dense", 4, 16, False), ("Top-k 1 %", 3, 16, False)])

    def test_failing_run_keeps_the_others(self):
        """A run that is cut off and one that diverges: each a row and a line on stderr, the records stay."""
        out = self.path("all.jsonl")
        args = [*BASE, "--timeout", "2", "--run", "name=cut;link=1kbit", "--run", "name=fine", "--run",
                "name=wild;steps=300;optimizer=" + DIVERGES, "--run", "name=few;method=topk:density=0.01"]
        done = run("compare", *args, "--out", out)
        self.assertEqual(done.returncode, 1)
        said = done.stderr.splitlines()
        self.assertEqual([re.match(r'telegrad: run "(\w+)": ', line)[1] for line in said], ["cut", "wild"])
        cut, fine, wild, few = done.stdout.splitlines()[3:7]
        self.assertRegex(cut, r"^cut   failed: rank \d .{,56}$")
        self.assertRegex(wild, r"^wild  failed: step \d.{51,53}\.\.\.$")
        self.assertIn("not finite", said[1])
        # The dense run that finished is what the others are compared with.
        self.assertTrue(fine.endswith(" 1.00x") and few.startswith("few "), done.stdout)
        rows = records(out)[-1]["rows"]
        self.assertEqual([(row["run"], row["failed"] is None) for row in rows],
                         [("cut", False), ("fine", True), ("wild", False), ("few", True)])
        self.assertEqual((rows[0]["speed_up"], rows[0]["time_to_finish"], rows[0]["test_accuracy"]), (None,) * 3)
        self.assertIn(rows[0]["failed"], said[0])
        ended = [line["run"] for line in records(out) if line["type"] == "end"]
        self.assertEqual(ended, ["fine", "few"])
        self.assertEqual(os.listdir(self.folder), ["all.jsonl"])

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_failing_run_under_mpi(self):
        """Ranks cannot meet again after a failure, but what is finished stays."""
        out = self.path("all.jsonl")
        done = mpi_tool.mpirun((2, ["compare", *BASE[:4], "--steps", "100", "--no-eval", "--run", "name=fine", "--run",
                                    "name=wild;optimizer=" + DIVERGES, "--run", "name=later", "--out", out]))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('telegrad: run "wild": step', done.stderr)
        self.assertEqual([row["run"] for row in records(out)[-1]["rows"]], ["fine", "wild"])
        self.assertIn("wild  failed: step", done.stdout)

    def test_wrong_settings_are_found_before_training(self):
        out = self.path("all.jsonl")
        self.refused(2, ["--run 2", "magic"], "compare", *BASE, "--run", "name=fine", "--run", "method=magic",
                     "--out", out)
        self.refused(2, ['run "fine"', "--batch 100000"], "compare", *TINY[:2], "--batch", "100000", "--run",
                     "name=fine", "--run", "name=other;steps=2", "--out", out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_fewer_samples_than_ranks(self):
        self.refused(2, ['run "a": 3 training samples over 4 ranks: too few for one step'], "compare", "--data", "glyphs:train=3,test=3",
                     "--workers", "4", "--run", "name=a")

    def test_wrong_combinations_are_found_before_training(self):
        """Although each value is right by itself."""
        out = self.path("c.jsonl")
        for wrong, words in (("strategy=diloco:every=4;method=dgc", "would accumulate the momentum of gradients"),
                             ("rule=fc9*=f32", 'the rule for "fc9*" matches no tensor'),
                             ("method=topk:exchange=reducescatter,feedback=none", "use feedback=residual"),
                             ("accumulate=1000", "over 2 ranks, 1000 batches in each step: too few for one step"),
                             ("accumulate=1000", "512 training samples over 2 ranks")):
            self.refused(2, ['run "b": ', words], "compare", *BASE, "--out", out, "--run", "name=a;steps=1000000", "--run", f"name=b;{wrong}")
            self.assertFalse(os.path.exists(out))

    def test_full_disk_ends_all(self):
        self.refused(1, ["/dev/full", "No space left"], "compare", *BASE, *RUNS, "--out", "/dev/full")

    def test_reference_exchanges(self):
        """A dense method that exchanges nothing is not what others are compared with."""
        args = [*BASE, "--json", "--run", "name=alone;method=dense:exchange=none"]
        done = run("compare", *args)
        self.assertEqual((done.returncode, done.stderr.count("nothing is exchanged")), (0, 1))
        self.assertIsNone(json.loads(done.stdout)["speed_up"])
        rows = [json.loads(line) for line in run("compare", *args, "--run", "name=all").stdout.splitlines()]
        self.assertEqual(rows[1]["speed_up"], 1)
        self.assertNotEqual(rows[0]["speed_up"], 1)

    def test_speed_up_is_per_step(self):
        args = [*BASE, "--json", "--run", "name=all;steps=3", "--run", "name=more;steps=12;method=2bit:threshold=0.01"]
        rows = [json.loads(line) for line in self.ok("compare", *args).splitlines()]
        self.assertEqual([row["steps"] for row in rows], [3, 12])
        step = [row["time_to_finish"] / row["steps"] for row in rows]
        self.assertAlmostEqual(rows[1]["speed_up"], step[0] / step[1], places=6)
        args.remove("--json")
        words = "the runs have 3 to 12 steps: the speed-up is that of a step, not of the time to finish\n"
        self.assertIn(words, self.ok("compare", *args))
        self.assertNotIn("speed-up is", self.ok("compare", *args[:-1], "name=more;steps=3;method=2bit:threshold=0.01"))

    def test_bytes_per_step_are_those_of_the_end(self):
        out = self.path("all.jsonl")
        self.ok("compare", *BASE, *RUNS, "--out", out)
        lines = records(out)
        ends = {line["run"]: line["bytes_per_step"] for line in lines if line["type"] == "end"}
        self.assertEqual({row["run"]: row["bytes_per_step"] for row in lines[-1]["rows"]}, ends)

    def test_nobody_reads_the_table(self):
        """The records are whole before anything is printed."""
        for more in ([], ["--json"]):
            out = self.path("all.jsonl")
            reading, writing = os.pipe()
            os.close(reading)
            process = subprocess.Popen([TELEGRAD, "compare", *BASE, *RUNS, "--out", out, *more], stdout=writing,
                                       stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            os.close(writing)
            self.assertNotEqual(process.wait(timeout=60), 0)
            self.assertEqual(records(out)[-1]["type"], "table")
            self.assertEqual(os.listdir(self.folder), ["all.jsonl"])
            os.remove(out)

    def test_records_on_standard_output(self):
        """Nothing else is there then: the table is the last of them."""
        lines = [json.loads(line) for line in self.ok("compare", *BASE, *RUNS, "--out", "-", cwd=self.folder).splitlines()]
        self.assertEqual((lines[0]["type"], lines[-1]["type"]), ("start", "table"))
        self.assertEqual(os.listdir(self.folder), [])
        self.refused(2, ["--json and --out -", "cannot be combined"], "compare", *BASE, *RUNS, "--out", "-", "--json")

    def test_no_more_timed_steps_than_there_are(self):
        more = ["--link", "1gbit", "--steps", "3", "--no-eval"]
        self.refused(2, ["--dense-timed 4", 'run "a" has 3 steps', "allowed: "], "compare", *TINY, *more, "--dense-timed", "4", "--run", "name=a")
        self.ok("compare", *TINY, *more, "--dense-timed", "3", "--run", "name=a")
        self.refused(2, ["--dense-timed 3: no run over a link has method dense and strategy ssgd"], "compare", *TINY, *more, "--dense-timed", "3",
                     "--run", "name=a;method=topk")

    def test_interrupt_says_so(self):
        process = start("compare", *TINY, "--steps", "3", "--run", "name=a", "--run", "name=b;steps=1000000", "--out", self.path("r"))
        end = time.monotonic() + 60
        while not os.path.exists(self.path("r")) or '"run":"b"' not in open(self.path("r"), encoding="utf-8").read():
            self.assertTrue(process.poll() is None and time.monotonic() < end)
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=60)[1], "telegrad: interrupted by SIGINT; finished: 1 of 2 runs\n")
        self.assertEqual(process.returncode, 130)

    def test_names_tell_orders_of_momentum_apart(self):
        """ssgd is named where it was chosen in place of the default, which is not named."""
        out = self.path("all.jsonl")
        job = [*TINY, "--model", "mlp:hidden=16", "--workers", "2", "--steps", "2", "--no-eval"]
        for rate in [], ["--optimizer", "sgd:lr=0.02"]:
            self.ok("compare", *job, *rate, "--run", "method=topk", "--run", "method=topk;strategy=ssgd", "--run", "strategy=ssgd", "--out", out)
            self.assertEqual([line["run"] for line in records(out) if line["type"] == "start"], ["topk", "topk ssgd", "dense"])
        self.ok("compare", *job, "--run", "method=2bit", "--run", "strategy=cd:k=3", "--out", out)
        self.assertEqual([line["run"] for line in records(out) if line["type"] == "start"], ["2bit", "2bit cd:k=3"])

    def test_names_are_utf8(self):
        out, long = self.path("all.jsonl"), "\u00e9" * 200
        self.ok("compare", *BASE, "--run", f"name={long};link=1gbit", "--dense-timed", "2", "--out", out)
        self.assertEqual([line["run"] for line in records(out) if line["type"] == "start"], [long, long + " (timed)"])
        os.remove(out)
        with open(self.path("runs"), "wb") as file:
            file.write(b"fine: steps=2\nb\xe9d: steps=2\n")
        self.refused(2, [":2:", 'name "b\\xe9d"', "allowed: UTF-8"], "compare", "--spec", self.path("runs"))
        self.refused(2, ["--run 1", 'name "\\xff"', "allowed: UTF-8"], "compare", "--run", "name=\udcff", "--out", out)
        self.assertEqual(os.listdir(self.folder), ["runs"])


if __name__ == "__main__":
    unittest.main()
