"""What the writers of golden vectors share: encoders by NumPy from docs/wire-format.md alone, and the vectors of
tests/golden/golden_vectors.h (see make_golden.py)."""
import os
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire_decode  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ID = {"f32": 1, "fp16": 2, "bf16": 3, "topk": 4, "2bit": 5}


def head(codec, form, aux, n, payload):
    return struct.pack("<BBHII", ID[codec], form, aux, n, len(payload)) + payload


def dense(codec, x):
    return head(codec, 1, 0, len(x), x.astype("<f4").tobytes())


def to_half(x):
    """IEEE binary16, nearest even, finite values saturating."""
    with np.errstate(over="ignore"):
        h = x.astype(np.float16)
    return np.where(np.isinf(h), np.copysign(np.float16(65504), x), h).astype("<f2")


def to_bf16(x):
    bits = x.view(np.uint32).astype(np.uint64)
    magnitude = np.minimum(bits & 0x7FFFFFFF, 0x7F7F0000)
    rounded = (magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16
    return (bits >> 16 & 0x8000 | rounded).astype("<u2")


def pack_bits(bits):
    return np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()


def rice(indices, b):
    bits, following = [], 0
    for i in indices:
        gap = int(i) - following
        bits += [0] * (gap >> b) + [1] + [gap >> j & 1 for j in range(b)]
        following = int(i) + 1
    return pack_bits(bits), len(bits)


def code_indices(coding, indices, n):
    """(coding number, parameter, bytes); auto takes the smallest, the lowest number among equals."""
    best = min(range(32), key=lambda b: rice(indices, b)[1])
    bitmap = np.zeros((n + 7) // 8 * 8, np.uint8)
    bitmap[indices] = 1
    codes = [(0, 0, indices.astype("<u4").tobytes()), (1, 0, pack_bits(bitmap)), (2, best, rice(indices, best)[0])]
    if coding == "auto":
        return min(codes, key=lambda code: len(code[2]))
    return codes[("raw", "bitmap", "rice").index(coding)]


def encode_topk(x, density, values, index):
    n = len(x)
    if n == 0:
        return head("topk", 2, 0, 0, b"")
    k = min(n, max(1, int(np.floor(density * n + 0.5))))
    order = np.argsort(-np.abs(x), kind="stable")[:k]
    chosen = np.sort(order[x[order] != 0])
    if len(chosen) == 0:
        return head("topk", 2, 0, n, b"")
    kept = to_half(x[chosen]) if values == "fp16" else x[chosen].astype("<f4")
    coding, param, code = code_indices(index, chosen, n)
    payload = struct.pack("<I", len(chosen)) + kept.tobytes() + code
    if len(payload) >= 4 * n:
        decoded = np.zeros(n, np.float32)
        decoded[chosen] = kept.astype(np.float32)
        return dense("topk", decoded)
    return head("topk", 0, (values == "fp16") | coding << 4 | param << 8, n, payload)


def encode_half(codec, x):
    words = to_half(x) if codec == "fp16" else to_bf16(x)
    return head(codec, 0, 0, len(x), words.tobytes()) if words.view("<u2").any() else head(codec, 2, 0, len(x), b"")


def encode_twobit(x, threshold):
    threshold = np.float32(threshold)
    plus, minus = x >= threshold, x <= -threshold
    if not (plus | minus).any():
        return head("2bit", 2, 0, len(x), b"")
    payload = struct.pack("<f", threshold)
    for begin in range(0, len(x), 64):
        for plane in (plus, minus):
            payload += pack_bits(plane[begin:begin + 64])
    if len(payload) >= 4 * len(x):
        return dense("2bit", np.where(plus, threshold, np.where(minus, -threshold, 0)).astype(np.float32))
    return head("2bit", 0, 0, len(x), payload)


def seal(fields, payload):
    part = struct.pack("<4sHHQQIHHHHQ", b"TGE1", 3, fields["flags"], fields["session"], fields["step"], fields["sender"],
                       fields["bucket"], fields["round"], fields["slice"], fields["channel"], len(payload))
    return part + struct.pack("<I", wire_decode.crc32c(part + payload)) + payload


def vectors():
    rng = np.random.Generator(np.random.PCG64(20))
    laplace = lambda n: (rng.laplace(size=n) / 100).astype(np.float32)  # noqa: E731
    ties = (np.arange(45) % 3 - 1).astype(np.float32)
    sparse = np.zeros(400, np.float32)
    sparse[[5, 77, 78, 399]] = [1, -2, -0.5, 3]
    wild = (rng.normal(size=70) * 10.0 ** rng.integers(-38, 38, 70)).astype(np.float32)
    example = np.array([0.5, -3, 0, 0.25, 8, 0, -1, 0.125], np.float32)
    hand = np.array([-9, -1, 2, 6, 8, 7, 0, -5, -10, -100], np.float32)
    rare = np.zeros(500, np.float32)
    rare[499] = 1  # a long quotient
    rare[:40] = 2
    inputs = {"empty": np.zeros(0, np.float32), "one": np.array([-2.5], np.float32), "zeros": np.zeros(20, np.float32),
              "example": example, "hand": hand, "ties": ties, "sparse": sparse, "wild": wild, "rare": rare,
              "laplace": laplace(200), "laplace64": laplace(64), "laplace127": laplace(127)}
    out = []
    for name, x in inputs.items():
        out.append((name, "f32", x, dense("f32", x)))
        for codec in ("fp16", "bf16"):
            out.append((name, codec, x, encode_half(codec, x)))
        for density, values, index in ((0.01, "fp16", "auto"), (0.1, "fp16", "rice"), (0.25, "f32", "raw"),
                                       (0.5, "fp16", "bitmap"), (1, "f32", "auto")):
            spec = "topk:density=%g,values=%s,index=%s" % (density, values, index)
            out.append((name, spec, x, encode_topk(x, density, values, index)))
        for threshold in (0.01, 4):
            out.append((name, "2bit:threshold=%g" % threshold, x, encode_twobit(x, threshold)))
    three = np.zeros(20, np.float32)  # the worked example of docs/wire-format.md
    three[[2, 3, 12]] = [1, -2, 0.5]
    out.append(("three", "topk:density=0.15,values=fp16,index=rice", three, encode_topk(three, 0.15, "fp16", "rice")))
    return out


def literal(data):
    text = data.hex()
    lines = [text[i:i + 88] for i in range(0, len(text), 88)] or [""]
    return "\n     ".join('"%s"' % line for line in lines)
