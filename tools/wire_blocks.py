"""The coded form of blocktopk and dct frames, from docs/wire-format.md alone (see wire_decode.py)."""
import struct

import numpy as np

F32 = np.float32
VALUES = {0: "f32", 1: "fp16", 2: "2bit"}


def side(d):
    """The length of a dimension's pieces."""
    divisor = max(s for s in range(1, min(d, 64) + 1) if d % s == 0)
    return 64 if d > 64 and divisor < 16 else divisor


def blocks(rows, cols):
    """(row, col, height, width) of each block."""
    high, wide = side(rows), side(cols)
    return [(r, c, min(high, rows - r), min(wide, cols - c)) for r in range(0, rows, high) for c in range(0, cols, wide)]


def index_bits(size, kept):
    return 0 if kept == size else (size - 1).bit_length()


def series(x, odd):
    term = x if odd else 1.0
    total = term
    for j in range(1 + odd, 21, 2):
        term *= -x * x / float(j * (j + 1))
        total += term
    return total


def cosine(k, n):
    k %= 4 * n
    k = min(k, 4 * n - k)
    negative = k > n
    k = min(k, 2 * n - k)
    if 2 * k <= n:
        value = series(np.pi * float(k) / float(2 * n), 0)
    else:
        value = series(np.pi * float(n - k) / float(2 * n), 1)
    return -value if negative else value


BASIS = {}


def basis(n):
    if n not in BASIS:
        BASIS[n] = np.array([[np.sqrt((1.0 if u == 0 else 2.0) / float(n)) * cosine((2 * i + 1) * u, n) for i in range(n)]
                             for u in range(n)]).astype(F32)
    return BASIS[n]


def product(left, right):
    """left[0] right[0]^T + left[1] right[1]^T + ..., every step in f32."""
    total = np.outer(left[0], right[0])
    for p, q in zip(left[1:], right[1:]):
        total = total + np.outer(p, q)
    return total


def transform_back(place, values, height, width):
    rows, cols = sorted(set(place // width)), sorted(set(place % width))
    y = np.zeros((height, width), F32)
    y.ravel()[place] = values
    half = product(y[np.ix_(rows, cols)], basis(height)[rows])
    return product(half, basis(width)[cols])


def read_values(coding, kept, data, need):
    """(values, bytes used)"""
    if coding == 0:
        used, values = 4 * kept, np.frombuffer(data[:4 * kept], "<f4").astype(F32)
    elif coding == 1:
        used, values = 2 * kept, np.frombuffer(data[:2 * kept], "<f2").astype(F32)
    else:
        used = 16 + (2 * kept + 7) // 8
        bits = np.unpackbits(np.frombuffer(data[16:used], np.uint8), bitorder="little")
        need(not bits[2 * kept:].any(), "blocks: padding bits of values are not zero")
        table = np.frombuffer(data[:16], "<f4").astype(F32)
        need(np.isfinite(table).all(), "blocks: a level is not finite")
        values = table[bits[0:2 * kept:2] + 2 * bits[1:2 * kept:2]]
    need(len(values) == kept and np.isfinite(values).all(), "blocks: values end early, or one is not finite")
    return values, used


def read_places(tensor, keep, data, need):
    """(places of each block, bytes used)"""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int64)
    places, at = [], 0
    for _, _, height, width in tensor:
        kept = min(keep, height * width)
        b = index_bits(height * width, kept)
        need(at + kept * b <= len(bits), "blocks: places end beyond the payload")
        place = bits[at:at + kept * b].reshape(kept, b) @ (1 << np.arange(b)) if b else np.arange(kept)
        need((np.diff(place) > 0).all() and place[-1] < height * width, "blocks: places do not ascend")
        places.append(place)
        at += kept * b
    used = (at + 7) // 8
    need(not bits[at:8 * used].any(), "blocks: padding bits of places are not zero")
    return places, used


def decode_blocks(info, n, payload, need):
    need(info["aux"] in VALUES and 8 <= len(payload) < 4 * n, "blocks: aux %d, %d bytes" % (info["aux"], len(payload)))
    count, keep = struct.unpack_from("<II", payload)
    at = 8 + 8 * count
    need(count >= 1 and 1 <= keep <= 4096 and at <= len(payload), "blocks: %d tensors, keep %d" % (count, keep))
    pieces = []
    for i in range(count):
        rows, cols = struct.unpack_from("<II", payload, 8 + 8 * i)
        need(rows >= 1 and cols >= 1 and rows * cols <= n, "blocks: tensor %d is %d x %d" % (i, rows, cols))
        tensor = blocks(rows, cols)
        kept = sum(min(keep, h * w) for _, _, h, w in tensor)
        values, used = read_values(info["aux"], kept, payload[at:], need)
        at += used
        places, used = read_places(tensor, keep, payload[at:], need)
        at += used
        x, first = np.zeros((rows, cols), F32), 0
        for (r, c, h, w), place in zip(tensor, places):
            block, own = np.zeros(h * w, F32), values[first:first + len(place)]
            first += len(place)
            if info["codec"] == "dct":
                block = transform_back(place, own, h, w)
            else:
                block[place] = own
            x[r:r + h, c:c + w] = block.reshape(h, w)
        pieces.append(x.ravel())
    need(at == len(payload), "blocks: %d bytes too many" % (len(payload) - at))
    x = np.concatenate(pieces)
    need(len(x) == n, "blocks: tensors of %d elements, n=%d" % (len(x), n))
    info.update(keep=keep, values=VALUES[info["aux"]])
    return x
