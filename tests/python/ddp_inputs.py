"""One rank of ddp_test.py: RANK SIZE PORT WHAT. Passes of other kinds, methods by name, what is
refused, and one NaN beside PyTorch's PowerSGD hook."""
import linecache
import sys
import tempfile
import types
import unittest.mock
import warnings

import torch
import torch.utils.checkpoint
from torch.nn.parallel import DistributedDataParallel

import telegrad
import telegrad.integrations
import telegrad.torch
from telegrad._parts import check_parameter
from ddp_rank import DEVICE, RANK, SIZE, Model, Scaler, begin, digest, hooked, loss_of, model, run_cases, train, train_poisoned

STEPS, POISONED = 14, 5


def case_join(net):
    """DDP's join(): rank 0 has fewer batches, and takes part in the exchange of the others without any."""
    stock, (ours, hook) = model(), hooked(net, "dense")
    for ddp in (stock, ours):
        with ddp.join():
            train(ddp, 3 if RANK == 0 else 5)
        if SIZE == 2:
            yield digest(ddp)
    assert SIZE > 2 or digest(stock) == digest(ours)
    assert hook.stats()["steps"] == 5
    yield digest(ours)


class Mixed(Model):
    """With parameters of two types, so of two buckets in every mode."""

    def __init__(self):
        super().__init__()
        self.last.half()

    def forward(self, x, path="both"):
        x = torch.relu(self.first(x))
        return torch.nn.functional.linear(self.left(x) + self.right(x), self.last.weight.float(), self.last.bias.float())


def case_static_graph(net):
    """In its first step all buckets come at the end of the backward pass, and each says that it is the first one."""
    def made(kind, more):
        torch.manual_seed(1)
        return DistributedDataParallel(kind().to(DEVICE), static_graph=True, **more)
    several = {"bucket_cap_mb_list": [0.001, 0.001, 0.02]} if hasattr(DistributedDataParallel, "require_manual_backward_finalization") else {}
    for kind, more in ((Mixed, {}), (Model, several), (Mixed, several)):
        stock, ours, coded = made(kind, more), made(kind, more), made(kind, more)
        hook, other = telegrad.torch.ddp(ours, "dense", net), telegrad.torch.ddp(coded, "topk:density=0.05", net)
        refused(telegrad.NonFiniteError, "rank 1" if RANK == 1 else "another rank",
                lambda: (loss_of(coded, 9) * (float("nan") if RANK == 1 else 1)).backward())
        assert other.stats()["skipped_steps"] == 1
        coded.zero_grad(set_to_none=True)
        for ddp in (stock, ours, coded):
            train(ddp, 4)
        assert SIZE > 2 or digest(stock) == digest(ours)
        assert (hook.stats()["steps"], other.stats()["steps"], other.stats()["skipped_steps"]) == (4, 5, 1)
        yield digest(ours), digest(coded)


def case_scaler_off(net):
    """It skips no step, so the backward pass raises as without a scaler."""
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)(enabled=False)
    ddp, hook = hooked(net, "topk:density=0.05", scaler=scaler)
    assert train_poisoned(ddp) is not None and hook.stats()["skipped_steps"] == 1
    assert all(bool(torch.isfinite(p).all()) for p in ddp.parameters())
    yield digest(ddp)


def case_scaler_units(net):
    """Settings in units of the gradient would mean something else at each loss scale."""
    for spec in ("dgc:density=0.1,clip=0.25", "csc:clip=1e-3", "2bit:threshold=0.5", "strom:threshold=auto,start=0.5"):
        for method, rules in ((spec, None), ("dense", {"last.*": spec})):
            refused(telegrad.ArgumentError, f"scaler: with {spec.partition(':')[0]}:", lambda: hooked(net, method, scaler=Scaler(), rules=rules))
        hooked(net, spec)
    for spec in ("dgc:clip=0.0", "csc", "2bit:threshold=auto,start=0", "strom", "terngrad:clip=2.5", "blocktopk:clip=no", "powersgd:start=5"):
        hooked(net, spec, scaler=Scaler())
    yield "refused"


class LastFirst(Model):
    """Its first parameter is the first of the first bucket, however DDP cuts them."""

    def __init__(self):
        super().__init__()
        first, self.last = self.first, torch.nn.Linear(64, 4, bias=False)
        modules = dict(self._modules)
        self._modules.clear()
        self._modules.update({"last": modules.pop("last"), **modules, "first": first})


def case_fetchsgd(net):
    """Its memory is of whole buckets: it begins anew when DDP cuts others, and a state has that of today's buckets only."""
    spec = "fetchsgd:density=0.05,ratio=4"

    def made(**more):
        torch.manual_seed(1)
        ddp = DistributedDataParallel(LastFirst().to(DEVICE), bucket_cap_mb=0.01, **more)
        return ddp, telegrad.torch.ddp(ddp, spec, net, optimizer=torch.optim.SGD(ddp.parameters(), 0.1))
    one, hook = made()
    train(one, 1)
    before = hook._buckets[0].names
    train(one, 3, 1)
    first = {b.names[0] for b in hook._buckets.values()}
    assert before[0] == hook._buckets[0].names[0] and before != hook._buckets[0].names, before
    saved = {k: v.clone() for k, v in one.module.state_dict().items()}, hook.state_dict()
    assert set(saved[1]["memory"]) == first, (first, set(saved[1]["memory"]))
    train(one, 3, 4)
    two, again = made()
    loss_of(two, 99).backward()
    two.module.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(two, 3, 4)
    assert digest(one) == digest(two)
    three, other = made()
    other.load_state_dict(saved[1])  # before its first step, which has other buckets
    train(three, 3)
    assert {name for name, slots in other.state_dict()["memory"].items() if slots} == {b.names[0] for b in other._buckets.values()}
    graph, _ = made(static_graph=True)
    train(graph, 3)
    for rules in (None, {"last.*": spec}):
        method = spec if rules is None else "dense"
        refused(telegrad.ArgumentError, "find_unused_parameters=True with fetchsgd",
                lambda: hooked(net, method, {"find_unused_parameters": True}, rules=rules))
        refused(telegrad.ArgumentError, "scaler: with fetchsgd", lambda: hooked(net, method, scaler=Scaler(), rules=rules))
    yield digest(one), digest(graph)


class Checkpointed(Model):
    """Its last layers are computed again in a backward pass within the backward pass."""

    def forward(self, x, path="both"):
        x = torch.relu(self.first(x))
        return torch.utils.checkpoint.checkpoint(lambda x: self.last(torch.relu(self.left(x) + self.right(x))), x, use_reentrant=True)


def case_checkpoint(net):
    """The buckets of a step come in two backward passes, one within the other."""
    torch.manual_seed(1)
    ddp = DistributedDataParallel(Checkpointed().to(DEVICE), bucket_cap_mb=0.01)
    hook = telegrad.torch.ddp(ddp, "topk:density=0.05", net)
    train_poisoned(ddp)
    assert hook.stats()["skipped_steps"] == 1 and hook.stats()["steps"] == 6
    yield digest(ddp)


def case_two_models(net):
    """Two models on one network have a part in one backward pass: each has the bits that it has alone."""
    def learned(together):
        pairs = [hooked(net, spec) for spec in ("topk:density=0.05", "dense")]
        optimizers = [torch.optim.SGD(ddp.parameters(), 0.1) for ddp, _ in pairs]
        for step in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            losses = [loss_of(ddp, step) for ddp, _ in pairs]
            if together:
                sum(losses).backward()
            for loss, optimizer in zip(losses, optimizers):
                if not together:
                    loss.backward()
                optimizer.step()
        return [digest(ddp) for ddp, _ in pairs]
    alone = learned(False)
    for _ in range(6):
        assert learned(True) == alone
    yield alone


def case_rules(net):
    """Biases by another method than the rest: their means are those of stock DDP."""
    stock, (ours, hook) = model(), hooked(net, "topk:density=0.05", rules={"*.bias": "dense", "last.*": "qsgd:bits=4"})
    for ddp in (stock, ours):
        loss_of(ddp, 0).backward()
    kept = count = 0
    for (name, p), q in zip(ours.module.named_parameters(), stock.module.parameters()):
        if name.endswith("bias"):
            assert torch.equal(p.grad, q.grad) if SIZE == 2 else torch.allclose(p.grad, q.grad), name
        elif name != "last.weight":
            kept, count = kept + int((p.grad != 0).sum()), count + p.numel()
    assert 0.04 < kept / count < 0.11, kept / count
    train(ours, 4, 1)
    saved = {k: v.clone() for k, v in ours.module.state_dict().items()}, hook.state_dict()
    train(ours, 2, 5)
    again, two = hooked(net, "topk:density=0.05", rules={"*.bias": "dense", "last.*": "qsgd:bits=4"})
    loss_of(again, 99).backward()  # DDP cuts other buckets after the first pass
    again.module.load_state_dict(saved[0])
    two.load_state_dict(saved[1])
    train(again, 2, 5)
    assert digest(again) == digest(ours)
    refused(telegrad.MismatchError, "rules={}", lambda: two.load_state_dict({**saved[1], "rules": {}}))
    yield digest(ours)


def case_frozen(net):
    """Parameters without gradients."""
    digests = []
    for hook in (False, True):
        torch.manual_seed(1)
        whole = Model()
        whole.left.requires_grad_(False)
        ddp = DistributedDataParallel(whole, bucket_cap_mb=0.01)
        if hook:
            telegrad.torch.ddp(ddp, "dense", net, rules={"*.bias": "f32", "left.weight": "topk"})
            refused(telegrad.ArgumentError, "matches no parameter", lambda: hooked(net, "dense", rules={"leftover*": "dense"}))
        train(ddp, 3)
        digests.append(digest(ddp))
    assert SIZE > 2 or digests[0] == digests[1], digests
    yield digests[1]


def applied(ddp, scaler):
    """Train with one NaN on one rank; for each step whether the parameters have moved."""
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    moved = []
    for step in range(STEPS):
        before = digest(ddp)
        optimizer.zero_grad(set_to_none=True)
        poison = ddp.module.first.weight.register_hook(lambda g: g * float("nan")) if step == POISONED and RANK == 1 else None
        scaler.scale(loss_of(ddp, step)).backward()
        if poison is not None:
            poison.remove()
        scaler.step(optimizer)
        scaler.update()
        moved.append(digest(ddp) != before)
    return moved


def case_one_nan(net):
    """PyTorch's hook keeps the NaN in its memory and never takes another step; telegrad loses one."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    torch.manual_seed(1)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
    stock = DistributedDataParallel(Model())  # with one bucket: over Gloo that hook cannot take several
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
    stock.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    lost = [step for step, moved in enumerate(applied(stock, Scaler())) if not moved]
    assert lost == list(range(POISONED, STEPS)), lost
    scaler = Scaler()
    ours, hook = hooked(net, "powersgd:rank=2", scaler=scaler)
    assert [step for step, moved in enumerate(applied(ours, scaler)) if not moved] == [POISONED]
    assert hook.stats()["skipped_steps"] == 1
    yield digest(ours)


def case_without_numpy(net):
    """pip installs PyTorch without NumPy. What is saved and loaded then are the same bits."""
    ddp, hook = hooked(net, "topk:density=0.05", {"find_unused_parameters": True})
    train(ddp, 3)
    want, numpy = hook.state_dict(), torch.Tensor.numpy

    def missing(*_, **__):
        raise RuntimeError("Numpy is not available")
    torch.Tensor.numpy = missing
    try:
        state = hook.state_dict()
        hook.load_state_dict(state)
        train(ddp, 1, 3, None, "left")
        kept = hook.state_dict()
    finally:
        torch.Tensor.numpy = numpy
    for name, slots in want["memory"].items():
        for key, data in slots.items():
            assert torch.equal(data, state["memory"][name][key])
            assert not name.startswith("right") or torch.equal(data, kept["memory"][name][key])
    yield digest(ddp)


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)


def case_refused(net):
    refused(telegrad.SpecError, "densty", lambda: hooked(net, "topk:densty=1"))
    refused(telegrad.SpecError, "densty", lambda: hooked(net, "dense", rules={"*": "topk:densty=1"}))
    refused(telegrad.ArgumentError, "'*.bia' matches no parameter", lambda: hooked(net, "dense", rules={"*.bia": "fp16"}))
    refused(telegrad.ArgumentError, "DistributedDataParallel", lambda: telegrad.torch.ddp(Model(), "dense", net))
    refused(telegrad.ArgumentError, "spec: None: allowed: a str", lambda: telegrad.torch.ddp(model(), None, net))
    refused(telegrad.ArgumentError, "net: a NoneType: allowed: a telegrad.Network", lambda: telegrad.torch.ddp(model(), "dense", None))
    for words, wrong in (("rules: a list: allowed: a dict", {"rules": ["*"]}), ("rules: the method of '*': None", {"rules": {"*": None}}),
                         ("optimizer: a int: allowed: a torch.optim.Optimizer", {"optimizer": 5}), ("seed=-1: allowed", {"seed": -1}),
                         ("scaler: a int: allowed: a GradScaler", {"scaler": 5}), ("timeout: a str: allowed", {"timeout": "60"})):
        refused(telegrad.ArgumentError, words, lambda: hooked(net, "dense", **wrong))
    for words, wrong in (("group: a int: allowed: a process group", {"group": 5}), ("host: a int: allowed: a str", {"host": 5}),
                         ("timeout=-1: allowed: above 0", {"timeout": -1})):
        refused(telegrad.ArgumentError, words, lambda: telegrad.torch.Network(**wrong))
    closed = telegrad.Network.local(1)[0]
    closed.close()
    refused(telegrad.StateError, "the network is closed", lambda: telegrad.torch.ddp(model(), "dense", closed))
    double = DistributedDataParallel(Model().double())
    refused(telegrad.UnsupportedError, "float64", lambda: telegrad.torch.ddp(double, "dense", net))
    sparse = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 4)))
    refused(telegrad.UnsupportedError, "0.weight: its gradient is sparse", lambda: telegrad.torch.ddp(sparse, "dense", net))
    if hasattr(torch, "compile"):  # DistributedDataParallel of 1.13 takes neither of them
        from torch.nn.parallel.distributed import _MixedPrecision
        mixed = DistributedDataParallel(Model())
        mixed.mixed_precision = _MixedPrecision(param_dtype=torch.bfloat16)  # its constructor wants a GPU for that
        refused(telegrad.UnsupportedError, "mixed_precision", lambda: telegrad.torch.ddp(mixed, "dense", net))
        complex64 = DistributedDataParallel(torch.nn.Linear(4, 4, dtype=torch.complex64))
        refused(telegrad.UnsupportedError, "complex64", lambda: telegrad.torch.ddp(complex64, "dense", net))
        assert telegrad.torch.ddp(torch.compile(model()), "dense", net).stats()["steps"] == 0
    if hasattr(DistributedDataParallel, "require_manual_backward_finalization"):
        skipping = DistributedDataParallel(Model(), find_unused_parameters=True, skip_all_reduce_unused_params=True)
        refused(telegrad.UnsupportedError, "skip_all_reduce_unused_params", lambda: telegrad.torch.ddp(skipping, "dense", net))
        manual, hook = hooked(net, "dense")
        train(manual, 2)
        manual.require_manual_backward_finalization = True
        refused(telegrad.UnsupportedError, "require_manual_backward_finalization", lambda: telegrad.torch.ddp(manual, "dense", net))
        refused(telegrad.UnsupportedError, "require_manual_backward_finalization", lambda: train(manual, 1, 2))
        assert hook.stats()["steps"] == 2
    other = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1)
    refused(telegrad.ArgumentError, "none of its parameters is one of the model's", lambda: telegrad.torch.ddp(model(), "dense", net, optimizer=other))
    refused(telegrad.MismatchError, "the state has no version", lambda: hooked(net, "dense")[1].load_state_dict({"first.weight": 1}))
    refused(telegrad.MismatchError, "rank 0 of 1", lambda: hooked(telegrad.Network.local(1)[0], "dense"))
    ddp, _ = hooked(net, "dense")
    refused(telegrad.StateError, "once", lambda: telegrad.torch.ddp(ddp, "dense", net))
    refused(telegrad.UnsupportedError, "parameter w: it is on meta: allowed so far: parameters on CUDA devices and in host memory (cpu)",
            lambda: check_parameter("w", torch.nn.Parameter(torch.zeros(2, device="meta"))))
    ddp = model()
    first, *rest = ddp.parameters()
    for momenta in ((0.9, 0.9), (0.9, 0), (0, 0.9)):  # groups that differ
        groups = [{"params": [first], "momentum": momenta[0]}, {"params": rest, "momentum": momenta[1]}]
        wrong = momenta.index(0.9)
        refused(telegrad.ArgumentError, f"optimizer: group {wrong} has momentum=0.9, but dgc applies momentum itself: allowed: momentum=0 in "
                "all groups (give it to the method: dgc:momentum=0.9)",
                lambda: telegrad.torch.ddp(ddp, "dgc", net, optimizer=torch.optim.SGD(groups, 0.1)))
    for kind in (torch.optim.AdamW, torch.optim.RMSprop):
        refused(telegrad.ArgumentError, f"optimizer: a {kind.__name__} adapts its steps to gradients, but csc gives it velocities",
                lambda: telegrad.torch.ddp(ddp, "csc", net, optimizer=kind(ddp.parameters())))
    for spec in ("dgc:momentum=0", "dgc:density=0.01,momentum=0.0,warmup=0"):  # gradients, as without DGC's momentum
        plain = model()
        telegrad.torch.ddp(plain, spec, net, optimizer=torch.optim.AdamW(plain.parameters()))
    momentum = torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)
    refused(telegrad.ArgumentError, "momentum=0.9",
            lambda: telegrad.torch.ddp(ddp, "dense", net, rules={"*.weight": "dgc"}, optimizer=momentum))
    telegrad.torch.ddp(ddp, "dgc", net, optimizer=torch.optim.SGD([{"params": [first], "lr": 0.2}, {"params": rest}], 0.1))
    if hasattr(torch, "compile"):
        torch._dynamo.config.optimize_ddp = "python_reducer"
        refused(telegrad.UnsupportedError, "python_reducer", lambda: hooked(net, "dense"))
        torch._dynamo.config.optimize_ddp = True
    yield "refused"


def case_frameworks(net):
    """What stands in for Accelerate gives a compiled model; and for Transformers, the same model to several calls of trainer.train()."""
    accelerator = types.SimpleNamespace(scaler=None)
    if hasattr(torch, "compile"):
        assert telegrad.integrations.accelerate(accelerator, torch.compile(model()), "dense", net).stats()["steps"] == 0
    refused(telegrad.ArgumentError, "accelerator.prepare", lambda: telegrad.integrations.accelerate(accelerator, Model(), "dense", net))
    trainer = types.SimpleNamespace(accelerator=accelerator, model_wrapped=model(), callbacks=[])
    trainer.add_callback = trainer.callbacks.append
    with unittest.mock.patch.dict(sys.modules, transformers=types.SimpleNamespace(TrainerCallback=object)):
        telegrad.integrations.trainer(trainer, "topk:density=0.05", net)
    [callback] = trainer.callbacks

    def run(begin):
        state = types.SimpleNamespace(global_step=begin)
        callback.on_train_begin(arguments, state, None)
        train(trainer.model_wrapped, 2, begin)
        callback.on_train_end(arguments, state, None)
        return trainer.telegrad_stats["steps"]
    with tempfile.TemporaryDirectory() as folder:
        arguments = types.SimpleNamespace(output_dir=folder)
        assert run(0) == 2
        callback.on_save(arguments, types.SimpleNamespace(global_step=2), None)
        assert (run(0), run(2)) == (4, 4)  # the last goes on from the checkpoint
        trainer.model_wrapped = model()
        assert run(0) == 2
    yield digest(trainer.model_wrapped)


def case_warned(net):
    """Rank 0 says what was not checked, once for each line that calls."""
    def said(spec, momentum=None, lr=0.05, adam=False, **more):
        models = [model(), model()]
        parameters = [p for ddp in models for p in ddp.parameters()]
        optimizer = None if momentum is None else torch.optim.SGD(parameters, lr, momentum=momentum)
        optimizer = torch.optim.AdamW(parameters) if adam else optimizer
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for ddp in models:
                telegrad.torch.ddp(ddp, spec, net, optimizer=optimizer, **more)
        assert all("telegrad.torch.ddp(ddp, spec" in linecache.getline(w.filename, w.lineno) for w in caught)
        return [str(w.message) for w in caught]
    for spec, more in (("dgc:density=0.1", {}), ("csc", {}), ("dense", {"rules": {"*.weight": "dgc"}})):
        words = said(spec, **more)
        assert len(words) == (RANK == 0) and all("applies momentum itself, and the optimizer was not checked: give optimizer=" in w for w in words), words
    for told in (said("signsgd"), said("signsgd", 0), said("signum", 0.9, lr=0.001)):
        assert len(told) == (RANK == 0) and all("learns with about 0.02 times the learning rate of dense SGD" in w for w in told), told
    for spec in ("topk:density=0.1", "1bit", "efsign"):
        told = said(spec, adam=True)
        assert len(told) == (RANK == 0) and all("from which the moments of AdamW are wrong" in w for w in told), told
    if hasattr(torch, "compile"):  # PyTorch 2: it is seen at its first step
        for spec, count in (("topk:density=0.1", RANK == 0), ("qsgd", 0)):
            ddp, _ = hooked(net, spec)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                train(model(), 1, 0, torch.optim.AdamW(torch.nn.Linear(2, 2).parameters()))  # of another model
                train(ddp, 2, 0, torch.optim.AdamW(ddp.parameters()))
            told = [w for w in caught if "from which the moments of AdamW are wrong" in str(w.message)]
            assert len(told) == count, (spec, [str(w.message) for w in caught])
    assert said("qsgd", adam=True) == said("topk:feedback=none", adam=True) == []
    for silent in (("topk",), ("signsgd", 0, 0.001), ("dgc", 0), ("randomk",)):
        assert said(*silent) == [], silent
    yield "warned"


def main():
    net = begin()
    run_cases(net, globals())
    net.close()
    print("end")


if __name__ == "__main__":
    sys.exit(main())
