"""Vectors of sparse frames: every coding of values and indices, by NumPy from docs/wire-format.md alone.

make_golden.py calls write(); what stands in tests/golden/golden_sparse.h is never made by the library."""
import os
import struct

import numpy as np

import golden_base
import wire_decode
import wire_sparse

BLOCK = 512
F32 = np.float32


def scale_for(v, top):
    scale = F32(np.abs(v).max() / F32(top))
    with np.errstate(over="ignore"):
        return np.nextafter(scale, F32(0)) if np.isinf(scale * F32(top)) else scale


def pack(codes, width):
    codes = np.asarray(codes, np.int64)
    return golden_base.pack_bits((codes[:, None] >> np.arange(width) & 1).reshape(-1))


def lanes(v):
    """Sum of |v| in f64 over 16 lanes, added in order."""
    lane = np.zeros(16)
    for i, x in enumerate(v):
        lane[i % 16] += abs(float(x))
    total = 0.0
    for x in lane:
        total += x
    return total


def class_mean(v, of):
    """Mean of |v| where `of`; the others count as 0 in their lanes."""
    return F32(lanes(np.where(of, v, 0)) / of.sum()) if of.any() else F32(0)


def code_block(values, v):
    if values in ("int8", "4bit"):
        top, width = (127, 8) if values == "int8" else (7, 4)
        scale = scale_for(v, top)
        code = np.clip(np.rint(v / (scale if scale > 0 else F32(1))), -top, top).astype(np.int64)
        return scale.astype("<f4").tobytes() + pack(code & (1 << width) - 1, width)
    sign = np.signbit(v).astype(np.int64)
    if values == "1bit":
        return class_mean(v, np.ones(len(v), bool)).astype("<f4").tobytes() + pack(sign, 1)
    upper = np.abs(v.astype(np.float64)) >= lanes(v) / len(v)
    levels = np.array([class_mean(v, ~upper), class_mean(v, upper)], "<f4")
    return levels.tobytes() + pack(upper.astype(np.int64) * 2 + sign, 2)


def code_values(values, v):
    if values == "f32":
        return v.astype("<f4").tobytes()
    if values == "fp16":
        return golden_base.to_half(v).tobytes()
    return b"".join(code_block(values, v[i:i + BLOCK]) for i in range(0, len(v), BLOCK))


def elias_fano(indices, n):
    k = len(indices)
    low = (n // k).bit_length() - 1
    upper = np.zeros(k + (n >> low) + 1, np.uint8)
    upper[(indices >> low) + np.arange(k)] = 1
    lower = (indices[:, None] >> np.arange(low) & 1).reshape(-1)
    return golden_base.pack_bits(np.concatenate([lower, upper]))


def encode(x, density, values, index):
    n = len(x)
    k = min(n, max(1, int(np.floor(density * n + 0.5)))) if n else 0
    order = np.argsort(-np.abs(x), kind="stable")[:k]
    chosen = np.sort(order[x[order] != 0])
    if len(chosen) == 0:
        return golden_base.head("topk", 2, 0, n, b"")
    coding, param, code = (3, 0, elias_fano(chosen, n)) if index == "ef" else \
        golden_base.code_indices(index, chosen, n)
    kept = code_values(values, x[chosen])
    number = wire_sparse.VALUE_CODINGS.index(values)
    payload = struct.pack("<I", len(chosen)) + kept + code
    if len(payload) >= 4 * n:
        decoded = np.zeros(n, F32)
        decoded[chosen] = wire_sparse.read_values(wire_decode.need, number, len(chosen), kept)[1]
        return golden_base.dense("topk", decoded)
    return golden_base.head("topk", 0, number | coding << 4 | param << 8, n, payload)


def vectors():
    rng = np.random.Generator(np.random.PCG64(21))
    long = (rng.laplace(size=500) / 100).astype(F32)
    wild = (rng.normal(size=90) * 10.0 ** rng.integers(-38, 38, 90)).astype(F32)
    huge = np.full(40, np.finfo(F32).max, F32) * np.where(np.arange(40) % 3, 1, -0.4).astype(F32)
    tiny = (np.arange(40) % 5 * 1e-45).astype(F32)
    example = np.array([0.5, -3, 0, 0.25, 8, 0, -1, 0.125], F32)
    equal = np.where(np.arange(60) % 4, F32(0.75), F32(-0.75)).astype(F32)
    inputs = {"empty": np.zeros(0, F32), "one": np.array([-2.5], F32), "zeros": np.zeros(20, F32), "example": example,
              "wild": wild, "huge": huge, "tiny": tiny, "equal": equal, "long": long}
    out = []
    for name, x in inputs.items():
        for density, values, index in ((0.6, "int8", "ef"), (0.3, "int8", "auto"), (0.6, "4bit", "rice"),
                                       (0.6, "2bit", "bitmap"), (0.6, "1bit", "ef"), (0.05, "fp16", "ef"),
                                       (0.02, "4bit", "raw"), (1, "int8", "auto")):
            spec = "topk:density=%g,values=%s,index=%s" % (density, values, index)
            out.append((name, spec, x, encode(x, density, values, index)))
    forty = np.zeros(40, F32)  # the worked examples of docs/wire-format.md
    forty[[2, 3, 12, 20, 33]] = [254, -254, 3, 5, -1]
    for values, index in (("int8", "ef"), ("4bit", "ef"), ("2bit", "rice"), ("1bit", "rice")):
        spec = "topk:density=0.125,values=%s,index=%s" % (values, index)
        out.append(("forty", spec, forty, encode(forty, 0.125, values, index)))
    return out


HEADER = """/* Made by tools/golden_sparse.py (NumPy), never by the library: see golden_vectors.h. */
#ifndef TESTS_GOLDEN_SPARSE_H
#define TESTS_GOLDEN_SPARSE_H

#include "golden_vectors.h"

/* clang-format off */
static const struct golden_frame golden_sparse[] = {
%s};
/* clang-format on */

#endif
"""


def write():
    rows = []
    for name, spec, x, frame in vectors():
        values = wire_decode.decode_frame(frame)[1]
        rows.append('    {"%s", "%s",\n     %s,\n     %s,\n     %s},\n'
                    % (name, spec, golden_base.literal(x.astype("<f4").tobytes()), golden_base.literal(frame),
                       golden_base.literal(values.astype("<f4").tobytes())))
    with open(os.path.join(golden_base.ROOT, "tests/golden/golden_sparse.h"), "w") as file:
        file.write(HEADER % "".join(rows))
