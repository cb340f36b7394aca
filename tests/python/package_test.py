"""The package as a whole: its types, the examples in its help, the Python blocks of docs/pytorch.md, its doctor. Status 77: no
PyTorch here."""
import os
import re
import pathlib
import subprocess
import sys
import unittest

import telegrad.doctor
import served
import torch_jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Package(unittest.TestCase):
    def test_types(self):
        for python in (sys.executable, "python3", os.environ.get("TELEGRAD_PYTHON", "")):
            if python and subprocess.run([python, "-m", "mypy", "--version"], capture_output=True).returncode == 0:
                break
        else:
            self.skipTest("SKIP: no mypy")
        done = subprocess.run([python, "-m", "mypy", "--no-error-summary", "--cache-dir", os.devnull], cwd=ROOT, capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_documents(self):
        """Each Python block, on two ranks."""
        for page, most in (("pytorch", 4), ("mxnet", 0)):
            self.assertGreater(jobs.run_alike("docs_rank.py", 2, page, timeout=100).count("line "), most if served.AVAILABLE else -1)

    def test_help(self):
        """Each public name has an example, and they run."""
        self.assertGreater(int(jobs.run_alike("docs_rank.py", 1, "help").split()[0]), 60)

    def test_doctor(self):
        def doctor(*arguments, **more):
            done = subprocess.run([sys.executable, "-m", "telegrad.doctor", *arguments], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, **more})
            return done.returncode, done.stdout, done.stderr
        status, text, errors = doctor()
        self.assertEqual((status, errors), (0, ""), text)
        for check in ("libraries", "means", "tcp", "torch"):
            self.assertRegex(text, rf"(?m)^ok   {check}: ")
        self.assertRegex(text, r"(?m): telegrad.torch.ddp" + (" and fsdp$" if int(jobs.version.split(".")[0]) > 1 else "$"))
        self.assertEqual(doctor("-h")[0], 0)
        self.assertEqual(doctor("--all"), (2, "", "telegrad.doctor: '--all': allowed: no arguments\n"))
        self.assertEqual(telegrad.doctor._advice(1e9, 2), "fp16, qsgd:bits=4 or powersgd:rank=4")
        self.assertIn("fp16:exchange=reducescatter, qsgd:bits=4,exchange=reducescatter or", telegrad.doctor._advice(1e9, 3))
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(torch_jobs.free_port()), "RANK": "0", "WORLD_SIZE": "1"}
        self.assertTrue(re.search(r"(?m)^ok   job: 1 ranks: ", doctor(**where)[1]))


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
