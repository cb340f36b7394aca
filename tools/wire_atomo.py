"""The coded form of atomo frames, from docs/wire-format.md alone (see wire_decode.py)."""
import struct

import numpy as np

WHOLE = 0xFFFFFFFF


def pays(rows, cols, atoms):
    return atoms * (rows + cols) < rows * cols


def decode_atomo(info, n, payload, need):
    need(info["aux"] == 0 and 4 <= len(payload) < 4 * n, "atomo: payload of %d bytes for n=%d" % (len(payload), n))
    count, = struct.unpack_from("<I", payload)
    at = 4 + 12 * count
    need(count >= 1 and at <= len(payload), "atomo: %d tensors in %d bytes" % (count, len(payload)))
    pieces, atoms_of = [], []
    for i in range(count):
        rows, cols, atoms = struct.unpack_from("<III", payload, 4 + 12 * i)
        need(rows >= 1 and cols >= 1, "atomo: tensor %d is %d x %d" % (i, rows, cols))
        need(atoms == WHOLE or pays(rows, cols, atoms), "atomo: tensor %d: %d atoms" % (i, atoms))
        size = rows * cols if atoms == WHOLE else atoms * (rows + cols)
        need(at + 4 * size <= len(payload), "atomo: tensor %d ends beyond the payload" % i)
        floats = np.frombuffer(payload[at:at + 4 * size], "<f4").astype(np.float32)
        at += 4 * size
        if atoms == WHOLE:
            pieces.append(floats)
        else:
            need(np.isfinite(floats).all(), "atomo: tensor %d: an atom is not finite" % i)
            x = np.zeros((rows, cols), np.float32)
            for atom in floats.reshape(atoms, rows + cols):
                x += np.outer(atom[:rows], atom[rows:])
            pieces.append(x.ravel())
        atoms_of.append(None if atoms == WHOLE else atoms)
    need(at == len(payload), "atomo: %d bytes too many" % (len(payload) - at))
    x = np.concatenate(pieces)
    need(len(x) == n, "atomo: tensors of %d elements, n=%d" % (len(x), n))
    info["atoms"] = atoms_of
    return x
