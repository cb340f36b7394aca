"""2bit frames, from docs/wire-format.md alone: a part of wire_decode.py, whose `need(condition, reason)` the functions are given."""
import struct

import numpy as np


def check_threshold(need, value):
    need(0 < value < float("inf"), "threshold %r" % value)


def read_runs(need, count, last, data):
    """[(end, f32)] of `count` runs at the beginning of data; the ends ascend to `last`."""
    need(len(data) >= 8 * count, "%d bytes for %d runs" % (len(data), count))
    runs = [struct.unpack_from("<If", data, 8 * j) for j in range(count)]
    ends = [0] + [end for end, _ in runs]
    need(all(a < b for a, b in zip(ends, ends[1:])) and ends[-1] == last, "runs end at %r of %d" % (ends[1:], last))
    for _, value in runs:
        check_threshold(need, value)
    return runs


def plane_bytes(n):
    return n // 64 * 16 + (n % 64 + 7) // 8 * 2


def decode_planes(need, n, threshold, planes):
    """n values; planes has exactly their bytes."""
    x = np.zeros(n, np.float32)
    for begin in range(0, n, 64):
        count = min(64, n - begin)
        width = (count + 7) // 8
        at = begin // 64 * 16
        plus, minus = (np.unpackbits(np.frombuffer(planes[p:p + width], np.uint8), bitorder="little")
                       for p in (at, at + width))
        need(not (plus & minus).any(), "2bit: a bit is set in both planes")
        need(not (plus[count:] | minus[count:]).any(), "2bit: padding is not zero")
        x[begin:begin + count][plus[:count] == 1] = threshold
        x[begin:begin + count][minus[:count] == 1] = -threshold
    return x


def decode_twobit(need, info, n, payload):
    """Both forms of codec 5."""
    need(info["aux"] in (0, 1), "aux %#x" % info["aux"])
    need(len(payload) >= 4, "payload of %d bytes" % len(payload))
    if info["aux"] == 0:
        runs, at = [(n, struct.unpack_from("<f", payload)[0])], 4
        check_threshold(need, runs[0][1])
    else:
        count = struct.unpack_from("<I", payload)[0]
        need(count >= 2, "%d runs" % count)
        runs, at = read_runs(need, count, n, payload[4:]), 4 + 8 * count
    pieces, begin = [], 0
    for end, threshold in runs:
        size = plane_bytes(end - begin)
        need(len(payload) >= at + size, "2bit payload of %d bytes for n=%d" % (len(payload), n))
        pieces.append(decode_planes(need, end - begin, threshold, payload[at:at + size]))
        at, begin = at + size, end
    need(at == len(payload), "2bit payload of %d bytes for n=%d" % (len(payload), n))
    info["thresholds"] = [threshold for _, threshold in runs]
    return np.concatenate(pieces)
