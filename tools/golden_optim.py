#!/usr/bin/env python3
"""Golden sequences of the optimizers, of clipping and of the one-cycle schedule, from PyTorch in float64 (LARS, which it
does not have, from the paper's formulas): writes tests/golden/golden_optim.h.   golden_optim.py [--check]
--check compares with that file instead, to 1e-12; exit status 77 where there is no PyTorch."""
import math
import os
import re
import sys

try:
    import torch
except ImportError:
    print("SKIP: no PyTorch here")
    sys.exit(77)

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/golden/golden_optim.h")
N, STEPS, KEPT = (12, 5), 12, (1, 6, 12)  # a matrix and a vector; the parameters after these steps are kept
CASES = [
    "sgd:lr=0.1",
    "sgd:lr=0.1,momentum=0.9",
    "sgd:lr=0.1,momentum=0.9,weight_decay=0.01,nesterov=yes",
    "sgd:lr=0.1,momentum=0.9,weight_decay=0.1,exempt=1d",
    "sgd:lr=0.1,momentum=0.9,weight_decay=0.1,decoupled=yes",
    "sgd:lr=0.1,momentum=0.9,weight_decay=0.1,clip=0.5",
    "adam:lr=0.05",
    "adam:lr=0.05,beta1=0.8,beta2=0.95,eps=0.001,weight_decay=0.1",
    "adam:lr=0.05,clip=0.5",
    "adamw:lr=0.05",
    "adamw:lr=0.05,beta2=0.95,weight_decay=0.5,exempt=1d",
    "lars:lr=2,trust=0.02",
    "lars:lr=2,trust=0.02,momentum=0.5,weight_decay=0.1,eps=0.01,exempt=none,clip=0.5",
]
CYCLES = [(100, {}), (7, {"pct_start": 0.5}), (40, {"div_factor": 10.0, "final_div_factor": 100.0})]


def initial(which):
    at = (0, N[0])[which]
    return torch.tensor([((at + i) * 5 % 11 - 5) / 8 for i in range(N[which])], dtype=torch.float64)


def gradient(which, t):
    """Multiples of a power of two: the same in f32. Its norm goes up and down."""
    at = (0, N[0])[which]
    return torch.tensor([((i * 7 + t * 13 + i * t % 5) % 17 - 8) / 16 * 2.0 ** (t % 4 - 2)
                         for i in range(at, at + N[which])], dtype=torch.float64)


class Lars(torch.optim.Optimizer):
    """You et al. 2017, alg. 1; a tensor without decay is exempt here."""

    def __init__(self, groups, lr, trust, momentum, eps, exempts):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        self.trust, self.momentum, self.eps, self.exempts = trust, momentum, eps, exempts

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                wd, ratio = group["weight_decay"], 1.0
                if not (self.exempts and p.dim() < 2) and p.norm() > 0 and p.grad.norm() > 0:
                    ratio = self.trust * p.norm() / (p.grad.norm() + wd * p.norm() + self.eps)
                u = self.state[p].setdefault("u", torch.zeros_like(p))
                u.mul_(self.momentum).add_(group["lr"] * ratio * (p.grad + wd * p))
                p.sub_(u)


def decoupled(optimizer, groups):
    """SGDW: the decay of PyTorch's AdamW, before each step of SGD."""
    step, decays = optimizer.step, [group["weight_decay"] for group in groups]
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.0

    def both():
        with torch.no_grad():
            for group, decay in zip(optimizer.param_groups, decays):
                for p in group["params"]:
                    p.mul_(1 - group["lr"] * decay)
        step()
    optimizer.step = both
    return optimizer


def make(name, keys, params):
    real = lambda key, default: float(keys.get(key, default))  # noqa: E731
    decay = real("weight_decay", {"adamw": 0.01, "lars": 0.0005}.get(name, 0))
    exempts = keys.get("exempt", "1d" if name == "lars" else "none") == "1d"
    groups = [{"params": [p], "weight_decay": 0.0 if exempts and p.dim() < 2 else decay} for p in params]
    lr = real("lr", 0)
    if name == "sgd":
        made = torch.optim.SGD(groups, lr, real("momentum", 0), nesterov=keys.get("nesterov") == "yes")
        return decoupled(made, groups) if keys.get("decoupled") == "yes" else made
    if name == "lars":
        return Lars(groups, lr, real("trust", 0.02), real("momentum", 0.9), real("eps", 1e-8), exempts)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(groups, lr, (real("beta1", 0.9), real("beta2", 0.999)), real("eps", 1e-8))


def sequence(spec):
    name, text = spec.split(":")
    keys = dict(item.split("=") for item in text.split(","))
    params = [torch.nn.Parameter(initial(0).reshape(4, 3)), torch.nn.Parameter(initial(1))]
    optimizer, kept, clipped = make(name, keys, params), [], 0
    for t in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = float(keys["lr"]) * (1 if t < STEPS // 2 else 0.5)
        for i, p in enumerate(params):
            p.grad = gradient(i, t).reshape(p.shape)
        if "clip" in keys:
            clipped += bool(torch.nn.utils.clip_grad_norm_(params, float(keys["clip"])) > float(keys["clip"]))
        optimizer.step()
        if t + 1 in KEPT:
            kept += [v for p in params for v in p.detach().flatten().tolist()]
    return kept, clipped


def cycle(total, options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.8, total_steps=total, cycle_momentum=False, **options)
    rates = []
    for t in range(total):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        if t + 1 < total:
            schedule.step()
    return rates


def rows():
    for spec in CASES:
        values, clipped = sequence(spec)
        yield '    {"%s", %d, {%s}},\n' % (spec, clipped, ", ".join(map(repr, values)))


def cycles():
    for total, options in CYCLES:
        text = ",".join("%s=%g" % item for item in options.items())
        yield '    {"onecycle%s", %d, {%s}},\n' % (text and ":" + text, total, ", ".join(map(repr, cycle(total, options))))


HEADER = """/* Made by tools/golden_optim.py (PyTorch, float64), never by the library: the parameters after steps %s of %d, the
 * matrix's and then the vector's; learning rates of a whole run whose largest is 0.8. */
#ifndef TESTS_GOLDEN_OPTIM_H
#define TESTS_GOLDEN_OPTIM_H

/* clang-format off */
static const struct golden_optim {
    const char *spec;
    int clipped; /* steps */
    double w[%d][%d];
} golden_optim[] = {
%s};

static const struct golden_cycle {
    const char *spec;
    int total;
    double lr[%d];
} golden_cycle[] = {
%s};
/* clang-format on */

#endif
"""


def nest(row):
    """The kept values in rows of their own."""
    return re.sub(r", \{(.*)\}\}", lambda m: ", {" + ", ".join(
        "{" + ", ".join(m[1].split(", ")[i:i + sum(N)]) + "}" for i in range(0, len(KEPT) * sum(N), sum(N))) + "}}", row)


def text():
    return HEADER % (", ".join(map(str, KEPT)), STEPS, len(KEPT), sum(N), "".join(map(nest, rows())),
                     max(total for total, _ in CYCLES), "".join(cycles()))


def same(a, b):
    number = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
    if re.sub(number, "#", a) != re.sub(number, "#", b):
        return False
    return all(math.isclose(float(x), float(y), rel_tol=1e-12, abs_tol=1e-12)
               for x, y in zip(re.findall(number, a), re.findall(number, b)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        with open(PATH, encoding="utf-8") as file:
            if not same(file.read(), text()):
                sys.exit(f"{PATH} is not what PyTorch {torch.__version__} gives")
    else:
        with open(PATH, "w", encoding="utf-8") as file:
            file.write(text())
