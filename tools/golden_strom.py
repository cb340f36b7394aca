"""Vectors of strom, adacomp and 2bit with several thresholds, by NumPy from docs/wire-format.md alone.

make_golden.py calls write(); what stands in tests/golden/golden_strom.h is never made by the library."""
import os
import struct

import numpy as np

import golden_base
import wire_decode

F32 = np.float32
ID = {"2bit": 5, "strom": 11, "adacomp": 12}


def head(codec, form, aux, n, payload):
    return struct.pack("<BBHII", ID[codec], form, aux, n, len(payload)) + payload


def pieces(x, cuts):
    begin = 0
    for length in cuts:
        yield begin, x[begin:begin + length]
        begin += length


def estimate(x, target):
    """rms(x) / sqrt(target), sums in 16 lanes of f64, rounded down to 8 bits of significand."""
    lanes = np.zeros(16)
    for i, v in enumerate(x):
        lanes[i % 16] += float(v) * float(v)
    total = 0.0
    for lane in lanes:
        total += lane
    t = F32(min(max(np.sqrt(total / (len(x) * target)), float(F32(1e-30))), float(F32(1e30))))
    return np.array([t], F32).view(np.uint32)[0] & 0xFFFF0000


def threshold_of(x, setting):
    if "threshold" in setting:
        return F32(setting["threshold"])
    if setting.get("start", 0) > 0:
        bits = np.array([setting["start"]], F32).view(np.uint32) & 0xFFFF0000
    else:
        bits = np.array([estimate(x, setting["target"])], np.uint32)
    return bits.view(F32)[0]


def dense_or(codec, aux, payload, decoded):
    n = len(decoded)
    if not decoded.any():
        return head(codec, 2, 0, n, b"")
    if len(payload) >= 4 * n:
        return head(codec, 1, 0, n, decoded.astype("<f4").tobytes())
    return head(codec, 0, aux, n, payload)


def ternary(x, t):
    return np.where(x >= t, t, np.where(x <= -t, -t, F32(0))).astype(F32)


def scores(x, g, setting):
    ahead = F32(setting.get("lookahead", 1))
    return x + ahead * g if ahead else x


def encode_twobit(x, g, cuts, setting):
    runs, decoded, planes, score = [], [], b"", scores(x, g, setting)
    for begin, part in pieces(x, cuts):
        t = threshold_of(part, setting)
        runs.append((begin + len(part), t))
        decoded.append(ternary(score[begin:begin + len(part)], t))
        for at in range(0, len(part), 64):
            for plane in (decoded[-1][at:at + 64] > 0, decoded[-1][at:at + 64] < 0):
                planes += golden_base.pack_bits(plane)
    if len(runs) == 1:
        table = struct.pack("<f", runs[0][1])
    else:
        table = struct.pack("<I", len(runs)) + b"".join(struct.pack("<If", *run) for run in runs)
    return dense_or("2bit", int(len(runs) > 1), table + planes, np.concatenate(decoded))


def encode_levels(codec, decoded, index):
    """A frame of few magnitudes."""
    n, indices = len(decoded), np.flatnonzero(decoded)
    if len(indices) == 0:
        return head(codec, 2, 0, n, b"")
    values = decoded[indices]
    changes = np.flatnonzero(np.diff(np.abs(values))) + 1
    ends = [*changes.tolist(), len(values)]
    payload = struct.pack("<II", len(values), len(ends))
    payload += b"".join(struct.pack("<If", end, abs(values[end - 1])) for end in ends)
    payload += golden_base.pack_bits(values < 0)
    coding, param, code = golden_base.code_indices(index, indices, n)
    return dense_or(codec, 6 | coding << 4 | param << 8, payload + code, decoded)


def encode_strom(x, g, cuts, setting):
    score = scores(x, g, setting)
    parts = [ternary(score[begin:begin + len(part)], threshold_of(part, setting)) for begin, part in pieces(x, cuts)]
    return encode_levels("strom", np.concatenate(parts), setting.get("index", "auto"))


def encode_adacomp(x, g, cuts, setting):
    decoded = np.zeros(len(x), F32)
    for begin, part in pieces(x, cuts):
        lifted, total, bins = np.abs(part + g[begin:begin + len(part)]), 0.0, 0
        chosen = np.zeros(len(part), bool)
        for at in range(0, len(part), setting["bin"]):
            end = at + setting["bin"]
            top = np.abs(part[at:end]).max()
            total += float(top)
            bins += top > 0
            chosen[at:end] = (lifted[at:end] >= top) & (part[at:end] != 0)
        if bins:
            decoded[begin:begin + len(part)] = np.where(chosen, np.copysign(F32(total / bins), part), F32(0))
    return encode_levels("adacomp", decoded, setting.get("index", "auto"))


def text(setting):
    words = {"threshold": "auto", **setting} if "start" in setting or "target" in setting else dict(setting)
    return ",".join("%s=%s" % (k, v if isinstance(v, str) else "%g" % v) for k, v in words.items())


def vectors():
    rng = np.random.Generator(np.random.PCG64(23))
    laplace = lambda n: (rng.laplace(size=n) / 100).astype(F32)  # noqa: E731
    layers = laplace(140)
    layers[60:110] *= 1000
    hand = np.array([-9, -1, 2, 6, 8, 7, 0, -5, -10, -100], F32)
    zeros = np.zeros(30, F32)
    some = np.zeros(90, F32)
    some[[3, 40, 41, 77]] = [1, -2, 0.5, -0.25]
    inputs = {"hand": (hand, [10]), "hand_cut": (hand, [3, 7]), "one": (np.array([-2.5], F32), [1]),
              "zeros": (zeros, [20, 10]), "some": (some, [40, 50]), "layers": (layers, [60, 50, 30]),
              "tiny": (laplace(12), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), "flat": (layers, [140])}
    ternaries = ({"threshold": 4}, {"threshold": 0.01}, {"start": 0.5, "target": 0.1}, {"start": 0, "target": 0.1})
    for name, (x, cuts) in inputs.items():
        for setting in ternaries:
            used = [len(x)] if "threshold" in setting else cuts  # a fixed threshold makes one run
            plain, g = {**setting, "lookahead": 0}, (x * laplace(len(x)) * 60).astype(F32)
            yield name, "2bit:" + text(plain), x, x, cuts, encode_twobit(x, x, used, plain)
            for index in ("auto", "bitmap"):
                plain["index"] = index
                yield name, "strom:" + text(plain), x, x, cuts, encode_strom(x, x, used, plain)
            for ahead in ({}, {"lookahead": 2.5}) if len(x) < 90 else ({},):
                setting = {**setting, **ahead}
                yield name, "2bit:" + text(setting), x, g, cuts, encode_twobit(x, g, used, setting)
                yield name, "strom:" + text(setting), x, g, cuts, encode_strom(x, g, used, setting)
        for size, index in ((4, "auto"), (50, "raw"), (500, "rice")):
            setting, g = {"bin": size, "index": index}, (x * laplace(len(x)) * 60).astype(F32)
            yield name, "adacomp:" + text(setting), x, g, cuts, encode_adacomp(x, g, cuts, setting)
            yield name, "adacomp:" + text(setting), x, x, cuts, encode_adacomp(x, x, cuts, setting)


HEADER = """/* Made by tools/golden_strom.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32; cuts
 * are the lengths of the tensors. */
#ifndef TESTS_GOLDEN_STROM_H
#define TESTS_GOLDEN_STROM_H

#include <stddef.h>

/* clang-format off */
static const struct golden_strom {
    const char *name, *spec, *x, *gradient, *frame, *decoded;
    size_t cuts[12];
} golden_strom[] = {
%s};
/* clang-format on */

#endif
"""


def write():
    rows = []
    for name, spec, x, g, cuts, frame in vectors():
        _, values = wire_decode.decode_frame(frame)
        data = [golden_base.literal(part) for part in (x.astype("<f4").tobytes(), g.astype("<f4").tobytes(), frame,
                                                       values.astype("<f4").tobytes())]
        rows.append('    {"%s", "%s",\n     %s,\n     {%s}},\n' % (name, spec, ",\n     ".join(data),
                                                                   ", ".join(map(str, cuts))))
    with open(os.path.join(golden_base.ROOT, "tests/golden/golden_strom.h"), "w") as file:
        file.write(HEADER % "".join(rows))
