#!/usr/bin/env python3
"""Layers in PyTorch, float64: the networks of trainer/model/layer_test.c again.

    layer_golden.py                  write tests/golden/layer_golden.h (in the root of the repository)
    layer_golden.py --check PROGRAM  compare with all values that `layer_test --dump` prints

Ends with status 77 where PyTorch is not installed."""
import subprocess
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("SKIP:", missing)
    sys.exit(77)

BATCH, CLASSES, SAMPLES, INPUT_STREAM = 2, 3, 8, 1000
BOUND = 1e-4  # of an error, relative to the root mean square of the tensor's values

HEADER = """/* Made by tools/layer_golden.py (PyTorch, float64), never by the library. */
#ifndef TESTS_LAYER_GOLDEN_H
#define TESTS_LAYER_GOLDEN_H

#define LAYER_SAMPLES %d

/* clang-format off */
/* norm: of all elements; at: of element (k * 7919 + tensor * 13) %% n. "loss": in training, in evaluation. */
static const struct layer_golden {
    const char *layer, *tensor;
    double norm, at[LAYER_SAMPLES];
} layer_goldens[] = {
%s};
/* clang-format on */

#endif
"""


def values(stream, n):
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + stream * 40503 + 12345) & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    return (h >> 8 & 0xFFFF).astype(np.float64) / 32768 - 1


class Net:
    """Layers with telegrad's names; tensors in the order in which they are asked for, as there."""

    def __init__(self):
        self.tensors, self.training = {}, True

    def tensor(self, name, *shape):
        if name not in self.tensors:
            n = int(np.prod(shape))
            v = values(len(self.tensors), n) / 4 + name.endswith(".running_var")
            self.tensors[name] = torch.tensor(v.reshape(shape), requires_grad=".running_" not in name)
        return self.tensors[name]

    def conv(self, x, name, channels, kernel, stride, pad, bias):
        w = self.tensor(name + ".weight", channels, x.shape[1], kernel, kernel)
        return F.conv2d(x, w, self.tensor(name + ".bias", channels) if bias else None, stride, pad)

    def dense(self, x, name, out):
        return F.linear(x, self.tensor(name + ".weight", out, x.shape[-1]), self.tensor(name + ".bias", out))

    def norm(self, x, name):
        gamma, beta, mean, var = (self.tensor(f"{name}.{part}", x.shape[1])
                                  for part in ("weight", "bias", "running_mean", "running_var"))
        return F.batch_norm(x, mean, var, gamma, beta, self.training, 0.1, 1e-5)

    def block(self, x, number, channels):
        y = self.conv(x, f"conv{number}", channels, 3, 1, 1, False)
        return F.relu(self.norm(y, f"bn{number}") + x)

    def first(self, x, channels):
        return self.conv(x, "first", channels, 1, 1, 0, True)


def shortcut(x, channels):
    new = channels - x.shape[1]
    return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, new // 2, new - new // 2))


def add(n, x):
    x = n.first(x, 6)
    y = n.conv(x, "conv", 6, 3, 1, 1, False)
    return F.relu(x + y) + (x + x)


def add_mixed(n, x):
    x = n.first(x, 32)
    return F.relu(x + n.dense(x.permute(0, 2, 3, 1), "dense", 32).permute(0, 3, 1, 2))


CASES = [
    ("conv3", (9, 8, 3), lambda n, x: n.conv(n.first(x, 4), "conv", 8, 3, 1, 1, True)),
    ("conv_stride", (9, 7, 3), lambda n, x: n.conv(n.first(x, 4), "conv", 8, 3, 2, 1, False)),
    ("conv_wide", (8, 8, 3), lambda n, x: n.conv(n.first(x, 32), "conv", 48, 3, 1, 1, True)),
    ("conv_wide_odd", (7, 5, 3), lambda n, x: n.conv(n.first(x, 48), "conv", 32, 3, 1, 1, False)),
    ("conv_project", (8, 8, 3), lambda n, x: n.conv(n.first(x, 32), "conv", 64, 1, 2, 0, False)),
    ("conv_rgb", (8, 8, 3),
     lambda n, x: n.conv(n.conv(x, "conv1", 16, 3, 1, 1, False), "conv2", 32, 3, 2, 1, False)),
    ("conv_rgb_wide", (5, 5, 3), lambda n, x: n.conv(x, "conv", 64, 3, 1, 1, True)),
    ("conv_narrow", (5, 5, 3), lambda n, x: n.conv(n.first(x, 32), "conv", 20, 3, 1, 1, False)),
    ("lenet", (12, 12, 1),
     lambda n, x: F.max_pool2d(torch.tanh(n.conv(n.first(x, 4), "conv", 6, 5, 1, 0, True)), 2)),
    ("pool_wide", (7, 7, 3), lambda n, x: F.max_pool2d(F.relu(n.first(x, 32)), 2)),
    ("norm", (3, 4, 2), lambda n, x: n.norm(n.first(x, 5), "bn")),
    ("norm_relu", (5, 5, 3), lambda n, x: F.relu(n.norm(n.first(x, 20), "bn"))),
    ("norm_wide", (7, 9, 3), lambda n, x: F.relu(n.norm(n.first(x, 48), "bn"))),
    ("norm_input", (3, 3, 3), lambda n, x: F.relu(n.norm(x, "bn"))),
    ("block", (5, 5, 3), lambda n, x: n.block(n.block(n.first(x, 6), 1, 6), 2, 6)),
    ("block_wide", (6, 6, 3), lambda n, x: n.block(n.block(n.first(x, 32), 1, 32), 2, 32)),
    ("add", (4, 4, 3), add),
    ("add_mixed", (3, 3, 3), add_mixed),
    ("avgpool", (5, 3, 2), lambda n, x: n.first(x, 6).mean((2, 3), keepdim=True)),
    ("avgpool_wide", (4, 4, 2), lambda n, x: n.first(x, 32).mean((2, 3), keepdim=True)),
    ("shortcut", (5, 7, 2), lambda n, x: shortcut(n.first(x, 5), 8)),
    ("shortcut_wide", (7, 6, 2), lambda n, x: shortcut(shortcut(n.first(x, 16), 32), 64)),
]


def outcome(shape, layer):
    """(loss, loss of evaluation, {tensor: gradient or statistic})"""
    n = Net()
    x = torch.tensor(values(INPUT_STREAM, BATCH * int(np.prod(shape))).reshape(BATCH, *shape)).permute(0, 3, 1, 2)
    labels = torch.tensor([0, 2])

    def loss():
        y = layer(n, x).permute(0, 2, 3, 1).reshape(BATCH, -1)
        return F.cross_entropy(n.dense(y, "out", CLASSES), labels)

    first = loss()
    first.backward()
    n.training = False
    results = {k: (t.grad if t.requires_grad else t).numpy().reshape(-1) for k, t in n.tensors.items()}
    return first.item(), loss().item(), results


def write():
    rows = []
    for name, shape, layer in CASES:
        loss, eval_loss, results = outcome(shape, layer)
        rows.append(f'    {{"{name}", "loss", 0, {{{loss:.12g}, {eval_loss:.12g}}}}},\n')
        for t, (tensor, v) in enumerate(results.items()):
            at = ", ".join(f"{v[(k * 7919 + t * 13) % v.size]:.9g}" for k in range(SAMPLES))
            rows.append(f'    {{"{name}", "{tensor}", {np.linalg.norm(v):.9g}, {{{at}}}}},\n')
    with open("tests/golden/layer_golden.h", "w", encoding="ascii") as f:
        f.write(HEADER % (SAMPLES, "".join(rows)))


def check(program):
    lines = iter(subprocess.run([program, "--dump"], capture_output=True, text=True, check=True).stdout.splitlines())
    worst = 0.0
    for name, shape, layer in CASES:
        loss, eval_loss, results = outcome(shape, layer)
        for tensor, want in [("loss", np.array([loss, eval_loss])), *results.items()]:
            words = next(lines).split()
            assert words[:2] == [name, tensor], (words[:2], name, tensor)
            got = np.array(words[2:], dtype=np.float64)
            scale = np.linalg.norm(want) / np.sqrt(want.size)
            error = np.abs(got - want).max()
            assert error <= BOUND * scale + 1e-6, f"{name} {tensor}: error {error:g}, size {scale:g}"
            worst = max(worst, error / (scale + 1e-6 / BOUND))
    assert next(lines, None) is None
    print(f"{len(CASES)} layers: largest error {worst:.2g} of the values' size, bound {BOUND:g}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else write()
