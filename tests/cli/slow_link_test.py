"""bench/slow_link.py and bench/torch/ddp.py: what they train and record. A stand-in for the laboratory runs the ranks on this
machine; the part with PyTorch is skipped where no Python has it."""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, python_with, records
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from free_port import free_port

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
PYTHON = python_with("torch")
NET_LIBRARY = pathlib.Path(TELEGRAD).parent / "libtelegrad-net.so"
NET = """#!/bin/sh
case $1 in
exec) shift 2; [ "$1" = sysctl ] || GLOO_SOCKET_IFNAME=lo MASTER_ADDR=127.0.0.1 MASTER_PORT=%d exec "$@" ;;
stats) date +"eth0 of h0: tx %%s%%N rx 0" ;;
esac
"""
MPI = """#!/bin/sh
while [ "$1" != train ]; do program=$1; shift; done
exec "$program" "$@" --workers 4
"""


def write_digits(folder, split, count):
    """A set in MNIST's files: a bright row at the height of the label, in noise."""
    images, labels = bytearray(), bytearray()
    draw = random.Random(count)
    for i in range(count):
        image = bytearray(draw.randrange(64) for _ in range(784))
        top = 28 * (2 * (i % 10) + 4)
        image[top : top + 56] = b"\xff" * 56
        images += image
        labels.append(i % 10)
    (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + images)
    (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


class SlowLink(CliTest):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(self.folder)
        self.out = self.place / "out"
        write_digits(self.place, "train", 64)
        write_digits(self.place, "t10k", 40)
        for name, text in (("net.sh", NET % free_port()), ("mpi.sh", MPI)):
            script = self.place / name
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
        self.job = ["--data", f"mnist:{self.folder}", "--batch", "4"]

    def drive(self, *rows, steps=8, more=(), status=0):
        environment = {**ENVIRONMENT, "TELEGRAD": TELEGRAD, "PYTHON": PYTHON or "", "PYTHONDONTWRITEBYTECODE": "1",
                       "PYTHONPATH": str(BENCH.parent / "python"), "TELEGRAD_LIBRARY_DIR": os.path.dirname(TELEGRAD)}
        done = subprocess.run([sys.executable, BENCH / "slow_link.py", self.folder, self.out, *rows, "--steps", str(steps), "--every", "4",
                               "--", *self.job, *more], capture_output=True, text=True, env=environment, timeout=800)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def row(self, name, *steps):
        """The records of a row, which has tests after these steps, in this order."""
        lines = records(self.out / f"{name}-1.jsonl")
        self.assertEqual([line["type"] for line in lines], ["start", *["test"] * len(steps), "end"])
        self.assertEqual((lines[0]["network"], lines[0]["world"], lines[0]["steps"]), ("20mbit,10ms", 4, lines[-1]["steps"]))
        tests = lines[1:-1]
        self.assertEqual([test["step"] for test in tests], list(steps))
        self.assertEqual([test["seconds"] for test in tests], sorted({test["seconds"] for test in tests}))
        self.assertGreater(lines[-1]["ethernet_bytes"], 0)
        return tests

    def test_telegrad(self):
        """The weights of step 4 are tested, not others; a row that is there is left alone."""
        told = self.drive("telegrad-dense")
        tests = self.row("telegrad-dense", 4, 8)
        self.ok("train", "--model", "lenet5", *self.job, "--workers", "4", "--steps", "4", "--out", self.path("four.jsonl"))
        self.assertAlmostEqual(tests[0]["test_loss"], records(self.path("four.jsonl"))[-1]["test_loss"], 5)
        self.assertIn("| telegrad dense (ring) | 8 |", told.stdout)
        again = self.drive("telegrad-dense", steps=12)
        self.assertEqual((again.stdout, again.stderr), (told.stdout, ""))
        self.assertEqual(os.listdir(self.out), ["telegrad-dense-1.jsonl"])
        self.draw()

    def draw(self):
        python, picture = python_with("matplotlib"), self.place / "curve.svg"
        if python:
            subprocess.run([python, BENCH / "curves.py", picture, f"test_accuracy@time={self.out}/telegrad-dense-1.jsonl"], check=True)
            self.assertEqual(xml.etree.ElementTree.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_failure(self):
        self.assertIn("exit status 2", self.drive("telegrad-dgc", more=["--momentum", "2"], status=1).stderr)
        self.assertEqual(os.listdir(self.out), [])
        self.assertIn("no row dense; there are pytorch-allreduce", self.drive("dense", status=2).stderr)

    @unittest.skipUnless(PYTHON, "SKIP: no Python with PyTorch")
    def test_pytorch(self):
        """Four ranks without a hook train as one worker with the batches of all four, and so do hooks that have not begun."""
        rows = ["pytorch-allreduce", "pytorch-fp16", "pytorch-powersgd"]
        self.drive(*rows)
        self.drive("pytorch-localsgd", more=["--hook", "localsgd:every=4,start=3"])
        allreduce, fp16, powersgd, local = (self.row(row, 4, 8) for row in [*rows, "pytorch-localsgd"])
        one = subprocess.run([PYTHON, BENCH / "torch" / "train.py", *self.job, "--batch", "16", "--steps", "8"], env=ENVIRONMENT,
                             capture_output=True, text=True, check=True)
        whole = [json.loads(line) for line in one.stdout.splitlines()]
        losses = [record["test_loss"] for record in whole if record["type"] == "epoch"]
        self.assertEqual(len(losses), 2)
        for i in range(2):
            self.assertAlmostEqual(allreduce[i]["test_loss"], losses[i], 4)
            self.assertAlmostEqual(powersgd[i]["test_loss"], losses[i], 4)
            self.assertAlmostEqual(fp16[i]["test_loss"], losses[i], 2)
        self.assertAlmostEqual(local[0]["test_loss"], losses[0], 4)  # the mean of one local step is the step with the mean
        self.assertNotAlmostEqual(local[1]["test_loss"], losses[1], 6)  # the mean of four is not

    @unittest.skipUnless(PYTHON and NET_LIBRARY.exists(), "SKIP: no Python with PyTorch, or a build without OpenSSL")
    def test_telegrad_hook(self):
        """DGC over PyTorch's model: it takes over the optimizer's momentum, and trains as the all-reduce does if all is sent."""
        self.drive("pytorch-allreduce")
        self.drive("hook-dgc", more=["--telegrad", "dgc:density=1,warmup=0,masking=no,values=f32"])
        allreduce, dgc = (self.row(row, 4, 8) for row in ("pytorch-allreduce", "hook-dgc"))
        for plain, coded in zip(allreduce, dgc):
            self.assertAlmostEqual(coded["test_loss"], plain["test_loss"], 4)

    @unittest.skipUnless(PYTHON, "SKIP: no Python with PyTorch")
    def test_wrong_hook(self):
        done = subprocess.run([PYTHON, BENCH / "torch" / "ddp.py", "--hook", "nosuch"], capture_output=True, text=True,
                              env={**ENVIRONMENT, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('"nosuch": there are none, fp16, powersgd, localsgd', done.stderr)


if __name__ == "__main__":
    unittest.main()
