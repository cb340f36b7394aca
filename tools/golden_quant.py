"""Vectors for int8, qsgd and terngrad: tests/golden/golden_quant.h, by NumPy from docs/wire-format.md and the methods'
papers alone. Called by make_golden.py."""
import os
import struct

import numpy as np

import wire_quant

ID = {"int8": 6, "qsgd": 7, "terngrad": 8}
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
MASK = np.uint64(0xFFFFFFFF)


def philox(counter, key, rounds):
    """Philox4x32 of counters (4 arrays), as 4 arrays of words."""
    c = [np.asarray(w, np.uint64) for w in counter]
    k0, k1 = (np.uint64(k) for k in key)
    for _ in range(rounds):
        p0, p1 = np.uint64(M0) * c[0], np.uint64(M1) * c[2]
        c = [p1 >> np.uint64(32) ^ c[1] ^ k0, p1 & MASK, p0 >> np.uint64(32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = k0 + np.uint64(W0) & MASK, k1 + np.uint64(W1) & MASK
    return c


def stream_key():
    """Of the key whose five fields are 0."""
    a = [int(w) for w in philox((0, 0, 0, 0), (0, 0), 10)]
    b = [int(w) for w in philox((a[2], a[3], 0, 1), (a[0], a[1]), 10)]
    return b[0], b[1]


def draws(n, rounds):
    """16 random bits for each element."""
    i = np.arange(n)
    block, field = i // 128 * 16 + i % 16, i % 128 // 16
    zero = np.zeros(n, np.uint64)
    words = np.stack(philox((block, zero, zero, zero), stream_key(), rounds))
    return (words[field // 2, i] >> (16 * (field % 2)).astype(np.uint64) & np.uint64(0xFFFF)).astype(np.int64)


def up_to_bf16(x):
    bits = np.float32(x).view(np.uint32).astype(np.uint64)
    return np.uint32(bits + np.uint64(0xFFFF) & np.uint64(0xFFFF0000)).view(np.float32)


def sum_sq(x):
    """Squares in 16 lanes, lanes in order."""
    lanes = [0.0] * 16
    for i, v in enumerate(x.astype(np.float64)):
        lanes[i % 16] += v * v
    total = 0.0
    for lane in lanes:
        total += lane
    return total


def variance_of(x):
    """About the mean: sums of distances from the first element, in 16 lanes. Beside NumPy's own."""
    d = x.astype(np.float64) - np.float64(x[0])
    total = 0.0
    for lane in range(16):
        part = 0.0
        for v in d[lane::16]:
            part += v
        total += part
    variance = (sum_sq(d) - total * total / len(x)) / len(x)
    assert np.isclose(variance, np.var(x.astype(np.float64)), rtol=1e-12, atol=0)
    return variance


def unit_of(x, norm, levels):
    size = np.sqrt(sum_sq(x)) if norm == "l2" else float(np.abs(x).max())
    with np.errstate(over="ignore"):
        unit = np.float32(size / levels)
    if not unit >= 2.0**-100:
        return np.float32(0)
    bits = (np.float32(3.4028234663852886e38) / np.float32(levels)).view(np.uint32) & np.uint32(0xFFFF0000)
    largest = np.uint32(bits).view(np.float32)
    return largest if unit > largest else min(up_to_bf16(unit), largest)


def round_random(x, unit, levels, random):
    t = np.rint(x * (np.float32(65536) * (np.float32(1) / unit))).astype(np.int64)
    return np.clip(t + random >> 16, -levels, levels)


def round_nearest(x, unit):
    y = x * (np.float32(1) / unit)
    return np.rint(np.clip(y, -127, 127)).astype(np.int64)


def pack(codes, width):
    if width == 8:
        return codes.astype(np.int8).tobytes()
    out = []
    for begin in range(0, len(codes), 512):
        block = codes[begin:begin + 512] & (1 << width) - 1
        for at, w in wire_quant.planes(width):
            for e in range(0, len(block), 512 // w):
                group = block[e:e + 512 // w] >> at & (1 << w) - 1
                words = [0] * -(-len(group) * w // 32)
                for i, bits in enumerate(group):
                    words[i % len(words)] |= int(bits) << w * (i // len(words))
                out.append(struct.pack("<%dI" % len(words), *words))
    return b"".join(out)


def gamma(v):
    low = v.bit_length() - 1
    return [0] * low + [1] + [v >> j & 1 for j in range(low)]


def elias(codes):
    """Of one chunk: its length and its code."""
    bits, following = [], 0
    for i in np.flatnonzero(codes):
        bits += gamma(int(i) - following + 1) + [int(codes[i] < 0)] + gamma(abs(int(codes[i])))
        following = int(i) + 1
    bits += gamma(len(codes) - following + 1)
    code = np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()
    return struct.pack("<I", len(code)) + code


def head(codec, form, aux, n, payload):
    return struct.pack("<BBHII", ID[codec], form, aux, n, len(payload)) + payload


def choose(codec, aux, values, codes, payload):
    """The form of a frame."""
    n = len(values)
    if not codes.any():
        return head(codec, 2, 0, n, b"")
    if len(payload) >= 4 * n:
        return head(codec, 1, 0, n, values.astype("<f4").tobytes())
    return head(codec, 0, aux, n, payload)


def encode_buckets(codec, x, width, levels, norm="max", bucket=512, rounds=0, coding="fixed"):
    n = len(x)
    random = draws(n, rounds) if rounds else None
    units, codes = [], np.zeros(n, np.int64)
    for b in range(0, n, bucket):
        part = slice(b, min(n, b + bucket))
        unit = unit_of(x[part], norm, levels)
        units.append(unit)
        if unit > 0:
            codes[part] = round_random(x[part], unit, levels, random[part]) if rounds else round_nearest(x[part], unit)
    units = np.array(units, np.float32)
    values = codes.astype(np.float32) * np.repeat(units, bucket)[:n]
    unit_bytes = (units.view(np.uint32) >> 16).astype("<u2").tobytes()
    aux = 0 if codec == "int8" else width | (bucket // 512).bit_length() - 1 << 4
    payload = unit_bytes + pack(codes, width)
    if coding == "elias" and 0 < len(payload) < 4 * n:
        code = elias(codes)
        if len(unit_bytes) + len(code) < len(payload):
            payload, aux = unit_bytes + code, aux | 128
    return choose(codec, aux, values, codes, payload)


def encode_terngrad(x, clip, rounds):
    n = len(x)
    if n == 0:
        return head("terngrad", 2, 0, 0, b"")
    scale = np.abs(x).max()
    variance = variance_of(x)
    with np.errstate(over="ignore"):
        limit = np.float32(clip * np.sqrt(variance)) if clip and variance > 0 else np.float32(np.inf)
    scale = min(scale, limit)
    codes = np.zeros(n, np.int64)
    if scale >= 2.0**-100:
        codes = round_random(np.clip(x, -scale, scale), scale, 1, draws(n, rounds))
    payload = struct.pack("<IIf", 1, n, scale) + pack(codes, 2)
    return choose("terngrad", 0, codes.astype(np.float32) * scale, codes, payload)


def encode(spec, x):
    name, _, text = spec.partition(":")
    keys = dict(pair.split("=") for pair in text.split(",") if pair)
    rounds = int(keys.get("rounds", 7))
    if name == "int8":
        return encode_buckets("int8", x, 8, 127)
    if name == "terngrad":
        return encode_terngrad(x, float(keys.get("clip", 2.5)), rounds)
    width = int(keys.get("bits", 4))
    levels = int(keys.get("levels", 0)) or (1 << width - 1) - 1
    return encode_buckets("qsgd", x, width, levels, keys.get("norm", "max"), int(keys.get("bucket", 512)), rounds,
                          keys.get("coding", "fixed"))


SPECS = ["int8", "qsgd", "qsgd:bits=2,norm=l2", "qsgd:bits=3", "qsgd:bits=5,rounds=10", "qsgd:bits=6,norm=l2,levels=16",
         "qsgd:bits=7,bucket=1024", "qsgd:bits=8", "qsgd:norm=l2,coding=elias", "terngrad", "terngrad:clip=0,rounds=10"]

HEADER = """/* Made by tools/make_golden.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32,
 * but for the last, which is 16-bit integers over 4096, and without decoded values: strings end at 4095 characters. */
#ifndef TESTS_GOLDEN_QUANT_H
#define TESTS_GOLDEN_QUANT_H

/* clang-format off */
static const char *const golden_quant_x[] = {
%s};

static const struct golden_quant {
    const char *spec;
    int x; /* of golden_quant_x */
    const char *frame, *decoded;
} golden_quant[] = {
%s};
/* clang-format on */

#endif
"""


def write(root, inputs, decode_frame, literal):
    """inputs: {name: vector}. Also seeds for the fuzz target of frames."""
    rng = np.random.Generator(np.random.PCG64(21))
    inputs = {name: inputs[name] for name in ("empty", "one", "zeros", "example", "hand", "ties", "sparse", "wild")}
    inputs["pair"] = inputs["example"][:2]
    inputs["long"] = np.rint(rng.laplace(size=600) * 1000).astype(np.float32) / np.float32(4096)  # see HEADER
    rows = []
    for i, (name, x) in enumerate(inputs.items()):
        for spec in SPECS:
            frame = encode(spec, x)
            _, values = decode_frame(frame)
            rows.append('    {"%s", %d,\n     %s,\n     %s},\n'
                        % (spec, i, literal(frame),
                           literal(b"" if name == "long" else values.astype("<f4").tobytes())))
            if name in ("example", "sparse"):
                title = "golden_%s_%s" % (name, "".join(c if c.isalnum() else "_" for c in spec))
                with open(os.path.join(root, "tests/fuzz/corpus/fuzz_frame", title), "wb") as file:
                    file.write(frame)
    vectors = "".join("    %s,\n" % literal((x * 4096).astype("<i2").tobytes() if name == "long" else
                                            x.astype("<f4").tobytes()) for name, x in inputs.items())
    with open(os.path.join(root, "tests/golden/golden_quant.h"), "w") as file:
        file.write(HEADER % (vectors, "".join(rows)))
