"""What the scripts of bench/ that train rows of a table share: rows.sh goes on where it was stopped; its runs as tables."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, TINY, records

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
JOB = ["--model", "mlp:hidden=32", *TINY, "--workers", "2", "--steps", "3000", "--log-every", "1000"]
ENV = {**ENVIRONMENT, "TELEGRAD": TELEGRAD}


class Rows(CliTest):
    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        self.script = self.path("rows")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(f". '{BENCH}/rows.sh'\n"
                       f"run dgc {' '.join(JOB)} --method dgc:density=0.01,warmup=6\n"
                       f"run wrong {' '.join(JOB)} --method nothing\n"
                       f"run dense {' '.join(JOB)}\n")

    def rows(self, *names):
        return subprocess.Popen(["sh", self.script, self.out, *names], env=ENV, stderr=subprocess.PIPE, text=True)

    def table(self, script, *args):
        done = subprocess.run([sys.executable, os.path.join(BENCH, script), *args], env=ENV, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def interrupt(self, process, checkpoint):
        """Stop the run, not the script, when it has saved this."""
        end = time.time() + 60
        while time.time() < end and not os.path.isdir(os.path.join(self.out, "dgc-1", checkpoint)):
            time.sleep(0.005)
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGTERM)
        return process.communicate()[1]

    def test_rows(self):
        process = self.rows()
        self.assertIn("dgc, seed 1: stopped", self.interrupt(process, "step-000000000500"))
        self.assertEqual(process.returncode, 143)
        self.assertEqual(sorted(os.listdir(self.out)), ["dgc-1", "dgc-1.jsonl.000"])

        process = self.rows()
        self.assertIn("wrong, seed 1: stopped", process.communicate()[1])
        self.assertEqual(process.returncode, 0)
        self.assertEqual(sorted(os.listdir(self.out)), ["dense-1.jsonl", "dgc-1.jsonl"])
        runs = [os.path.join(self.out, name) for name in ("dgc-1.jsonl", "dense-1.jsonl")]
        joined = records(runs[0])
        self.assertEqual([r["type"] for r in joined].count("start"), 2)
        whole = self.path("whole.jsonl")
        self.ok("train", *JOB, "--method", "dgc:density=0.01,warmup=6", "--seed", "1", "--out", whole)
        self.assertEqual(joined[-1]["params_hash"], records(whole)[-1]["params_hash"])

        before = [os.stat(run).st_mtime_ns for run in runs]
        self.rows("dgc", "dense").communicate()
        self.assertEqual([os.stat(run).st_mtime_ns for run in runs], before)

        # an unfinished run has no end record
        part = os.path.join(self.out, "dense-2.jsonl")
        with open(runs[1], encoding="utf-8") as source, open(part, "w", encoding="utf-8") as file:
            file.writelines(source.readlines()[:-1])
        done = self.table("summarise.py", *runs, part)
        self.assertIn("dense: 1 of 2 runs are not complete", done.stderr)
        accuracy = 100 * joined[-1]["test_accuracy"]
        self.assertIn("| dgc: dgc:density=0.01,", done.stdout)
        self.assertIn(f"| **{accuracy:.2f}** | {accuracy:.2f} |", done.stdout)
        self.assertIn("| 3,000 |", done.stdout)
        # of the second half of the steps, in which a round is like another
        self.assertIn(f"| {records(whole)[-1]['bytes_per_step']:,.0f} |", done.stdout)

        lines = self.table("over_links.py", "--write", self.path("linked"), "slow=20mbit,50ms", "near=10gbit,1us", "--", *reversed(runs)).stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("slow: 20mbit,50ms | near: 10gbit,1us", lines[0])
        # 3,000 steps, not the epoch's 16; a dense one takes at least two delays
        self.assertIn(" min = 1.00x", lines[2])
        dense, dgc = ([cell.split(" = ") for cell in line.split(" | ")[2:]] for line in lines[2:])
        self.assertEqual([cell[1].rstrip(" |") for cell in dense], ["1.00x", "1.00x"])
        self.assertGreater(float(dgc[0][1].rstrip("x |")), 1, "less over a slow link takes less time")
        epoch = self.table("over_links.py", "--epoch", "slow=20mbit,50ms", "--", *runs).stdout.splitlines()
        seconds = epoch[-1].split(" | ")[2].split(" = ")[0]
        minutes = float(dense[0][0].removesuffix(" min"))
        self.assertAlmostEqual(float(seconds.removesuffix(" s")) * 3000 / 16 / 60 / minutes, 1, delta=0.1)
        told = [self.table("over_links.py", "--tau", "7ms", "slow=20mbit,50ms", "--", *runs).stdout for _ in range(2)]
        self.assertEqual(told[0], told[1])
        self.assertEqual(told[0].splitlines()[0], "| run | slow: 20mbit,50ms |")
        one = os.path.join(self.out, "one-1.jsonl")
        start, *rest = records(runs[1])
        with open(one, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in ({**start, "steps": 16}, *rest))
        all_of_it, last_epoch = (self.table("over_links.py", *epoch, "--tau", "7ms", "slow=20mbit,50ms", "--", one).stdout for epoch in ([], ["--epoch"]))
        self.assertEqual(all_of_it, last_epoch)

        # the same run with the link's seconds, in one part
        slow = records(os.path.join(self.path("linked"), "slow", "dgc-1.jsonl"))
        epochs = [record for record in slow if record["type"] == "epoch"]
        self.assertEqual([record["type"] for record in slow], ["start", *["epoch"] * len(epochs), "end"])
        straight = [record for record in records(whole) if record["type"] == "epoch"]
        self.assertEqual([e["step"] for e in epochs], [e["step"] for e in straight])
        self.assertEqual(epochs[-1]["seconds"], slow[-1]["seconds"])
        self.assertAlmostEqual(slow[-1]["seconds"], 60 * float(dgc[0][0].split(" min")[0]), delta=4)
        self.assertAlmostEqual(epochs[0]["seconds"] / slow[-1]["seconds"], epochs[0]["step"] / 3000)
        self.assertTrue(all(a["bytes_sent"] < b["bytes_sent"] for a, b in zip(epochs, epochs[1:])))
        self.assertAlmostEqual(epochs[-1]["bytes_sent"] / straight[-1]["bytes_sent"], 1, delta=0.05)
        self.assertEqual(epochs[-1]["test_loss"], straight[-1]["test_loss"])
        self.ok("report", os.path.join(self.path("linked"), "slow", "dgc-1.jsonl"), "-o", self.path("report.html"))


if __name__ == "__main__":
    unittest.main()
