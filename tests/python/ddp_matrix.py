"""One rank of ddp_matrix_test.py: RANK SIZE PORT WHAT. Every method in every mode of DistributedDataParallel; prints a line for each,
and the lines of all ranks must be the same. WHAT: all; or "some": each mode and each method, but not each with each."""
import math
import sys

import torch

import telegrad
import telegrad.torch
from torch.nn.parallel import DistributedDataParallel

from ddp_rank import RANK, SIZE, SPECS, WHAT, Model, Scaler, batch, begin, digest

STEPS = 6


def backward(ddp, step, path="both", scale=None):
    x, y = batch(step)
    outputs = ddp(x.to(next(ddp.parameters()).dtype), path)
    loss = torch.nn.functional.cross_entropy(outputs.float(), y)
    (loss if scale is None else scale(loss)).backward()
    return float(loss.detach())


def plain(ddp, optimizer, scaler):
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = backward(ddp, step)
        optimizer.step()
    return loss


def unused(ddp, optimizer, scaler):
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = backward(ddp, step, ("both", "left", "left" if RANK % 2 else "right")[step % 3])
        optimizer.step()
    return loss


def no_sync(ddp, optimizer, scaler):
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        with ddp.no_sync():
            backward(ddp, 2 * step)
        loss = backward(ddp, 2 * step + 1)
        optimizer.step()
    return loss


def scaled(ddp, optimizer, scaler):
    """One NaN on one rank: all of them skip that step, and the scale halves."""
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        poison = ddp.module.first.weight.register_hook(lambda g: g * float("nan")) if step == 3 and RANK == 1 else None
        loss = backward(ddp, step, scale=scaler.scale)
        if poison is not None:
            poison.remove()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 512, scaler.get_scale()
    return loss


def make_scaler():
    return torch.amp.GradScaler("cpu", init_scale=1024.0) if hasattr(torch.amp, "GradScaler") else Scaler()


class Mode:
    def __init__(self, steps=plain, dtype=torch.float32, scaler=False, compiled=False, **arguments):
        self.steps, self.dtype, self.scaler, self.compiled, self.arguments = steps, dtype, scaler, compiled, arguments


MODES = {
    "plain": Mode(), "bucket_view": Mode(gradient_as_bucket_view=True), "static_graph": Mode(static_graph=True),
    "unused": Mode(unused, find_unused_parameters=True), "no_sync": Mode(no_sync), "scaler": Mode(scaled, scaler=True),
    "bf16": Mode(dtype=torch.bfloat16), "compile": Mode(compiled=True),
}


def run(mode, spec, net):
    """The digest of the parameters, and the hook's figures. spec None: DistributedDataParallel without a hook."""
    torch.manual_seed(1)
    ddp = DistributedDataParallel(Model().to(mode.dtype), bucket_cap_mb=0.01, **mode.arguments)
    scaler = make_scaler() if mode.scaler else None
    hook = None if spec is None else telegrad.torch.ddp(ddp, spec, net, scaler=scaler)
    trained = torch.compile(ddp, backend="aot_eager") if mode.compiled else ddp
    loss = mode.steps(trained, torch.optim.SGD(ddp.parameters(), 0.1), scaler)
    assert math.isfinite(loss)
    assert all(bool(torch.isfinite(p).all()) for p in ddp.parameters())
    return digest(ddp), hook and hook.stats()


def main():
    net = begin()
    for m, (name, mode) in enumerate(MODES.items()):
        if (mode.compiled or mode.dtype != torch.float32) and not hasattr(torch, "compile"):
            print(name, "needs PyTorch 2")  # Gloo of 1.13 has no bfloat16
            continue
        stock, _ = run(mode, None, net)
        for s, spec in enumerate(SPECS):
            if WHAT == "some" and spec != "dense" and m % (len(SPECS) - 1) != s - 1:
                continue
            found, stats = run(mode, spec, net)
            assert stats["steps"] == STEPS and stats["skipped_steps"] == mode.scaler, (name, spec, stats)
            if spec != "dense":
                assert found != stock and stats["ratio"] > 1.5, (name, spec, stats)
            elif SIZE == 2:  # DDP sums in another order where there are more
                assert found == stock, (name, found, stock)
            print(name, spec, found, flush=True)
    net.close()
    print("end")


if __name__ == "__main__":
    sys.exit(main())
