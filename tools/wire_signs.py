"""Frames of one bit an element, for wire_decode.py: codecs sign and 1bit (docs/wire-format.md). need(condition, reason)
refuses a frame."""
import struct

import numpy as np


def unpack_bits(need, data, rows, cols):
    """(rows, cols) booleans; each row begins at a byte."""
    width = (cols + 7) // 8
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(rows, 8 * width)
    need(not bits[:, cols:].any(), "padding is not zero")
    return bits[:, :cols].astype(bool)


def read_strips(need, n, payload, values_of):
    """[(rows, cols, values, bits)] of a payload; values_of(rows, cols): how many values a strip has."""
    need(len(payload) >= 4, "payload of %d bytes" % len(payload))
    count = struct.unpack_from("<I", payload)[0]
    need(1 <= count <= (len(payload) - 4) // 8, "%d strips in %d bytes" % (count, len(payload)))
    shapes = [struct.unpack_from("<II", payload, 4 + 8 * i) for i in range(count)]
    need(all(rows > 0 and cols > 0 for rows, cols in shapes), "an empty strip")
    need(sum(rows * cols for rows, cols in shapes) == n, "strips do not cover n=%d" % n)
    at = 4 + 8 * count
    bits_at = at + 4 * sum(values_of(rows, cols) for rows, cols in shapes)
    end = bits_at + sum(rows * ((cols + 7) // 8) for rows, cols in shapes)
    need(end == len(payload), "payload of %d bytes, strips say %d" % (len(payload), end))
    strips = []
    for rows, cols in shapes:
        size, width = 4 * values_of(rows, cols), rows * ((cols + 7) // 8)
        values = np.frombuffer(payload[at:at + size], "<f4")
        need(np.isfinite(values).all(), "a value is not finite")
        strips.append((rows, cols, values, unpack_bits(need, payload[bits_at:bits_at + width], rows, cols)))
        at += size
        bits_at += width
    return strips


def decode_sign(need, info, n, payload):
    need(info["aux"] <= 1 and n > 0, "aux %#x, n=%d" % (info["aux"], n))
    if info["aux"] == 0:
        need(len(payload) == (n + 7) // 8, "sign payload of %d bytes for n=%d" % (len(payload), n))
        return np.where(unpack_bits(need, payload, 1, n)[0], np.float32(-1), np.float32(1))
    strips = read_strips(need, n, payload, lambda rows, cols: rows)
    info["strips"] = [(rows, cols) for rows, cols, _, _ in strips]
    out = []
    for _, _, scale, bits in strips:
        need(not np.signbit(scale).any(), "a scale is negative")
        scale = scale.astype(np.float32)[:, None]
        out.append(np.where(bits, np.float32(0) - scale, scale).ravel())
    return np.concatenate(out).astype(np.float32)


def decode_onebit(need, info, n, payload):
    need(info["aux"] == 0, "aux %#x" % info["aux"])
    strips = read_strips(need, n, payload, lambda rows, cols: 2 if rows == 1 else 2 * cols)
    info["strips"] = [(rows, cols) for rows, cols, _, _ in strips]
    out = []
    for _, _, values, bits in strips:
        plus, minus = np.split(values.astype(np.float32), 2)
        need((minus <= plus).all(), "minus > plus")
        out.append(np.where(bits, minus[None], plus[None]).ravel())
    return np.concatenate(out).astype(np.float32)
