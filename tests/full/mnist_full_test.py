"""Long training on real data (./dev test --full): needs MNIST and Fashion-MNIST in $TELEGRAD_DATA or ./data."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TELEGRAD = os.path.abspath(sys.argv.pop(1))
DATA = os.environ.get("TELEGRAD_DATA") or os.path.join(os.path.dirname(__file__), "..", "..", "data")


def has(name):
    return os.path.exists(os.path.join(DATA, name, "train-images-idx3-ubyte.gz")) or os.path.exists(
        os.path.join(DATA, name, "train-images-idx3-ubyte"))


def train(name, *args):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run.jsonl")
        subprocess.run([TELEGRAD, "train", "--data", f"{name}:{os.path.join(DATA, name)}", "--out", out, *args], check=True,
                       stdout=subprocess.DEVNULL, timeout=1500)
        with open(out, encoding="utf-8") as file:
            return json.loads(file.readlines()[-1])


class Mnist(unittest.TestCase):
    @unittest.skipUnless(has("mnist"), "SKIP: no MNIST")
    def test_lenet5(self):
        common = ["--workers", "4", "--epochs", "1", "--lr-schedule", "cosine"]
        dense = train("mnist", *common, "--optimizer", "sgd:lr=0.1,momentum=0.9")
        dgc = train("mnist", *common, "--optimizer", "sgd:lr=0.1,momentum=0.9", "--method",
                    "dgc:density=0.001,warmup=0.5ep")
        cd = train("mnist", *common, "--optimizer", "sgd:lr=0.05,momentum=0.9", "--method", "2bit:threshold=0.005",
                   "--strategy", "cd:k=2,warmup=0.5ep")
        self.assertGreater(dense["test_accuracy"], 0.98)
        self.assertGreater(dgc["test_accuracy"], dense["test_accuracy"] - 0.01)
        self.assertGreater(cd["test_accuracy"], dense["test_accuracy"] - 0.005)
        self.assertGreater(dgc["ratio"], 800)

    @unittest.skipUnless(has("fashion-mnist"), "SKIP: no Fashion-MNIST")
    def test_untuned(self):
        """A configuration that nobody tuned works at once."""
        for method in ("dense", "dgc:density=0.001,warmup=1ep", "topk:density=0.01", "fp16"):
            end = train("fashion-mnist", "--model", "mlp", "--workers", "3", "--batch", "50", "--epochs", "3", "--method",
                        method)
            self.assertGreater(end["test_accuracy"], 0.84, method)


if __name__ == "__main__":
    unittest.main()
