"""bench/torch: the models there have the tensors that ours have, and what it reads and trains is what we do."""
import json
import os
import pathlib
import struct
import subprocess
import unittest
from cli_tool import CliTest, python_with, run

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "torch"
DATA = os.environ.get("TELEGRAD_DATA", "")
IMAGES = {"height": 28, "width": 28, "channels": 1, "context": 0, "classes": 10}


PYTHON = python_with("torch")

LIST = """
import json, sys
from models import Input, create
lists = []
for spec, shape in json.loads(sys.argv[1]):
    model = create(spec, Input(**shape))
    trained = {name for name, _ in model.named_parameters()}
    state = {} # a tensor that two layers share, once
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked") and tensor.data_ptr() not in state:
            state[tensor.data_ptr()] = [name, list(tensor.shape), name in trained]
    lists.append(sorted(state.values()))
print(json.dumps(lists))
"""

LOAD = """
import sys, torch
from models import Input, create, load_state
model = create("mlp:hidden=2,hidden2=0", Input(1, 3, 1, 0, 2))
load_state(model, sys.argv[1])
print(model(torch.tensor([[[[1.0, 2.0, 3.0]]]])).tolist())
"""


WRONG = """
import contextlib, io, json, sys
import train
told = []
for args in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["train.py", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            train.main()
            status = 0
        except SystemExit as end:
            status = end.code
    told.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""

RATES = """
import json, sys
from train import make_schedule
spec, lr, total, per_epoch = sys.argv[1], *map(float, sys.argv[2:])
rate = make_schedule(spec, lr, total, per_epoch)
print(json.dumps([rate(step) for step in range(int(total))]))
"""


@unittest.skipUnless(PYTHON, "SKIP: no Python with PyTorch")
class Twins(CliTest):
    def test_wrong_specs(self):
        """A line that says what is wrong, and status 2."""
        with open(self.path("poem"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 40)
        text = "text:" + self.path("poem")
        gpt = ["--model", "gpt:embed=8", "--batch", "2", "--data", text]
        cases = [["resnet2000", "--model", "resnet2000", "--data", text],
                 ["'width'", "--model", "gpt:width=3", "--data", text],
                 ["one of images", "--model", "lenet5", "--data", text],
                 ["not there", "--model", "gpt", "--data", text + "s"],
                 ["lr=fast is no number", *gpt, "--optimizer", "sgd:lr=fast"],
                 ["lars", *gpt, "--optimizer", "lars"],
                 ["'soon'", *gpt, "--lr-schedule", "cosine:warmup=soon"],
                 ["no whole step", *gpt, "--batch", "1000"]]
        told = json.loads(self.python("-c", WRONG, json.dumps([[*args, "--steps", "1"] for _, *args in cases])))
        for (word, *args), (status, out, err) in zip(cases, told):
            with self.subTest(args=args):
                self.assertEqual((status, out, len(err.splitlines())), (2, "", 1), err)
                self.assertIn(word, err)

    def python(self, *args, status=0):
        environment = {**os.environ, "PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run([PYTHON, *args], capture_output=True, text=True, env=environment, timeout=250)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def check_twins(self, models):
        """models: (spec, input, [[name, shape, trained]]) each"""
        twins = json.loads(self.python("-c", LIST, json.dumps([model[:2] for model in models])))
        for (spec, _, ours), theirs in zip(models, twins):
            self.assertEqual(theirs, sorted(ours), spec)

    def test_trained_tensors(self):
        models = []
        for spec in ("lenet5", "lenet5:act=relu", "mlp", "mlp:hidden=7,hidden2=0", "mlp:hidden=9,hidden2=3"):
            plan = json.loads(self.ok("train", "--data", "glyphs", "--model", spec, "--dry-run", "--json"))
            models.append((spec, IMAGES, [[t["name"], t["shape"], True] for t in plan["tensors"]]))
        self.check_twins(models)

    def test_all_tensors(self):
        done = run("models", "--json")
        if "unknown command" in done.stderr:
            self.skipTest("SKIP: this telegrad has no command models")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_twins([(m["spec"], m["input"], [[t["name"], t["shape"], t["trained"]] for t in m["tensors"]])
                          for m in json.loads(done.stdout)["models"]])

    def test_unknown_models(self):
        error = self.python("-c", LIST, json.dumps([["nosuch", {}]]), status=1)
        self.assertIn('model "nosuch": there are lenet5, mlp', error)

    def write_weights(self, tensors):
        head, data = {"__metadata__": {"format": "pt"}}, b""
        for name, (shape, values) in tensors.items():
            head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
            data += struct.pack(f"<{len(values)}f", *values)
        text = json.dumps(head).encode()
        with open(self.path("w.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return self.path("w.safetensors")

    def test_weights(self):
        tensors = {"fc2.bias": ([2], [0.5, 0]), "fc1.bias": ([2], [0, -100]), "fc1.weight": ([2, 3], [1, 1, 1, 1, 1, 1]),
                   "fc2.weight": ([2, 2], [2, 5, -1, 5])}
        self.assertEqual(json.loads(self.python("-c", LOAD, self.write_weights(tensors))), [[12.5, -6.0]])
        bias = tensors.pop("fc2.bias")
        error = self.python("-c", LOAD, self.write_weights({**tensors, "more": bias}), status=1)
        self.assertIn("missing ['fc2.bias'], unexpected ['more']", error)

    def records(self, *args):
        return [json.loads(line) for line in self.python(str(FOLDER / "train.py"), *args).splitlines()]

    def test_training_on_text(self):
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("telegraph " * 300)
        for model, more in (("lstm:layers=1,hidden=16,embed=16", []), ("gpt:layers=1,heads=2,embed=16", ["--seed", "2"])):
            records = self.records("--data", "text:" + self.path("text"), "--model", model, "--context", "16", "--batch", "4",
                                   "--steps", "60", "--log-every", "50", "--optimizer", "adam:lr=0.03,clip=1", "--lr-schedule", "cosine:warmup=5", *more)
            self.assertEqual([r["type"] for r in records], ["start", "epoch", "step", "step", "epoch", "end"])
            start, end = records[0], records[-1]
            self.assertEqual((start["train_samples"], start["test_samples"], start["steps_per_epoch"]), (2700, 300, 42))
            self.assertEqual((end["steps"], end["epochs"]), (60, 1))
            self.assertLess(end["test_loss"], 1.0, model)  # from log 8 = 2.1

    def test_checkpoint(self):
        """A run in two parts ends as one in one part."""
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("telegraph " * 60)
        args = ("--data", "text:" + self.path("text"), "--model", "gpt:layers=1,heads=2,embed=16,dropout=0.1", "--context", "16",
                "--batch", "4", "--optimizer", "adam:lr=0.01")
        parts = self.records(*args, "--epochs", "1", "--checkpoint", self.path("ck"))
        parts += self.records(*args, "--epochs", "2", "--checkpoint", self.path("ck"))
        whole = self.records(*args, "--epochs", "2")
        self.assertEqual(parts[-1]["epochs"], 2)
        for key in ("step", "train_loss", "test_loss"):
            self.assertEqual(parts[-1][key], whole[-1][key])

    def test_durations(self):
        """Half a step is rounded up, as in telegrad."""
        rates = json.loads(self.python("-c", RATES, "step:at=0.5ep", "0.1", "20", "5"))
        self.assertEqual(rates.index(min(rates)), 3)

    def test_words(self):
        for name, text in (("train", "a b b\n <unk> a\n"), ("test", "b zebra\n"), ("valid", "a\n")):
            with open(self.path(name + ".txt"), "w", encoding="utf-8") as file:
                file.write(text)
        start = self.records("--data", f"words:{self.folder},eval=test", "--model", "lstm:layers=1,hidden=4,embed=4",
                             "--context", "2", "--batch", "1", "--steps", "1")[0]
        self.assertEqual((start["train_samples"], start["test_samples"]), (7, 3))

    @unittest.skipUnless(os.path.isdir(DATA), "SKIP: TELEGRAD_DATA is not set")
    def test_real_data(self):
        counts = {"wikitext-2": ("lstm:layers=1,hidden=8,embed=8", 2088628, 245569), "shakespeare": (
            "lstm:layers=1,hidden=8,embed=8", 1003854, 111540), "mnist": ("mlp", 60000, 10000)}
        for name, (model, train, test) in counts.items():
            start = self.records("--data", name, "--model", model, "--steps", "1", "--no-eval", "--batch", "4")[0]
            self.assertEqual((start["train_samples"], start["test_samples"]), (train, test))


if __name__ == "__main__":
    unittest.main()
