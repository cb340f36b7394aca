"""Golden vectors of the codec atomo, by NumPy alone (see make_golden.py): frames with what they decode to, bit for
bit, and matrices with the estimates that their draws give, to rounding (singular vectors are not unique to the bit)."""
import os
import struct

import numpy as np

import wire_atomo

MASK = 0xFFFFFFFF
TEST = 6  # TG_PURPOSE_TEST


def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def uniform(seed, purpose, rank, step, tensor, counter):
    a = philox((step & MASK, step >> 32, purpose, rank), (seed & MASK, seed >> 32))
    b = philox((a[2], a[3], tensor, 1), (a[0], a[1]))
    lo, hi, _, _ = philox((counter & MASK, counter >> 32, 0, 0), (b[0], b[1]))
    return ((hi << 32 | lo) >> 11) * 2.0 ** -53


def probabilities(s, rank):
    """Paper's rule, as it stands: scale to the budget, set to 1 what reaches it, again with the rest."""
    p = np.zeros(len(s))
    fixed = s == 0
    while True:
        left = rank - p[fixed].sum()
        p[~fixed] = s[~fixed] * left / s[~fixed].sum() if (~fixed).any() else 0
        over = ~fixed & (p >= 1)
        if not over.any():
            return p
        p[over] = 1
        fixed |= over


def estimate(m, rank, seed, step, segment):
    u, s, vt = np.linalg.svd(m.astype(np.float64), full_matrices=False)
    p = probabilities(s, rank)
    kept = [i for i in range(len(s)) if uniform(seed, TEST, 0, step, 0, (segment << 32) + i) < p[i]]
    out = np.zeros(m.shape)
    for i in kept:
        out += s[i] / p[i] * np.outer(u[:, i], vt[i])
    return len(kept), out.astype(np.float32)


def matrices():
    """(rows, cols, rank, segment, step, matrix): singular values apart, so that their order is sure."""
    rng = np.random.Generator(np.random.PCG64(30))
    for rows, cols, rank in ((12, 17, 2), (17, 12, 2), (8, 40, 1), (40, 8, 3), (16, 16, 4)):
        n = min(rows, cols)
        u = np.linalg.qr(rng.normal(size=(rows, n)))[0]
        v = np.linalg.qr(rng.normal(size=(cols, n)))[0]
        m = ((u * 1.25 ** -np.arange(n)) @ v.T).astype(np.float32)
        for segment, step in ((0, 0), (0, 7), (3, 1), (2, 2**40 + 5)):
            yield rows, cols, rank, segment, step, m


def frames():
    """Frames of several tensors, factors of all sizes."""
    rng = np.random.Generator(np.random.PCG64(31))
    whole = wire_atomo.WHOLE
    for shapes in (((5, 7, 1),), ((20, 20, 3), (20, 1, whole)), ((4, 4, 0), (3, 3, 1)), ((7, 1, whole), (17, 25, 2)),
                   ((40, 3, 2), (1, 9, whole), (3, 40, 1), (2, 2, whole))):
        floats = []
        for rows, cols, atoms in shapes:
            size = rows * cols if atoms == whole else atoms * (rows + cols)
            floats.append((rng.normal(size=size) * 10.0 ** rng.integers(-20, 10, size)).astype("<f4"))
        payload = struct.pack("<I", len(shapes)) + b"".join(struct.pack("<III", *shape) for shape in shapes)
        payload += np.concatenate(floats).tobytes()
        n = sum(rows * cols for rows, cols, _ in shapes)
        if len(payload) < 4 * n:
            yield n, struct.pack("<BBHII", 13, 0, 0, n, len(payload)) + payload


HEADER = """/* Made by tools/golden_atomo.py (NumPy), never by the library. Bytes are hexadecimal; vectors are little-endian f32. */
#ifndef TESTS_GOLDEN_ATOMO_H
#define TESTS_GOLDEN_ATOMO_H

#include <stdint.h>

/* clang-format off */
static const struct golden_atomo_frame {
    const char *frame, *decoded;
} golden_atomo_frames[] = {
%s};

/* Encoded with seed 30 and purpose TG_PURPOSE_TEST as segment `segment`, those before it of one element each. */
static const struct golden_atomo_matrix {
    uint32_t rows, cols, rank, segment, kept;
    uint64_t step;
    const char *x, *estimate;
} golden_atomo_matrices[] = {
%s};
/* clang-format on */

#endif
"""


def write(root, literal, decode_frame):
    rows = []
    for n, frame in frames():
        values = decode_frame(frame)[1]
        rows.append("    {%s,\n     %s},\n" % (literal(frame), literal(values.astype("<f4").tobytes())))
    cases = []
    for r, c, rank, segment, step, m in matrices():
        kept, out = estimate(m, rank, 30, step, segment)
        cases.append("    {%d, %d, %d, %d, %d, UINT64_C(%d),\n     %s,\n     %s},\n"
                     % (r, c, rank, segment, kept, step, literal(m.tobytes()), literal(out.tobytes())))
    with open(os.path.join(root, "tests/golden/golden_atomo.h"), "w") as file:
        file.write(HEADER % ("".join(rows), "".join(cases)))
