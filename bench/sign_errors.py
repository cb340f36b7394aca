#!/usr/bin/env python3
"""What signs get wrong of gradients, per tensor: squared errors over the square of the tensor.

    telegrad train ... --dump-gradients DIR --dump-every 100
    bench/sign_errors.py DIR STEP...      needs NumPy

share: the tensor's part of the gradient's square. one: one magnitude for the tensor. columns: two means for each column
(1bit:weights=no). rows: a mean for each row (efsign). weights: a weight for each row, two values for each column
(1bit)."""
import json
import os
import sys

import numpy as np


def two_values(x, weights):
    """A weight of the row times one of two values of the column, by least squares."""
    above, square = x >= 0, weights * weights + 0 * x
    values = []
    for chosen in (above, ~above):
        by = np.where(chosen, square, 0).sum(0)
        values.append(np.divide(np.where(chosen, weights * x, 0).sum(0), by, out=np.zeros_like(by), where=by > 0))
    return weights * np.where(above, values[0], values[1])


def main(folder, steps):
    with open(os.path.join(folder, "tensors.json"), encoding="utf-8") as file:
        tensors = json.load(file)
    for step in steps:
        gradient = np.load(os.path.join(folder, "gradient-%08d.npy" % int(step))).astype(np.float64).ravel()
        for t in tensors["tensors"] if isinstance(tensors, dict) else tensors:
            x = gradient[t["offset"]:t["offset"] + t["n"]]
            total = max((x * x).sum(), 1e-300)
            coded = {"one": np.sign(x) * np.abs(x).mean()}
            if len(t["shape"]) > 1:
                m = x.reshape(t["shape"][0], -1)
                rows = np.abs(m).mean(1, keepdims=True)
                coded.update(columns=two_values(m, np.ones_like(rows)), rows=np.sign(m) * rows,
                             weights=two_values(m, rows))
            print("%6s  %-28s share %.3f" % (step, t["name"], total / (gradient * gradient).sum()),
                  *("%s %.3f" % (name, ((x - c.ravel()) ** 2).sum() / total) for name, c in coded.items()), sep="  ")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: bench/sign_errors.py DIR STEP...")
    main(sys.argv[1], sys.argv[2:])
