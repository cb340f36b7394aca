"""Saved weights in PyTorch: LeNet-5 written there gives the logits that `telegrad eval` writes, and PyTorch's own file goes the
other way. Needs NumPy and PyTorch, and the safetensors package for part of it: any Python that has them, $TELEGRAD_PYTHON
first."""
import os
import subprocess
import sys

for python in (os.environ.get("TELEGRAD_PYTHON"), sys.executable, "python3", "/usr/bin/python3"):
    if python and "WEIGHTS_TORCH_TEST" not in os.environ:
        try:
            found = subprocess.run([python, "-c", "import numpy, torch"], capture_output=True).returncode == 0
        except OSError:
            found = False
        if found:
            os.execvpe(python, [python, *sys.argv], {**os.environ, "WEIGHTS_TORCH_TEST": "1"})
try:
    import numpy
    import torch
    from torch.nn import functional
except ImportError:
    print("SKIP: no Python with NumPy and PyTorch")
    sys.exit(0)
try:
    import safetensors.torch as safetensors
except ImportError:
    safetensors = None

import unittest
import safetensors_reader
from cli_tool import CliTest, run
from eval_test import model_of

SAMPLES = 96
BOUND = 1e-5  # of the largest logit: sums in single precision, in another order


class LeNet5(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 20, 5)
        self.conv2 = torch.nn.Conv2d(20, 50, 5)
        self.fc1 = torch.nn.Linear(800, 500)
        self.fc2 = torch.nn.Linear(500, 10)

    def forward(self, x):
        x = functional.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = functional.max_pool2d(torch.tanh(self.conv2(x)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # channels last, as telegrad lays values out
        return self.fc2(torch.tanh(self.fc1(x)))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(784, 256)
        self.fc2 = torch.nn.Linear(256, 64)
        self.fc3 = torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class Block(torch.nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, out, 3, stride=out // channels, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(out)
        self.conv2 = torch.nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(out)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if y.shape != x.shape:  # option A: every second pixel, zeros for new channels on both sides
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, x.shape[1] // 2, x.shape[1] // 2))
        return torch.relu(x + y)


class ResNet20(torch.nn.Module):
    """He et al. 2016, sec. 4.2, for grey images."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.layer1 = torch.nn.Sequential(Block(16, 16), Block(16, 16), Block(16, 16))
        self.layer2 = torch.nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
        self.layer3 = torch.nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
        self.fc = torch.nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


def load(path):
    if safetensors:
        return safetensors.load_file(path)
    _, tensors = safetensors_reader.read(path)
    return {name: torch.from_numpy(numpy.frombuffer(values, dtype="<f4").reshape(shape).copy())
            for name, (shape, values) in tensors.items()}


def write_idx(folder, stem, images, labels):
    with open(os.path.join(folder, stem + "-images-idx3-ubyte"), "wb") as file:
        file.write(numpy.array([0x803, *images.shape], dtype=">i4").tobytes() + images.tobytes())
    with open(os.path.join(folder, stem + "-labels-idx1-ubyte"), "wb") as file:
        file.write(numpy.array([0x801, len(labels)], dtype=">i4").tobytes() + labels.tobytes())


class Torch(CliTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        torch.set_num_threads(1)
        random = numpy.random.default_rng(1)
        # Each class has a pattern, so that there is something to learn.
        patterns = random.integers(0, 180, (10, 28, 28))
        for stem, count in (("train", 256), ("t10k", SAMPLES)):
            labels = (numpy.arange(count) % 10).astype(numpy.uint8)
            images = (patterns[labels] + random.integers(0, 76, (count, 28, 28))).astype(numpy.uint8)
            write_idx(self.folder, stem, images, labels)
        self.labels = torch.from_numpy(labels.astype(numpy.int64))
        self.x = (torch.from_numpy(images).float()[:, None] / 255 - 0.1307) / 0.3081  # as telegrad has it for mnist
        self.data = ["--data", "mnist:" + self.folder]

    def check(self, model, logits):
        with torch.no_grad():
            mine = model(self.x)
        theirs = torch.from_numpy(numpy.load(logits))
        self.assertEqual(theirs.shape, (SAMPLES, 10))
        self.assertGreater(mine.std(), 0.1)
        self.assertLess((mine - theirs).abs().max() / mine.abs().max(), BOUND)

    def test_from_telegrad(self):
        for spec, model in (("lenet5", LeNet5()), ("mlp:hidden=256,hidden2=64", Mlp()), ("resnet20", ResNet20())):
            with self.subTest(model=spec):
                if run("methods", spec.split(":")[0]).returncode:
                    print("SKIP: no model", spec)
                    continue
                model.eval()
                folder, logits = self.path(spec.split(":")[0]), self.path("logits.npy")
                self.ok("train", "--model", spec, *self.data, "--batch", "16", "--workers", "2", "--steps", "24", "--save",
                        folder)
                self.ok("eval", "--resume", folder, "--logits", logits)
                model.load_state_dict(load(model_of(folder)))
                self.check(model, logits)

    def test_from_pytorch(self):
        if not safetensors:
            self.skipTest("SKIP: no package safetensors")
        path, logits = self.path("torch.safetensors"), self.path("logits.npy")
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            with self.subTest(kind=kind):
                model = LeNet5().to(kind)
                safetensors.save_file(model.state_dict(), path)
                self.ok("eval", "--weights", path, "--model", "lenet5", *self.data, "--logits", logits)
                self.check(model.float(), logits)
                self.ok("train", "--init", path, *self.data, "--batch", "16", "--steps", "1")
        model = torch.nn.Sequential(torch.nn.Linear(2, 2)).double()
        safetensors.save_file(model.state_dict(), path)
        self.refused(1, [path, 'no tensor "fc1.weight"'], "eval", "--weights", path, "--model", "mlp", *self.data)

    def test_the_package_agrees(self):
        """The package reads metadata and values as the independent reader does."""
        if not safetensors:
            self.skipTest("SKIP: no package safetensors")
        from safetensors import safe_open
        folder = self.path("ck")
        self.ok("train", "--model", "mlp:hidden=9", *self.data, "--batch", "16", "--steps", "3", "--save", folder)
        metadata, tensors = safetensors_reader.read(model_of(folder))
        with safe_open(model_of(folder), "np") as file:
            self.assertEqual(file.metadata(), metadata)
            self.assertEqual(sorted(file.keys()), sorted(tensors))
            for name, (shape, values) in tensors.items():
                theirs = file.get_tensor(name)
                self.assertEqual(list(theirs.shape), shape)
                self.assertEqual(theirs.tobytes(), values.tobytes())


if __name__ == "__main__":
    unittest.main()
