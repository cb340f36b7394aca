#!/usr/bin/env python3
"""tools/wire_decode.py reads every frame that the library writes, to the same bits.

    wire_decode_test.py WIRE_DUMP TOOLS_FOLDER      exit status 77: skipped"""
import os
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("SKIP: wire_decode_test: this Python has no numpy")
    sys.exit(77)

dump, tools = sys.argv[1], sys.argv[2]
sys.path.insert(0, tools)
import wire_decode  # noqa: E402


def records(data):
    at = 0
    while at < len(data):
        size, = struct.unpack_from("<I", data, at)
        frame = data[at + 4:at + 4 + size]
        n, = struct.unpack_from("<I", data, at + 4 + size)
        at += 8 + size
        yield frame, np.frombuffer(data[at:at + 4 * n], "<u4")
        at += 4 * n


def check_command_line(message):
    script = os.path.join(tools, "wire_decode.py")
    run = subprocess.run([sys.executable, script, "--json", "-"], input=message.hex(), text=True, capture_output=True)
    assert run.returncode == 0 and '"values"' in run.stdout, run
    damaged = message[:-1] + bytes([message[-1] ^ 1])
    run = subprocess.run([sys.executable, script, "-"], input=damaged.hex(), text=True, capture_output=True)
    assert run.returncode == 1 and "checksum" in run.stderr, run


def check_by_hand():
    """Frames that the library does not write, but reads, and one that it refuses."""
    quiet = wire_decode.decode(bytes.fromhex("020000000100000002000000ac7d"))[2].view(np.uint32)
    assert quiet.tolist() == [0x7ff58000], quiet
    assert len(wire_decode.decode(bytes.fromhex("0500000000000000040000000000803f"))[2]) == 0
    try:
        wire_decode.decode(bytes.fromhex("010200000100002000000000"))
    except wire_decode.Invalid as error:
        assert "536870913 elements: at most 2^29" in str(error), error
    else:
        raise AssertionError("more than 2^29 elements")


def check_examples(text):
    """Every frame that the document shows is one."""
    found = []
    for block in re.findall(r"(?:^    .+\n)+", text, re.M):
        code = [match[1] for match in re.finditer(r"^    ((?:[0-9a-f]{2} ?)+)(?:  .*)?$", block, re.M)]
        if code and len(code[0].split()) == 12:
            found.append(wire_decode.decode(bytes.fromhex("".join(code)))[1]["codec"])
    assert len(found) >= 20 and set(found) == set(wire_decode.CODECS.values()) - {"f32", "dct"}, found


def main():
    check_by_hand()
    with open(os.path.join(tools, "..", "docs", "wire-format.md")) as file:
        check_examples(file.read())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frames")
        subprocess.run([dump, path], check=True)
        with open(path, "rb") as file:
            data = file.read()
    forms, last_message = {}, None
    for number, (frame, want) in enumerate(records(data)):
        envelope, info, values = wire_decode.decode(frame)
        where = "record %d: %r %r" % (number, envelope, info)
        assert (envelope is not None) == (number % 3 == 0), where
        assert len(values) == len(want), where
        assert (values.view(np.uint32) == want).all(), where
        forms.setdefault(info["codec"], set()).add((info["form"], info.get("index"), info.get("values")))
        last_message = frame if envelope is not None and info["payload_bytes"] > 0 else last_message
    assert set(forms) == set(wire_decode.CODECS.values()), forms
    assert len(forms["topk"]) >= 6 and len(forms["2bit"]) == 3, forms
    assert len(forms["atomo"]) == 3, forms
    assert len(forms["sign"]) == 3 and len(forms["1bit"]) == 3, forms
    check_command_line(last_message)
    print("%d records read to the same bits" % (number + 1))


main()
