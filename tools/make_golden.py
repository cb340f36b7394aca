#!/usr/bin/env python3
"""Write tests/golden/golden_vectors.h by NumPy from docs/wire-format.md alone.

    make_golden.py            run in the root of the repository

What it writes is in version control; the library is tested against it and never makes it."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_atomo  # noqa: E402
import golden_blocks  # noqa: E402
import golden_csc  # noqa: E402
import golden_powersgd  # noqa: E402
import golden_quant  # noqa: E402
import golden_signs  # noqa: E402
import golden_sparse  # noqa: E402
import golden_strom  # noqa: E402
import wire_decode  # noqa: E402
from golden_base import ROOT, literal, seal, vectors  # noqa: E402

HEADER = """/* Made by tools/make_golden.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32. */
#ifndef TESTS_GOLDEN_VECTORS_H
#define TESTS_GOLDEN_VECTORS_H

#include <stdint.h>

/* clang-format off */
static const struct golden_frame {
    const char *name, *spec, *x, *frame, *decoded;
} golden_frames[] = {
%s};

static const struct golden_message {
    uint64_t session, step;
    uint32_t sender;
    uint16_t slice, channel, flags, bucket, round;
    const char *message;
} golden_messages[] = {
%s};
/* clang-format on */

#endif
"""


def main():
    frames, seen = [], {}
    for name, spec, x, frame in vectors():
        info, values = wire_decode.decode_frame(frame)
        frames.append('    {"%s", "%s",\n     %s,\n     %s,\n     %s},\n'
                      % (name, spec, literal(x.astype("<f4").tobytes()), literal(frame),
                         literal(values.astype("<f4").tobytes())))
        if len(frame) < 300:
            seen["%s_%s" % (name, "".join(c if c.isalnum() else "_" for c in spec))] = frame
    cases = [dict(session=0x1122334455667788, step=1234567890123, sender=3, slice=9, channel=5, flags=6, bucket=7, round=2),
             dict(session=1, step=0, sender=0, slice=0, channel=0, flags=0, bucket=0, round=0),
             dict(session=2**64 - 1, step=2**64 - 1, sender=2**32 - 1, slice=65535, channel=65535, flags=7, bucket=65535,
                  round=65535)]
    payloads = [seen["example_topk_density_0_25_values_f32_index_raw"], b"", seen["hand_2bit_threshold_4"]]
    messages = [seal(fields, payload) for fields, payload in zip(cases, payloads)]
    rows = ["    {UINT64_C(%d), UINT64_C(%d), %du, %d, %d, %d, %d, %d,\n     %s},\n"
            % (c["session"], c["step"], c["sender"], c["slice"], c["channel"], c["flags"], c["bucket"], c["round"],
               literal(m))
            for c, m in zip(cases, messages)]
    os.makedirs(os.path.join(ROOT, "tests/golden"), exist_ok=True)
    with open(os.path.join(ROOT, "tests/golden/golden_vectors.h"), "w") as file:
        file.write(HEADER % ("".join(frames), "".join(rows)))
    golden_sparse.write()
    golden_strom.write()
    golden_atomo.write(ROOT, literal, wire_decode.decode_frame)
    golden_quant.write(ROOT, {name: x for name, _, x, _ in vectors()}, wire_decode.decode_frame, literal)
    golden_signs.write(ROOT, literal)
    golden_powersgd.write(ROOT, literal)
    golden_csc.write(ROOT, literal)
    golden_blocks.write(ROOT, literal)


if __name__ == "__main__":
    main()
