"""Sparse frames' values and Elias-Fano index lists, from docs/wire-format.md alone: a part of wire_decode.py, whose
`need(condition, reason)` the functions are given."""
import struct

import numpy as np

BLOCK = 512
VALUE_CODINGS = ("f32", "fp16", "int8", "4bit", "2bit", "1bit", "level")
SCALES = {"int8": 1, "4bit": 1, "2bit": 2, "1bit": 1}
BITS = {"int8": 8, "4bit": 4, "2bit": 2, "1bit": 1}


def fields(need, data, count, width):
    """count unsigned numbers of `width` bits, lowest bit first; the rest of the last byte is 0."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int64)
    need(not bits[count * width:].any(), "values: padding is not zero")
    return bits[:count * width].reshape(count, width) @ (1 << np.arange(width))


def signed(code, width):
    return np.where(code >= 1 << (width - 1), code - (1 << width), code)


def decode_block(need, name, scales, codes):
    """f32 values of the codes of one block."""
    zero = np.float32(0)
    if name in ("int8", "4bit"):
        code = signed(codes, BITS[name])
        need((code != -(1 << (BITS[name] - 1))).all(), "values: a code is beyond its range")
        need(scales[0] > 0 or not code.any(), "values: codes without a scale")
        return code.astype(np.float32) * scales[0]
    if name == "1bit":
        return np.where(codes == 1, -scales[0], scales[0])
    upper = codes >> 1 == 1
    need(scales[0] <= scales[1] and upper.any() and not (upper.all() and scales[0] != zero), "values: levels of nobody")
    level = np.where(upper, scales[1], scales[0])
    return np.where(codes & 1 == 1, -level, level)


def read_blocks(need, name, k, data):
    values, at = [], 0
    for begin in range(0, k, BLOCK):
        count = min(BLOCK, k - begin)
        end = at + 4 * SCALES[name] + (count * BITS[name] + 7) // 8
        need(len(data) >= end, "values: %d bytes for k=%d" % (len(data), k))
        scales = np.frombuffer(data[at:at + 4 * SCALES[name]], "<f4")
        need(np.isfinite(scales).all() and not np.signbit(scales).any(), "values: scales %r" % scales)
        codes = fields(need, data[at + 4 * SCALES[name]:end], count, BITS[name])
        values.append(decode_block(need, name, scales, codes).astype(np.float32))
        at = end
    return np.concatenate(values), at


def read_levels(need, k, data):
    need(len(data) >= 4, "values: no count of runs")
    runs = struct.unpack_from("<I", data)[0]
    signs_at = 4 + 8 * runs
    used = signs_at + (k + 7) // 8
    need(len(data) >= used, "values: %d bytes for %d runs" % (len(data), runs))
    magnitudes, before, last = np.zeros(k, np.float32), 0, None
    for j in range(runs):
        end, magnitude = struct.unpack_from("<If", data, 4 + 8 * j)
        need(before < end <= k, "values: a run that ends at %d after %d" % (end, before))
        need(0 < magnitude < float("inf") and magnitude != last, "values: magnitude %r" % magnitude)
        magnitudes[before:end] = magnitude
        before, last = end, magnitude
    need(before == k, "values: runs end at %d of %d" % (before, k))
    return np.where(fields(need, data[signs_at:used], k, 1) == 1, -magnitudes, magnitudes), used


def read_values(need, coding, k, data):
    """(name, k values as f32, bytes they take) from the beginning of data."""
    need(coding < len(VALUE_CODINGS), "value coding %d" % coding)
    name = VALUE_CODINGS[coding]
    if name == "level":
        return (name, *read_levels(need, k, data))
    if name in SCALES:
        return (name, *read_blocks(need, name, k, data))
    size = 4 if name == "f32" else 2
    need(len(data) >= size * k, "values: %d bytes for k=%d" % (len(data), k))
    return name, np.frombuffer(data[:size * k], "<f%d" % size).astype(np.float32), size * k


def elias_fano_shape(n, k):
    """Low bits of an index, bytes of the code."""
    low = (n // k).bit_length() - 1
    return low, (k * (low + 1) + (n >> low) + 1 + 7) // 8


def decode_elias_fano(need, param, n, k, code):
    need(param == 0, "Elias-Fano: parameter %d" % param)
    low, size = elias_fano_shape(n, k)
    need(len(code) == size, "Elias-Fano: %d bytes for %d of %d" % (len(code), k, n))
    bits = np.unpackbits(np.frombuffer(code, np.uint8), bitorder="little").astype(np.int64)
    lower = bits[:k * low].reshape(k, low) @ (1 << np.arange(low))
    ones = np.flatnonzero(bits[k * low:])
    need(len(ones) == k, "Elias-Fano: %d bits are set, k=%d" % (len(ones), k))
    return (ones - np.arange(k) << low) + lower
