"""Vectors of blocktopk and dct, by NumPy from docs/wire-format.md alone.

make_golden.py calls write(); what stands in tests/golden/golden_blocks.h is never made by the library."""
import os
import struct

import numpy as np

import wire_blocks
import wire_decode

F32 = np.float32
ID = {"blocktopk": 14, "dct": 15}
CODING = {"f32": 0, "fp16": 1, "2bit": 2}

HEADER = """/* Made by tools/make_golden.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32. */
#ifndef TESTS_GOLDEN_BLOCKS_H
#define TESTS_GOLDEN_BLOCKS_H

/* clang-format off */
static const struct golden_blocks {
    const char *spec;
    unsigned rows[4], cols[4]; /* of the tensors, to the first of no rows */
    const char *x, *frame, *decoded;
} golden_blocks[] = {
%s};
/* clang-format on */

#endif
"""


def head(codec, form, aux, n, payload):
    return struct.pack("<BBHII", ID[codec], form, aux, n, len(payload)) + payload


def forward(x):
    height, width = x.shape
    half = wire_blocks.product(x, wire_blocks.basis(height).T)
    return wire_blocks.product(half, wire_blocks.basis(width).T)


def largest(x, kept):
    """Places of the largest, ties to the first."""
    return np.sort(np.lexsort((np.arange(len(x)), -np.abs(x)))[:kept])


def pack(bits):
    return np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()


def two_bits(values):
    v = values.astype(np.float64)
    mean = sum(v) / len(v)
    width = 6.0 * np.sqrt(sum((v - mean) ** 2) / max(len(v) - 1, 1)) / 4
    code = np.clip(np.rint((v - mean) / width + 2), 0, 3).astype(int) if width > 0 else np.full(len(v), 2)
    table = np.array([sum(v[code == c]) / max(np.count_nonzero(code == c), 1) for c in range(4)]).astype(F32)
    return table.astype("<f4").tobytes() + pack([code[i] >> b & 1 for i in range(len(v)) for b in range(2)])


def encode(codec, setting, tensors):
    """The frame of matrices."""
    keep, values = setting["keep"], setting["values"]
    heads, body = b"", b""
    for x in tensors:
        kept, places = [], []
        for r, c, h, w in wire_blocks.blocks(*x.shape):
            block = x[r:r + h, c:c + w]
            flat = (forward(block) if codec == "dct" else block).ravel()
            place = largest(flat, min(keep, h * w))
            kept.append(flat[place])
            bits = wire_blocks.index_bits(h * w, len(place))
            places += [int(p) >> b & 1 for p in place for b in range(bits)]
        kept = np.concatenate(kept)
        heads += struct.pack("<II", *x.shape)
        body += two_bits(kept) if values == "2bit" else kept.astype("<f2" if values == "fp16" else "<f4").tobytes()
        body += pack(places)
    payload = struct.pack("<II", len(tensors), keep) + heads + body
    whole = np.concatenate([x.ravel() for x in tensors])
    if len(payload) >= 4 * len(whole):
        return head(codec, 1, 0, len(whole), whole.astype("<f4").tobytes())
    return head(codec, 0, CODING[values], len(whole), payload)


def cases():
    random = np.random.default_rng(14)
    shapes = [[(67, 5), (30, 1), (1, 1)], [(8, 30), (70, 1)], [(2, 1)]]
    yield "blocktopk", {"keep": 64, "values": "2bit"}, [random.standard_normal((20, 25)).astype(F32)]
    for codec, values in (("blocktopk", "2bit"), ("blocktopk", "f32"), ("blocktopk", "fp16"), ("dct", "f32"), ("dct", "fp16")):
        for keep, shape in zip((7, 20, 1), shapes):
            yield codec, {"keep": keep, "values": values}, [(random.standard_normal(s) ** 3).astype(F32) for s in shape]


def write(root, literal):
    rows = []
    for codec, setting, tensors in cases():
        frame = encode(codec, setting, tensors)
        spec = "%s:keep=%d,values=%s" % (codec, setting["keep"], setting["values"])
        x = np.concatenate([t.ravel() for t in tensors])
        decoded = wire_decode.decode_frame(frame)[1]
        sides = ["{%s}" % ", ".join("%d" % t.shape[i] for t in tensors) for i in range(2)]
        rows.append('    {"%s", %s, %s,\n     %s,\n     %s,\n     %s},\n'
                    % (spec, sides[0], sides[1], literal(x.astype("<f4").tobytes()), literal(frame),
                       literal(decoded.astype("<f4").tobytes())))
    with open(os.path.join(root, "tests/golden/golden_blocks.h"), "w") as file:
        file.write(HEADER % "".join(rows))
