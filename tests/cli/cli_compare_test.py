"""compare: one table, the same as JSON, and the records of all runs."""
import json
import os
import unittest
from cli_tool import CliTest, TINY, records

RUNS = ["--run", "name=all;strategy=ssgd", "--run", "name=few;method=topk:density=0.01",
        "--run", "method=2bit:threshold=0.01;strategy=cd:k=2,warmup=2"]
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

    def test_json_and_records(self):
        out = self.path("all.jsonl")
        text = self.ok("compare", *BASE, *RUNS, "--json", "--out", out)
        rows = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([row["run"] for row in rows][:2], ["all", "few"])
        self.assertEqual((rows[0]["speed_up"], rows[0]["extrapolated"]), (1.0, False))
        self.assertAlmostEqual(rows[0]["ratio"], 1, places=2)
        self.assertGreater(rows[1]["ratio"], 50)
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

    def test_failing_run_is_named(self):
        self.refused(1, ['run "bad"', "rank"], "compare", *BASE, "--timeout", "3", "--run", "name=fine",
                     "--run", "name=bad;link=30s", "--out", self.path("all.jsonl"))
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
