"""Golden vectors of the codecs sign and 1bit, for make_golden.py: NumPy and docs/wire-format.md alone."""
import os
import struct

import numpy as np

import wire_decode
import wire_signs

LANES, BLOCK, PLAIN_SHARE = 16, 8, 32
WEIGHTED = "1bit:weights=yes"
SPECS = ("sign", "sign:scale=tensor", "sign:scale=row", "1bit", "1bit:threshold=mean")

HEADER = """/* Made by tools/make_golden.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32.
 * shape: rows and columns of two tensors that follow each other. */
#ifndef TESTS_GOLDEN_SIGNS_H
#define TESTS_GOLDEN_SIGNS_H

#include <stddef.h>

/* clang-format off */
static const struct golden_sign {
    const char *name, *spec;
    size_t shape[2][2];
    const char *x, *frame, *decoded;
} golden_signs[] = {
%s};
/* clang-format on */

#endif
"""


def lane_sum(x):
    """Sum in f64: element i in lane i % 16, then the lanes in order (at most one chunk)."""
    lanes = [0.0] * LANES
    for i, v in enumerate(x):
        lanes[i % LANES] += float(v)
    total = 0.0
    for v in lanes:
        total += v
    return total


def block_sum(x):
    """Sum in f64 of a column of floats: blocks of 8 rows, each from 0."""
    return block_sum64([float(v) for v in x])


def block_sum64(x):
    """The same of doubles."""
    total = 0.0
    for begin in range(0, len(x), BLOCK):
        part = 0.0
        for v in x[begin:begin + BLOCK]:
            part += v
        total += part
    return total


def column_values(x, total, mean):
    """(threshold, plus, minus) of one column; total adds up some of its elements, 0 for the others."""
    n, t = len(x), np.float32(0)
    zero = np.float32(0)
    below = x < t
    if mean:
        t = np.float32((total(np.where(below, x, zero)) + total(np.where(below, zero, x))) / n)
        below = x < t
    low, high, count = total(np.where(below, x, zero)), total(np.where(below, zero, x)), int(below.sum())
    if mean:
        m = float(t)
        d = max(0.0, ((high - (n - count) * m) + (count * m - low)) / n)
        return t, np.float32(m + d), np.float32(m - d)
    return t, np.float32(high / (n - count) if count < n else 0), np.float32(low / count if count else 0)


def weighted(m):
    """Weights of the rows, two values of the columns."""
    w = np.array([np.float32(lane_sum(np.abs(row)) / len(row)) for row in m], np.float32)
    wide = w.astype(np.float64)[:, None] + np.zeros(m.shape)
    largest, most = float(w.max()), float(np.finfo(np.float32).max)
    limit = min(most / largest * (1 - 2.0 ** -23), most) if largest > 0 else most

    def value(chosen):
        total = np.array([block_sum64(c) for c in np.where(chosen, wide * m, 0).T])
        by = np.array([block_sum64(c) for c in np.where(chosen, wide * wide, 0).T])
        ratio = np.divide(total, by, out=np.zeros_like(total), where=by > 0)
        return np.clip(ratio, -limit, limit).astype(np.float32) + np.float32(0)

    return np.concatenate([w, value(~(m < 0)), value(m < 0)])


def pack(bits):
    return b"".join(np.packbits(row.astype(np.uint8), bitorder="little").tobytes() for row in bits)


def strips_of(x, shapes, min_rows, plain=False):
    """plain: if vectors are few, they have one dimension, and are sent as they are."""
    at = 0
    vectors = sum(rows for rows, cols in shapes if cols == 1)
    few = vectors <= sum(rows * cols for rows, cols in shapes) // PLAIN_SHARE
    for rows, cols in shapes:
        piece = x[at:at + rows * cols]
        if cols == 1 and plain and few:
            yield piece
        else:
            yield piece.reshape(1, -1) if cols == 1 or rows < min_rows else piece.reshape(rows, cols)
        at += rows * cols


def shape_of(m):
    return (0, len(m)) if m.ndim == 1 else m.shape


def frame(codec, x, strips, aux):
    """strips: (matrix, values, decoded bits)"""
    values = b"".join(np.asarray(v, "<f4").tobytes() for _, v, _ in strips)
    if not any(values):
        return struct.pack("<BBHII", codec, 2, 0, len(x), 0)
    payload = struct.pack("<I", len(strips)) + b"".join(struct.pack("<II", *shape_of(m)) for m, _, _ in strips)
    payload += values + b"".join(pack(bits) for _, _, bits in strips)
    coded = struct.pack("<BBHII", codec, 0, aux, len(x), len(payload)) + payload
    if len(payload) < 4 * len(x):
        return coded
    dense = wire_decode.decode_frame(coded)[1].astype("<f4").tobytes()
    return struct.pack("<BBHII", codec, 1, 0, len(x), len(dense)) + dense


def ordinary(m, sign, mean):
    """A strip without weights."""
    if m.ndim == 1:
        return m, m, np.zeros((0, len(m)), bool)
    if sign:
        return m, [np.float32(lane_sum(np.abs(row)) / len(row)) for row in m], m < 0
    columns = [m[0]] if len(m) == 1 else list(m.T)
    found = [column_values(c, lane_sum if len(m) == 1 else block_sum, mean) for c in columns]
    t, plus, minus = (np.array(v, np.float32) for v in zip(*found))
    return m, np.concatenate([plus, minus]), m < t[None]


def encode(spec, x, shapes):
    if len(x) == 0:
        return struct.pack("<BBHII", 9 if spec.startswith("sign") else 10, 2, 0, 0, 0)
    if spec == "sign":
        bits = pack((x < 0)[None])
        return struct.pack("<BBHII", 9, 0, 0, len(x), len(bits)) + bits
    if spec.startswith("sign"):
        row = spec.endswith("row")
        strips = [ordinary(m, True, False) for m in strips_of(x, shapes, 2 if row else 1 << 30, row)]
        return frame(9, x, strips, 1)
    if spec == WEIGHTED:
        strips = [(m, weighted(m), m < 0) if m.ndim == 2 and len(m) > 1 and wire_signs.has_weights(m.shape[1]) else
                  ordinary(m, False, False) for m in strips_of(x, shapes, 3, True)]
        return frame(10, x, strips, 1)
    return frame(10, x, [ordinary(m, False, spec.endswith("mean")) for m in strips_of(x, shapes, 3)], 0)


def write(root, literal):
    """tests/golden/golden_signs.h; returns {name: frame} for the fuzzer's seeds."""
    rng = np.random.Generator(np.random.PCG64(21))
    shapes = {"vectors": ((20, 1), (7, 1)), "matrix": ((19, 13), (5, 1)), "wide": ((2, 40), (3, 70)),
              "short": ((3, 1), (1, 2)), "long": ((130, 2), (17, 9)), "zeros": ((9, 5), (4, 1)), "plain": ((22, 22), (5, 1))}
    rows, seeds = [], {}
    for name, shape in shapes.items():
        n = sum(r * c for r, c in shape)
        x = (rng.laplace(size=n) / 100).astype(np.float32)
        x[rng.random(n) < 0.1] = -0.0
        x[:5] = 0
        if name == "zeros":
            x[:] = 0
        for spec in (SPECS[2], WEIGHTED) if name == "plain" else SPECS + (WEIGHTED,) * (name in ("zeros", "long")):
            data = encode(spec, x, shape)
            decoded = wire_decode.decode_frame(data)[1]
            rows.append('    {"%s", "%s", {{%d, %d}, {%d, %d}},\n     %s,\n     %s,\n     %s},\n'
                        % (name, spec, *shape[0], *shape[1], literal(x.astype("<f4").tobytes()), literal(data),
                           literal(decoded.astype("<f4").tobytes())))
            if len(data) < 300:
                seeds["signs_%s_%s" % (name, "".join(c if c.isalnum() else "_" for c in spec))] = data
    with open(os.path.join(root, "tests/golden/golden_signs.h"), "w") as file:
        file.write(HEADER % "".join(rows))
    return seeds
