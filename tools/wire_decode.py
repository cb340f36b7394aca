#!/usr/bin/env python3
"""Decode telegrad messages and frames, from docs/wire-format.md alone (NumPy, no library code).

    wire_decode.py FILE              a message (envelope + frame) or a bare frame, as bytes
    wire_decode.py - < hex           the same as hexadecimal text on standard input
    wire_decode.py --json FILE       the head and all values as JSON

Exit status 1 if the bytes are not valid; the reason goes to standard error."""
import argparse
import json
import struct
import sys

import numpy as np

import wire_atomo
import wire_blocks
import wire_quant
import wire_signs
import wire_sparse
import wire_twobit

CODECS = {1: "f32", 2: "fp16", 3: "bf16", 4: "topk", 5: "2bit", 6: "int8", 7: "qsgd", 8: "terngrad", 9: "sign",
          10: "1bit", 11: "strom", 12: "adacomp", 13: "atomo", 14: "blocktopk", 15: "dct"}
FORMS = {0: "coded", 1: "dense", 2: "zero"}
FLAGS = {1: "NONFINITE", 2: "STOP", 4: "CLOSES", 8: "SPOILS", 16: "WISH"}
INDEX_CODINGS = {0: "raw", 1: "bitmap", 2: "rice", 3: "ef"}


class Invalid(Exception):
    pass


def need(condition, reason):
    if not condition:
        raise Invalid(reason)


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# ---- envelope ----

ENVELOPE = struct.Struct("<4sHHQQIHHHHQI")


def open_envelope(message):
    """(fields, payload) of a message."""
    need(len(message) >= ENVELOPE.size, "message of %d bytes: at least %d" % (len(message), ENVELOPE.size))
    (magic, version, flags, session, step, sender, bucket, round_, slice_, channel, length,
     crc) = ENVELOPE.unpack_from(message)
    payload = message[ENVELOPE.size:]
    need(magic == b"TGE1", "magic %r" % magic)
    need(version == 3, "version %d" % version)
    need(length == len(payload), "payload length %d, %d bytes there" % (length, len(payload)))
    need(crc == crc32c(message[:44] + payload), "checksum %08x, should be %08x" % (crc, crc32c(message[:44] + payload)))
    need(flags & ~31 == 0, "flags %#x" % flags)
    fields = {"version": version, "flags": [name for bit, name in FLAGS.items() if flags & bit],
              "session": "%016x" % session, "step": step, "sender": sender, "bucket": bucket, "round": round_,
              "slice": slice_, "channel": channel, "payload_bytes": length, "crc32c": "%08x" % crc}
    return fields, payload


# ---- index lists ----

def decode_raw(param, n, k, code):
    need(param == 0, "raw indices: parameter %d" % param)
    need(len(code) == 4 * k, "raw indices: %d bytes for k=%d" % (len(code), k))
    return np.frombuffer(code, "<u4").astype(np.int64)


def decode_bitmap(param, n, k, code):
    need(param == 0, "bitmap: parameter %d" % param)
    need(len(code) == (n + 7) // 8, "bitmap: %d bytes for n=%d" % (len(code), n))
    indices = np.flatnonzero(np.unpackbits(np.frombuffer(code, np.uint8), bitorder="little"))
    need(len(indices) == k, "bitmap: %d bits are set, k=%d" % (len(indices), k))
    return indices


def decode_rice(param, n, k, code):
    bits = np.unpackbits(np.frombuffer(code, np.uint8), bitorder="little")
    ones = np.flatnonzero(bits)
    weights = 1 << np.arange(param, dtype=np.int64)
    indices, position, following = [], 0, 0
    for _ in range(k):
        at = np.searchsorted(ones, position)
        need(at < len(ones), "Rice code: ends within a quotient")
        end = int(ones[at]) + 1 + param
        need(end <= len(bits), "Rice code: ends within a remainder")
        gap = ((int(ones[at]) - position) << param) + int(bits[end - param:end] @ weights if param else 0)
        indices.append(following + gap)
        following += gap + 1
        position = end
    need((position + 7) // 8 == len(code), "Rice code: %d bytes, %d bits used" % (len(code), position))
    need(not bits[position:].any(), "Rice code: padding is not zero")
    return np.array(indices, np.int64)


def decode_indices(coding, param, n, k, code):
    need(coding in INDEX_CODINGS, "index coding %d" % coding)
    if coding == 3:
        indices = wire_sparse.decode_elias_fano(need, param, n, k, code)
    else:
        indices = (decode_raw, decode_bitmap, decode_rice)[coding](param, n, k, code)
    need((np.diff(indices) > 0).all() and (indices < n).all(), "indices do not ascend below n")
    return indices


# ---- frames ----

def decode_half(info, n, payload):
    need(info["aux"] == 0 and len(payload) == 2 * n, "16-bit payload: %d bytes for n=%d" % (len(payload), n))
    values = np.frombuffer(payload, "<f2").astype(np.float32)
    values.view(np.uint32)[np.isnan(values)] |= 1 << 22  # NaNs become quiet
    return values


def decode_bf16(info, n, payload):
    need(info["aux"] == 0 and len(payload) == 2 * n, "16-bit payload: %d bytes for n=%d" % (len(payload), n))
    return (np.frombuffer(payload, "<u2").astype(np.uint32) << 16).view(np.float32)


def decode_topk(info, n, payload):
    aux = info["aux"]
    values, index, param = aux & 15, aux >> 4 & 15, aux >> 8 & 31
    need(aux >> 13 == 0, "aux %#x" % aux)
    need(len(payload) >= 4, "payload of %d bytes" % len(payload))
    k = struct.unpack_from("<I", payload)[0]
    need(1 <= k <= n, "k=%d of n=%d" % (k, n))
    name, kept, used = wire_sparse.read_values(need, values, k, payload[4:])
    indices = decode_indices(index, param, n, k, payload[4 + used:])
    info.update(k=k, values=name, index=INDEX_CODINGS[index])
    if INDEX_CODINGS[index] == "rice":
        info["rice_parameter"] = param
    x = np.zeros(n, np.float32)
    x[indices] = kept
    return x


def decode_levels(info, n, payload):
    need(info["aux"] & 15 == 6, "aux %#x: values of coding 6" % info["aux"])
    return decode_topk(info, n, payload)


CODED = {
    2: decode_half,
    3: decode_bf16,
    4: decode_topk,
    5: lambda info, n, payload: wire_twobit.decode_twobit(need, info, n, payload),
    11: decode_levels,
    12: decode_levels,
    13: lambda info, n, payload: wire_atomo.decode_atomo(info, n, payload, need),
    14: lambda info, n, payload: wire_blocks.decode_blocks(info, n, payload, need),
    15: lambda info, n, payload: wire_blocks.decode_blocks(info, n, payload, need),
}
CODED.update(wire_quant.coded(need))
CODED.update({9: lambda *frame: wire_signs.decode_sign(need, *frame),
              10: lambda *frame: wire_signs.decode_onebit(need, *frame)})


def decode_frame(frame):
    """(head, values) of a frame."""
    need(len(frame) >= 12, "frame of %d bytes: at least 12" % len(frame))
    codec, form, aux, n, length = struct.unpack_from("<BBHII", frame)
    payload = frame[12:]
    need(length == len(payload), "payload length %d, %d bytes there" % (length, len(payload)))
    need(codec in CODECS, "codec id %d" % codec)
    need(form in FORMS, "form %d" % form)
    need(n <= 1 << 29, "%d elements: at most 2^29" % n)
    info = {"codec": CODECS[codec], "form": FORMS[form], "aux": aux, "n": n, "payload_bytes": length}
    if form == 2:
        need(aux == 0 and length == 0, "zero form: aux %#x, %d bytes" % (aux, length))
        return info, np.zeros(n, np.float32)
    if form == 1:
        need(aux == 0 and length == 4 * n, "dense form: aux %#x, %d bytes for n=%d" % (aux, length, n))
        return info, np.frombuffer(payload, "<f4").astype(np.float32)
    need(codec in CODED, "codec %s has no coded form" % CODECS[codec])
    return info, CODED[codec](info, n, payload)


def decode(data):
    """(envelope fields or None, frame head, values) of a message or a bare frame."""
    envelope = None
    if data[:4] == b"TGE1":
        envelope, data = open_envelope(data)
    info, values = decode_frame(data)
    return envelope, info, values


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="bytes; -: hexadecimal text on standard input")
    parser.add_argument("--json", action="store_true", help="head and all values as JSON")
    args = parser.parse_args()
    if args.file == "-":
        data = bytes.fromhex("".join(sys.stdin.read().split()))
    else:
        with open(args.file, "rb") as file:
            data = file.read()
    try:
        envelope, info, values = decode(data)
    except Invalid as error:
        sys.exit("invalid: %s" % error)
    if args.json:
        listed = [float(v) if np.isfinite(v) else str(v) for v in values]
        print(json.dumps({"envelope": envelope, "frame": info, "values": listed}))
        return
    for title, fields in (("envelope", envelope), ("frame", info)):
        if fields is not None:
            print(title + ": " + ", ".join("%s=%s" % pair for pair in fields.items()))
    kept = np.flatnonzero(values)
    print("values: %d, of which %d are not 0" % (len(values), len(kept)))
    for i in kept[:50]:
        print("  [%d] %.9g" % (i, values[i]))
    if len(kept) > 50:
        print("  ... %d more" % (len(kept) - 50))


if __name__ == "__main__":
    main()
