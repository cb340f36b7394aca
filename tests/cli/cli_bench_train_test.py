"""bench train: rows as a table and as JSON, workers, PyTorch's side played by a script and for real, errors."""
import json
import os
import re
import stat
import subprocess
import sys
import unittest
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, over, run

SMALL = ["--models", "mlp:hidden=16,hidden2=0,lenet5", "--batch", "4", "--seconds", "0.005"]
MLP = ["--models", "mlp:hidden=16", "--batch", "4", "--seconds", "0.005"]
REFUSED = [
    (["--models", "resnet2000"], ['"resnet2000"', "lenet5", "mlp"]),
    (["--models", "mlp,,lenet5"], ['--models "mlp,,lenet5"', "allowed: specs"]),
    (["--models", "mlp,"], ['--models "mlp,"', "allowed: specs"]),
    (["--models", ""], ['--models ""', "allowed: specs"]),
    (["--models", "mlp:width=3"], ["width", "hidden"]),
    (["--batch", "0"], ['--batch "0"', "allowed: whole numbers from 1 to 65536"]),
    (["--batch", "32,x"], ['--batch "32,x"', "allowed: "]),
    (["--seconds", "-1"], ['--seconds "-1"', "allowed: 0.001 to 3600"]),
    (["--workers", "1,65"], ['--workers "1,65"', "allowed: whole numbers from 1 to 64"]),
    (["--compare", "jax"], ['--compare "jax"', "allowed: torch"]),
    (["--python", "python3"], ["--python requires --compare"]),
    (["--compare", "torch", "--workers", "2"], ["--workers and --compare"]),
]


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


class BenchTrain(CliTest):
    def rows(self, *args, status=0):
        done = run("bench", "train", "--json", *over(*args), timeout=280)
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def python(self, script):
        """An interpreter that is a shell script."""
        path = self.path("python")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, stat.S_IRWXU)
        return path

    def check_times(self, ms):
        self.assertTrue(0 < ms["min"] <= ms["median"] <= ms["max"], ms)

    def test_usage(self):
        for args, words in REFUSED:
            with self.subTest(args=args):
                self.refused(2, words, "bench", "train", *args)

    def test_table(self):
        lines = self.ok("bench", "train", *SMALL).splitlines()
        self.assertEqual(lines[1].split()[:3], ["model", "batch", "ms"])
        self.assertEqual([line.split()[:2] for line in lines[3:]], [["mlp:hidden=16,hidden2=0", "4"], ["lenet5", "4"]])

    def test_rows(self):
        rows = self.rows(*SMALL, "--batch", "4,8")
        self.assertEqual([(r["model"], r["batch"]) for r in rows],
                         [(m, b) for m in ("mlp:hidden=16,hidden2=0", "lenet5") for b in (4, 8)])
        self.assertEqual([r["params"] for r in rows], [12730, 12730, 431080, 431080])
        for row in rows:
            self.assertEqual((row["type"], row["workers"], row["error"]), ("bench_train", 1, None))
            self.check_times(row["ms"])
            flops = 3 * row["flops_per_sample"] * row["batch"]
            self.assertAlmostEqual(row["gflop_per_s"] / (flops / row["ms"]["median"] / 1e6), 1, places=6)
            self.assertAlmostEqual(row["samples_per_s"] / (row["batch"] * 1e3 / row["ms"]["median"]), 1, places=6)

    def test_all_models_by_default(self):
        models = [m["name"] for m in json.loads(self.ok("methods", "--json"))["model"]]
        rows = self.rows("--batch", "2", "--seconds", "0.001")
        self.assertEqual([(r["model"], r["error"]) for r in rows], [(m, None) for m in models])

    def test_own_batches(self):
        self.assertEqual([r["batch"] for r in self.rows("--models", "mlp", "--seconds", "0.001")], [32, 128])

    def test_workers(self):
        rows = self.rows(*MLP, "--workers", "1,2")
        self.assertEqual([(r["type"], r["workers"], r["error"], r["target"]) for r in rows],
                         [("bench_workers", 1, None, None), ("bench_workers", 2, None, 1.9)])
        for row in rows:
            self.check_times(row["ms"])
            self.check_times(row["speedup"])
        self.assertIn("speed-up", self.ok("bench", "train", *MLP, "--workers", "2"))

    def test_torch_errors(self):
        job = ["bench", "train", *MLP, "--compare", "torch", "--python"]
        self.refused(1, ["cannot run", "none/python", "python3-torch", "--python"], *job, self.path("none/python"))
        for said in ("", "echo missing No module", "echo No interpreter"):
            self.refused(1, ["has no PyTorch", said.split("No")[-1], "python3-torch"], *job, self.python(said + "\n"))

    def test_torch_dialogue(self):
        """The other side played by a script: what it says is what is printed."""
        python = self.python("""echo ready 1
            while read -r what n rest; do
                case $what in
                about) echo 9.9 55.5 ;;
                open) echo "$n $rest" >>""" + self.path("opened") + """; echo somehow 12570 ;;
                steps) i=0; while [ $i -lt "$n" ]; do printf '7.5 '; i=$((i + 1)); done; echo ;;
                esac
            done
            """)
        about, row = self.rows(*MLP, "--models", "mlp:hidden=16,hidden2=0", "--compare", "torch", "--python", python,
                               status=1)
        self.assertEqual((about["version"], about["gemm_gflop_per_s"]), ("9.9", 55.5))
        self.assertIn("PyTorch's model has 12570 parameters, ours 12730", row["error"])
        _, row = self.rows("--models", "mlp:hidden=15,hidden2=42", "--batch", "4", "--seconds", "0.01", "--compare",
                           "torch", "--python", python, status=1)
        with open(self.path("opened"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(),
                             ["mlp:hidden=16,hidden2=0 4 28 28 1 0 10", "mlp:hidden=15,hidden2=42 4 28 28 1 0 10"])

    def test_torch_figures(self):
        python = self.python("""echo ready 1
            while read -r what n rest; do
                case $what in
                about) echo 9.9 55.5 ;;
                open) echo somehow 12730 ;;
                steps) i=0; while [ $i -lt "$n" ]; do printf '7.5 '; i=$((i + 1)); done; echo ;;
                esac
            done
            """)
        job = ["--models", "mlp:hidden=16,hidden2=0", "--batch", "4", "--seconds", "0.01", "--compare", "torch",
               "--python", python]
        _, row = self.rows(*job)
        self.assertEqual((row["torch_format"], row["torch_ms"]["min"], row["torch_ms"]["max"]), ("somehow", 7.5, 7.5))
        self.assertTrue(row["ms"]["min"] <= 7.5 * row["ratio"]["median"] <= row["ms"]["max"])
        self.assertEqual(row["torch_samples"], row["samples"])
        lines = self.ok("bench", "train", *job).splitlines()
        self.assertIn("PyTorch 9.9", lines[0])
        self.assertEqual(lines[2].split()[-2:], ["ratio", "target"])

    def test_rows_come_at_once(self):
        """The first one stands in the file while the second model is waited for (20 seconds at most)."""
        python = self.python("""echo ready 1
            while read -r what n rest; do
                case $what in
                about) echo 9.9 3.8 ;;
                open) case $n in *15*) i=0; while [ ! -e """ + self.path("go") + """ ] && [ $i -lt 200 ]; do
                          sleep 0.1; i=$((i + 1)); done
                          if [ $i -lt 200 ]; then echo failed in time; else echo failed late; fi ;;
                      *) echo somehow 12730 ;; esac ;;
                steps) i=0; while [ $i -lt "$n" ]; do printf '7.5 '; i=$((i + 1)); done; echo ;;
                esac
            done
            """)
        with subprocess.Popen([TELEGRAD, "bench", "train", "--models", "mlp:hidden=16,hidden2=0,mlp:hidden=15", "--batch", "4",
                               "--seconds", "0.01", "--compare", "torch", "--python", python], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            lines = [process.stdout.readline() for _ in range(5)]
            self.assertEqual(lines[-1].split()[:2], ["mlp:hidden=16,hidden2=0", "4"])
            with open(self.path("go"), "w", encoding="utf-8"):
                pass
            more, errors = process.communicate()
        self.assertEqual(more.split()[:3], ["mlp:hidden=15", "4", "error:"])
        self.assertIn("PyTorch: in time", more)
        self.assertIn("telegrad: warning: PyTorch's matrix product runs at 3.8 GFLOP/s", errors)
        self.assertIn("libopenblas0-pthread", errors)

    def test_rows_are_documented(self):
        path = os.path.join(os.path.dirname(__file__), "../../docs/records.md")
        with open(path, encoding="utf-8") as file:
            text = file.read().split("\n## bench train\n", 1)[1].split("\n## ")[0]
        named = set(re.findall(r"`(\w+)`", text))
        for row in self.rows(*MLP) + self.rows(*MLP, "--workers", "2"):
            self.assertEqual(set(row) - named - {"type"}, set())

    def test_torch_that_ends(self):
        python = self.python("echo ready 1; read -r x; echo 9.9 1; read -r x; echo failed too large\n")
        _, row = self.rows(*MLP, "--compare", "torch", "--python", python, status=1)
        self.assertEqual(row["error"], "PyTorch: too large")
        python = self.python("echo ready 1; read -r x; echo 9.9 1\n")
        _, row = self.rows(*MLP, "--compare", "torch", "--python", python, status=1)
        self.assertIn("PyTorch failed in", row["error"])

    def test_every_model_has_a_twin(self):
        """As many parameters there as here, or the row would be an error."""
        python = python_with_torch()
        if not python:
            self.skipTest("SKIP: no Python with PyTorch")
        _, *rows = self.rows("--batch", "2", "--seconds", "0.001", "--compare", "torch", "--python", python)
        self.assertEqual([r["error"] for r in rows], [None] * len(rows))
        for row in rows:
            self.check_times(row["torch_ms"])
            self.assertIn(row["torch_format"], ("contiguous", "channels_last"))


if __name__ == "__main__":
    unittest.main()
