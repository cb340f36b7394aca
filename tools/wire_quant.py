"""Frames of int8, qsgd and terngrad, for wire_decode.py, from docs/wire-format.md alone."""
import struct

import numpy as np

CHUNK = 65536


def planes(width):
    """(bit, bits) of each plane of a block, lowest first."""
    at, out = 0, []
    while at < width:
        w = max(w for w in (4, 2, 1) if w <= width - at)
        out.append((at, w))
        at += w
    return out


def packed_bytes(n, width):
    if width == 8:
        return n
    total = 0
    for begin in range(0, n, 512):
        m = min(512, n - begin)
        for _, w in planes(width):
            group = 512 // w
            total += sum(4 * -(-min(group, m - e) * w // 32) for e in range(0, m, group))
    return total


def unpack(data, n, width, need):
    """n signed codes."""
    if width == 8:
        return np.frombuffer(data, np.int8).astype(np.int64)
    codes, offset = np.zeros(n, np.int64), 0
    for begin in range(0, n, 512):
        m = min(512, n - begin)
        for at, w in planes(width):
            group = 512 // w
            for e in range(0, m, group):
                count = min(group, m - e)
                words = -(-count * w // 32)
                word = np.frombuffer(data[offset:offset + 4 * words], "<u4").astype(np.int64)
                offset += 4 * words
                fields = np.stack([word >> w * j & (1 << w) - 1 for j in range(32 // w)]).ravel()
                need(not fields[count:].any(), "packed codes: padding is not zero")
                codes[begin + e:begin + e + count] |= fields[:count] << at
    return codes - ((codes >> width - 1) << width)


def unit_of(values, need):
    valid = np.isfinite(values) & ((values >= 2.0**-100) | (values.view(np.uint32) == 0))
    need(valid.all(), "units: must be 0, or from 2^-100 on")
    return values


def decode_elias(data, n, width, need):
    chunks = -(-n // CHUNK)
    need(len(data) >= 4 * chunks, "Elias: %d bytes" % len(data))
    lengths = struct.unpack_from("<%dI" % chunks, data)
    codes, at, most = np.zeros(n, np.int64), 4 * chunks, (1 << width - 1) - 1
    for chunk, length in enumerate(lengths):
        need(at + length <= len(data), "Elias: code of %d bytes" % length)
        bits = np.unpackbits(np.frombuffer(data[at:at + length], np.uint8), bitorder="little")
        ones = np.flatnonzero(bits)
        at += length
        end, place, position = min(CHUNK, n - chunk * CHUNK), 0, 0

        def gamma(position):
            index = np.searchsorted(ones, position)
            need(index < len(ones), "Elias: ends within a number")
            low = int(ones[index]) - position
            stop = position + 2 * low + 1
            need(stop <= len(bits), "Elias: ends within a number")
            return (1 << low) + sum(int(b) << j for j, b in enumerate(bits[stop - low:stop])), stop

        while True:
            gap, position = gamma(position)
            place += gap - 1
            need(place <= end, "Elias: code goes beyond its elements")
            if place == end:
                break
            need(position < len(bits), "Elias: ends before a sign")
            negative = bits[position]
            magnitude, position = gamma(position + 1)
            need(magnitude <= most, "Elias: code %d" % magnitude)
            codes[chunk * CHUNK + place] = -magnitude if negative else magnitude
            place += 1
        need((position + 7) // 8 == length and not bits[position:].any(), "Elias: padding")
    need(at == len(data), "Elias: %d bytes follow" % (len(data) - at))
    return codes


def buckets(n, payload, width, bucket, elias, need):
    count = -(-n // bucket)
    need(len(payload) >= 2 * count, "payload of %d bytes" % len(payload))
    units = unit_of((np.frombuffer(payload[:2 * count], "<u2").astype(np.uint32) << 16).view(np.float32), need)
    rest = payload[2 * count:]
    if elias:
        codes = decode_elias(rest, n, width, need)
    else:
        need(len(rest) == packed_bytes(n, width), "payload of %d bytes for n=%d" % (len(payload), n))
        codes = unpack(rest, n, width, need)
    unit = np.repeat(units, bucket)[:n]
    need(not codes[unit == 0].any(), "a code is not 0 where the unit is")
    return codes.astype(np.float32) * unit


def decode_int8(need, info, n, payload):
    need(info["aux"] == 0, "aux %#x" % info["aux"])
    return buckets(n, payload, 8, 512, False, need)


def decode_qsgd(need, info, n, payload):
    aux = info["aux"]
    width, bucket, elias = aux & 15, 512 << (aux >> 4 & 7), aux >> 7 & 1
    need(aux >> 8 == 0 and 2 <= width <= 8, "aux %#x" % aux)
    info.update(bits=width, bucket=bucket, coding="elias" if elias else "fixed")
    return buckets(n, payload, width, bucket, elias, need)


def decode_terngrad(need, info, n, payload):
    need(info["aux"] == 0 and len(payload) >= 4, "aux %#x, payload of %d bytes" % (info["aux"], len(payload)))
    runs = struct.unpack_from("<I", payload)[0]
    need(1 <= runs <= n and len(payload) == 4 + 8 * runs + packed_bytes(n, 2), "runs %d, n=%d" % (runs, n))
    table = np.frombuffer(payload[4:4 + 8 * runs], np.dtype([("n", "<u4"), ("scale", "<f4")]))
    need((table["n"] >= 1).all() and table["n"].sum(dtype=np.uint64) == n, "runs do not add up to n=%d" % n)
    scale = np.repeat(unit_of(table["scale"].astype(np.float32), need), table["n"])
    codes = unpack(payload[4 + 8 * runs:], n, 2, need)
    need((codes >= -1).all(), "a code is -2")
    need(not codes[scale == 0].any(), "a code is not 0 where the scale is")
    info.update(runs=runs)
    return codes.astype(np.float32) * scale


def coded(need):
    """Readers of coded forms by codec id."""
    functions = {6: decode_int8, 7: decode_qsgd, 8: decode_terngrad}
    return {codec: lambda *args, f=f: f(need, *args) for codec, f in functions.items()}
