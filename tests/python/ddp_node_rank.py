"""One rank of ddp_node_test.py: RANK SIZE PORT WHAT. Prints a line for each case; the lines of all ranks must be the same.

With SIZE 4 it is one of two nodes of two ranks. With SIZE 2, WHAT "alike", it is a node itself, and its gradient is the mean of two
batches: the reference, bit for bit."""
import contextlib
import copy
import os
import signal
import time
import warnings

import torch
import torch.distributed as dist

import ddp_rank
import telegrad
import telegrad.torch
from ddp_inputs import Mixed
from ddp_rank import PORT, RANK, SIZE, SPECS, WHAT, Scaler, batch, digest, model, residuals

NODES = 2
EACH = SIZE // NODES
MODES = ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True})


def begin():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
    if EACH == 1:
        return telegrad.torch.Network(), None
    places = [dist.new_group([place + EACH * node for node in range(NODES)]) for place in range(EACH)]
    nodes = [dist.new_group([EACH * node + place for place in range(EACH)]) for node in range(NODES)]
    net = telegrad.torch.Network(group=places[RANK % EACH])
    assert (net.rank, net.size) == (RANK // EACH, NODES)
    return net, nodes[RANK // EACH]


def hooked(net, node, spec, more={}, **settings):
    ddp = model(**more)
    return ddp, telegrad.torch.ddp(ddp, spec, net, node=node, **settings)


def backward(ddp, step, poison=1.0, factor=1.0, *path):
    """The gradients of this rank's batches; there are four a step, of which the last is poisoned."""
    own = range(2 * RANK, 2 * RANK + 2) if EACH == 1 else (RANK,)
    for i in own:
        x, y = batch(step, i)
        with contextlib.nullcontext() if i == own[-1] else ddp.no_sync():
            loss = torch.nn.functional.cross_entropy(ddp(x, *path), y)
            (loss * (factor / len(own)) * (poison if i == 3 else 1.0)).backward()


def train(ddp, steps, begin=0, *path):
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(begin, begin + steps):
        optimizer.zero_grad(set_to_none=True)
        backward(ddp, step, 1.0, 1.0, *path)
        optimizer.step()


def alike_methods(net, node):
    """Steps of two nodes, of which one raises an error in every rank because one of its gradients is not finite."""
    for spec in SPECS:
        ddp, hook = hooked(net, node, spec)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
        for step in range(7):
            optimizer.zero_grad(set_to_none=True)
            try:
                backward(ddp, step, float("nan") if step == 4 else 1.0)
            except telegrad.NonFiniteError:
                assert step == 4
                continue
            assert step != 4
            optimizer.step()
        stats = hook.stats()
        assert stats["skipped_steps"] == 1 and stats["steps"] == 7, stats
        assert (stats["bytes_sent"] > 0) == (RANK % EACH == 0), stats
        yield spec, digest(ddp)


def alike_scaler(net, node):
    for spec in ("topk:density=0.05", "powersgd:rank=2"):
        scaler = Scaler()
        ddp, hook = hooked(net, node, spec, scaler=scaler)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
        for step in range(7):
            optimizer.zero_grad(set_to_none=True)
            backward(ddp, step, float("nan") if step == 3 else 1.0, scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
        assert scaler.skipped == 1 and hook.stats()["skipped_steps"] == 1
        yield spec, digest(ddp)


def case_modes(net, node):
    """DDP's modes cut other buckets, but do not change means."""
    digests = set()
    for more in MODES:
        ddp, _ = hooked(net, node, "dense", more)
        train(ddp, 4)
        digests.add(digest(ddp))
    assert len(digests) == 1, digests
    yield digests.pop()
    for more in ({}, {"static_graph": True}):  # of two types: two buckets in the first step of a static graph, too
        torch.manual_seed(1)
        ddp = torch.nn.parallel.DistributedDataParallel(Mixed(), **more)
        telegrad.torch.ddp(ddp, "dense", net, node=node)
        train(ddp, 4)
        digests.add(digest(ddp))
    assert len(digests) == 1, digests
    yield digests.pop()


def case_unused(net, node):
    """The mean of a parameter that no rank used is discarded by DDP: its residual, which the node's first rank has, stays."""
    ddp, hook = hooked(net, node, "topk:density=0.05", {"find_unused_parameters": True})
    train(ddp, 3)
    before = residuals(hook)
    assert (len(before) > 0) == (RANK % EACH == 0)
    train(ddp, 2, 3, "left")
    after = residuals(hook)
    if before:
        assert before["right.weight"].abs().sum() > 0
        assert torch.equal(before["right.weight"], after["right.weight"])
        assert not torch.equal(before["left.weight"], after["left.weight"])
    train(ddp, 2, 5, "left" if RANK == 0 else "right")  # each is used by some rank
    if before:
        assert not torch.equal(residuals(hook)["right.weight"], after["right.weight"])
    yield digest(ddp)


def case_resumed(net, node):
    for spec in ("topk:density=0.05", "dgc:density=0.05,warmup=2"):
        one, hook = hooked(net, node, spec)
        train(one, 4)
        weights, state = copy.deepcopy(one.module.state_dict()), copy.deepcopy(hook.state_dict())
        train(one, 3, 4)
        two, again = hooked(net, node, spec)
        backward(two, 99)
        two.module.load_state_dict(weights)
        again.load_state_dict(state)
        train(two, 3, 4)
        assert digest(one) == digest(two), spec
        try:
            again.load_state_dict({**state, "place": 1 - RANK % EACH})
            raise AssertionError("no error")
        except telegrad.MismatchError as error:
            assert "place" in str(error), error
        yield spec, digest(two)


def states(hook):
    """Those of all ranks."""
    found = [None] * SIZE
    dist.all_gather_object(found, hook.state_dict())
    return found


def case_other_ranks(net, node):
    """Others go on from the states of all ranks: as many nodes with the same bits, four ranks without nodes with the same mean."""
    one, hook = hooked(net, node, "topk:density=0.05")
    train(one, 4)
    saved, weights = states(hook), copy.deepcopy(one.module.state_dict())
    train(one, 3, 4)
    two, again = hooked(net, node, "topk:density=0.05")
    backward(two, 99)
    two.module.load_state_dict(weights)
    again.load_state_dict(saved)
    assert (len(again.state_dict()["memory"]) > 0) == (RANK % EACH == 0)
    train(two, 3, 4)
    assert digest(one) == digest(two)
    with telegrad.torch.Network() as everyone:
        flat = telegrad.torch.ddp(model(), "topk:density=0.05", everyone)
        flat.load_state_dict(each for each in saved)
        own = states(flat)
    for name in own[0]["memory"]:
        old, new = ([state["memory"][name]["rank/residual/0"] for state in of if state["memory"]] for of in (saved, own))
        assert (len(old), len(new)) == (NODES, SIZE)
        torch.testing.assert_close(torch.stack(old).mean(0), torch.stack(new).mean(0))
    yield digest(two), saved[0]["ranks"]


def case_unfinished(net, node):
    """A step that does not use all parameters, which DDP was not told of: the error is DDP's."""
    ddp, hook = hooked(net, node, "topk:density=0.05")
    train(ddp, 2)
    try:
        train(ddp, 2, 2, "left")
        raise AssertionError("no error")
    except RuntimeError as error:
        assert "Expected to have finished reduction" in str(error), error
    yield hook.stats()["steps"]


def case_raised(net, node):
    """A backward pass that raises in all ranks: the state can still be saved."""
    ddp, hook = hooked(net, node, "topk:density=0.05")
    train(ddp, 2)

    def refuse(_):
        raise ArithmeticError("refused")
    ddp.module.first.weight.register_hook(refuse)
    try:
        train(ddp, 1, 2)
        raise AssertionError("no error")
    except ArithmeticError:
        pass
    deadline = time.monotonic() + 20
    while True:
        try:
            step = hook.state_dict()["step"]
            break
        except telegrad.StateError:  # an exchange that has begun is still under way
            assert time.monotonic() < deadline
            time.sleep(0.02)
    yield step


class Sparse(torch.nn.Module):
    """With a bucket of its own for a parameter without elements."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 4))
        self.none = torch.nn.Parameter(torch.zeros(0).half())

    def forward(self, x):
        return x @ self.w + self.none.float().sum()


def case_without_elements(net, node):
    torch.manual_seed(1)
    ddp = torch.nn.parallel.DistributedDataParallel(Sparse())
    telegrad.torch.ddp(ddp, "topk:density=0.05", net, node=node)
    train(ddp, 3)
    yield digest(ddp)


def case_join(net, node):
    """DDP's join(): the last rank has fewer batches."""
    ddp, hook = hooked(net, node, "topk:density=0.05")
    with ddp.join():
        train(ddp, 2 if RANK == SIZE - 1 else 4)
    assert hook.stats()["steps"] == 4
    yield digest(ddp)


def case_warned(net, node):
    """Once, by rank 0."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        telegrad.torch.ddp(model(), "dgc:density=0.05", net, node=node)
    assert len([w for w in caught if "applies momentum itself" in str(w.message)]) == (RANK == 0)
    yield "warned"


def case_world(net, node):
    """One machine: the node's group is DDP's own, whose operations come in between."""
    alone = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
    with telegrad.torch.Network(group=alone) as own:
        ddp, _ = hooked(own, dist.group.WORLD, "topk:density=0.05", {"find_unused_parameters": True})
        train(ddp, 40)
        yield digest(ddp)


def case_refused(net, node):
    nodes = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    everyone = telegrad.torch.Network()
    crossed = [dist.new_group([0, 3]), dist.new_group([1, 2])]
    mixed = telegrad.torch.Network(group=crossed[RANK in (1, 2)])
    for error, wrong, group in ((telegrad.ArgumentError, net, "node"), (telegrad.MismatchError, everyone, node),
                                (telegrad.MismatchError, net, nodes[RANK % 2]), (telegrad.MismatchError, mixed, node)):
        try:
            telegrad.torch.ddp(model(), "dense", wrong, node=group)
            raise AssertionError("no error")
        except error as refusal:
            assert "allowed: " in str(refusal)
            yield type(refusal).__name__
    everyone.close()
    mixed.close()


def case_half(net, node):
    ddp = torch.nn.parallel.DistributedDataParallel(ddp_rank.Half())
    telegrad.torch.ddp(ddp, "topk:density=0.05", net, node=node)
    train(ddp, 3)
    assert ddp.module.w.grad.dtype == torch.float16
    yield digest(ddp)


def killed(net, node):
    """A rank dies in a step: all others end with an error."""
    ddp, _ = hooked(net, node, "topk:density=0.05", timeout=5)
    train(ddp, 2)
    if RANK == int(WHAT[-1]):
        ddp.module.left.weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    ddp.module.first.weight.register_hook(lambda _: time.sleep(1))  # the last bucket comes when the others know
    try:
        train(ddp, 100, 2)
    except (RuntimeError, telegrad.Error) as error:
        print(type(error).__name__, error, flush=True)
        os._exit(0)  # Gloo would wait for the dead rank


def main():
    net, node = begin()
    if WHAT.startswith("killed"):
        killed(net, node)
        return
    for name, case in list(globals().items()):
        if name.startswith("alike_" if WHAT == "alike" else "case_"):
            for found in case(net, node):
                print(name, *(found if isinstance(found, tuple) else (found,)), flush=True)
    print("end")


if __name__ == "__main__":
    main()
