"""Golden runs of the method powersgd, by NumPy alone (see make_golden.py): three steps of two ranks from the formulas
of the paper in f64, with random numbers of the library's streams. One weight matrix, one bias."""
import os
import struct

import numpy as np

from golden_atomo import MASK, uniform

BASIS = 8  # TG_PURPOSE_BASIS
WORLD, STEPS, ALL = 2, 3, 2 ** 64 - 1
NAME = "fc.weight"


def name_hash(name):
    """tg__hash of base/mem.h, the low half: FNV-1a over 8-byte words, the tail with its length, an avalanche."""
    data, h = name.encode(), 0xCBF29CE484222325
    tail = len(data) % 8
    data += bytes(7 - tail) + bytes([tail])
    for (word,) in struct.iter_unpack("<Q", data):
        h = (h ^ word) * 0x100000001B3 & ALL
        h ^= h >> 32
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ h >> 33) * factor & ALL
    return (h ^ h >> 33) & MASK


def draw(cols, rank, seed, step):
    return np.array([[2 * uniform(seed, BASIS, 0, step, name_hash(NAME), k * cols + i) - 1 for k in range(rank)]
                     for i in range(cols)])


def orthonormal(a):
    a = a.copy()
    for k in range(a.shape[1]):
        for i in range(k):
            a[:, k] -= (a[:, i] @ a[:, k]) * a[:, i]
        a[:, k] /= np.linalg.norm(a[:, k])
    return a


def run(rows, cols, rank, warm, seed, gradients):
    """The mean gradients that each step applies to the matrix."""
    error, q, outputs = [np.zeros((rows, cols))] * WORLD, None, []
    for step in range(STEPS):
        if q is None or not warm:
            q = draw(cols, rank, seed, step)
        m = [e + g for e, g in zip(error, gradients[step])]
        start = orthonormal(q)
        p = orthonormal(sum(x @ start for x in m) / WORLD)
        q = sum(x.T @ p for x in m) / WORLD
        error = [x - p @ (x.T @ p).T for x in m]
        outputs.append(p @ q.T)
    return outputs


def cases():
    rng = np.random.Generator(np.random.PCG64(50))
    for rows, cols, rank, warm, seed in ((12, 17, 1, True, 1), (22, 15, 3, True, 2), (15, 30, 2, False, 2 ** 63 + 5)):
        base = rng.normal(size=(rows, 4)) * [8, 4, 2, 1] @ rng.normal(size=(4, cols))
        gradients = [[(base + rng.normal(size=(rows, cols))).astype(np.float32) for _ in range(WORLD)] for _ in range(STEPS)]
        biases = [[rng.normal(size=rows).astype(np.float32) for _ in range(WORLD)] for _ in range(STEPS)]
        outputs = run(rows, cols, rank, warm, seed, [[g.astype(np.float64) for g in step] for step in gradients])
        spec = "powersgd:rank=%d,min_ratio=1,warm=%s" % (rank, "yes" if warm else "no")
        yield spec, seed, rows, cols, gradients, biases, outputs


HEADER = """/* Made by tools/golden_powersgd.py (NumPy), never by the library. Little-endian f32 in hexadecimal: of each step
 * (and rank) the matrix, then the bias. */
#ifndef TESTS_GOLDEN_POWERSGD_H
#define TESTS_GOLDEN_POWERSGD_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
static const struct golden_powersgd {
    const char *spec;
    uint64_t seed;
    size_t rows, cols;
    const char *gradient[3][2], *out[3];
} golden_powersgd[] = {
%s};
/* clang-format on */

#endif
"""


def write(root, literal):
    def both(matrix, bias):
        return literal(np.concatenate([matrix.ravel(), bias]).astype("<f4").tobytes())

    text = ""
    for spec, seed, rows, cols, gradients, biases, outputs in cases():
        given = ",\n     ".join("{%s,\n      %s}" % tuple(both(g, b) for g, b in zip(*step))
                                for step in zip(gradients, biases))
        made = ",\n     ".join(both(out, sum(b.astype(np.float64) for b in bias) / WORLD)
                               for out, bias in zip(outputs, biases))
        text += '    {"%s", UINT64_C(%d), %d, %d,\n     {%s},\n     {%s}},\n' % (spec, seed, rows, cols, given, made)
    with open(os.path.join(root, "tests/golden/golden_powersgd.h"), "w") as file:
        file.write(HEADER % text)
