"""Golden runs of the method csc, by NumPy alone (see make_golden.py): four steps of some ranks from the paper's rule in
f32, chunk by chunk. Gradients are a formula that the test repeats."""
import os

import numpy as np

N, STEPS, SHOWN = 1000, 4, 400
F = np.float32
CASES = [("csc:chunk=40,density=0.1,warmup=0", 3, dict(chunk=40, k=3)),
         ("csc:chunk=126,density=0.2,warmup=0,momentum=0.75,masking=no", 2, dict(chunk=126, k=2, m=0.75, masking=False)),
         ("csc:chunk=48,density=0.06,warmup=1,nesterov=yes", 5, dict(chunk=48, k=1, nesterov=True, warmup=1)),
         ("csc:density=0.2,warmup=0", 4, dict(chunk=64, k=3))]


def gradient(rank, step):
    x, state = np.empty(N, F), 1000 * rank + step + 1
    for i in range(N):
        state = (state * 1664525 + 1013904223) % 2 ** 32
        x[i] = F(F(state >> 8) * F(2 ** -23) - F(1)) * F(1 + (i // 100 + 3 * step + rank) % 5)
    return x


def mean(vectors):
    total = np.zeros_like(vectors[0])
    for x in vectors:
        total = total + x
    return total * F(F(1) / F(len(vectors)))


def run(world, chunk, k, m=0.9, masking=True, nesterov=False, warmup=0):
    """The chunks that each step sends, and their means side by side; in the warm-up the first SHOWN of all."""
    m, pieces = F(m), [slice(at, at + chunk) for at in range(0, N, chunk)]
    u, v = [np.zeros(N, F) for _ in range(world)], [np.zeros(N, F) for _ in range(world)]
    for step in range(STEPS):
        g = [gradient(r, step) for r in range(world)]
        for r in range(world):
            u[r] = m * (u[r] + g[r]) if nesterov else m * u[r] + g[r]
        if step < warmup:
            yield [], mean([u[r] + g[r] if nesterov else u[r] for r in range(world)])[:SHOWN]
            continue
        for r in range(world):
            v[r] = (v[r] + u[r]) + g[r] if nesterov else v[r] + u[r]
        norms = mean([np.array([np.abs(x[p].astype(np.float64)).sum() for p in pieces], F) for x in v])
        chosen = sorted(np.argsort(-norms, kind="stable")[:k])
        yield chosen, mean([np.concatenate([x[pieces[c]] for c in chosen]) for x in v])
        for r in range(world):
            for c in chosen:
                v[r][pieces[c]] = 0
                if masking:
                    u[r][pieces[c]] = 0


HEADER = """/* Made by tools/golden_csc.py (NumPy), never by the library. Of each step the chunks that are sent and their means side by
 * side, little-endian f32 in hexadecimal; no chunks: all of the vector is sent, of which the first 400 stand here. */
#ifndef TESTS_GOLDEN_CSC_H
#define TESTS_GOLDEN_CSC_H

#include <stddef.h>

/* clang-format off */
static const struct golden_csc {
    const char *spec;
    int ranks;
    size_t chunk;
    struct {
        size_t count, chunk[4];
        const char *mean;
    } step[4];
} golden_csc[] = {
%s};
/* clang-format on */

#endif
"""


def write(root, literal):
    text = ""
    for spec, world, settings in CASES:
        steps = ",\n     ".join("{%d, {%s},\n      %s}" % (len(chosen), ", ".join(map(str, chosen or [0])),
                                                        literal(out.astype("<f4").tobytes()))
                               for chosen, out in run(world, **settings))
        text += '    {"%s", %d, %d,\n    {%s}},\n' % (spec, world, settings["chunk"], steps)
    with open(os.path.join(root, "tests/golden/golden_csc.h"), "w") as file:
        file.write(HEADER % text)
