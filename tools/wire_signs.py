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


def has_weights(cols):
    """Whether a matrix of 1bit, aux 1, has weights."""
    return cols >= 16


def read_strips(need, n, payload, values_of, plain=False):
    """[(rows, cols, values, bits)] of a payload; values_of(rows, cols): how many values a strip has; plain: rows may
    be 0."""
    need(len(payload) >= 4, "payload of %d bytes" % len(payload))
    count = struct.unpack_from("<I", payload)[0]
    need(1 <= count <= (len(payload) - 4) // 8, "%d strips in %d bytes" % (count, len(payload)))
    shapes = [struct.unpack_from("<II", payload, 4 + 8 * i) for i in range(count)]
    need(all(rows >= (0 if plain else 1) and cols > 0 for rows, cols in shapes), "an empty strip")
    need(sum(max(rows, 1) * cols for rows, cols in shapes) == n, "strips do not cover n=%d" % n)
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
    strips = read_strips(need, n, payload, lambda rows, cols: rows or cols, True)
    info["strips"] = [(rows, cols) for rows, cols, _, _ in strips]
    out = []
    for rows, _, scale, bits in strips:
        if rows == 0:
            out.append(scale)
            continue
        need(not np.signbit(scale).any(), "a scale is negative")
        scale = scale.astype(np.float32)[:, None]
        out.append(np.where(bits, np.float32(0) - scale, scale).ravel())
    return np.concatenate(out).astype(np.float32)


def decode_onebit(need, info, n, payload):
    need(info["aux"] <= 1, "aux %#x" % info["aux"])
    weighted = info["aux"] == 1
    strips = read_strips(need, n, payload, lambda rows, cols: cols if rows == 0 else
                         2 if rows == 1 else 2 * cols + rows * (weighted and has_weights(cols)), weighted)
    info["strips"] = [(rows, cols) for rows, cols, _, _ in strips]
    out = []
    for rows, cols, values, bits in strips:
        values, weight = values.astype(np.float32), np.float32(1)
        if rows == 0:
            out.append(values)
            continue
        if weighted and rows > 1 and has_weights(cols):
            weight, values = values[:rows, None], values[rows:]
            need(not np.signbit(weight).any(), "a weight is negative")
            need(np.isfinite(weight.max() * np.abs(values).max()), "a product is not finite")
        plus, minus = np.split(values, 2)
        need((minus <= plus).all(), "minus > plus")
        out.append((np.where(bits, minus[None], plus[None]) * weight).ravel())
    return np.concatenate(out).astype(np.float32)
