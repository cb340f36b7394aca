"""One rank of fsdp_test.py: RANK SIZE PORT WHAT. Two replicas of SIZE / 2 shards. Prints a line for each case; the lines of all ranks
must be the same."""
import copy
import sys

import torch
import torch.distributed as dist

import telegrad
import telegrad.torch
from ddp_rank import RANK, SIZE, SPECS, Model, batch, begin
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

REPLICAS = 2


def model(mesh, dtype=torch.float32):
    torch.manual_seed(1)
    made = Model().to(dtype)
    fully_shard(made.left, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def backward(sharded, step, scale=lambda loss: loss):
    x, y = batch(step)
    loss = torch.nn.functional.cross_entropy(sharded(x.to(next(sharded.parameters()).dtype)).float(), y)
    scale(loss).backward()


def train(sharded, steps, first=0, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(sharded.parameters(), 0.1)
    for step in range(first, first + steps):
        optimizer.zero_grad(set_to_none=True)
        backward(sharded, step)
        optimizer.step()


def weights(sharded):
    return torch.cat([p.full_tensor().detach().float().reshape(-1) for p in sharded.parameters()])


def digest(sharded):
    """The same on all ranks, or an error."""
    own = weights(sharded)
    other = own.clone()
    dist.broadcast(other, 0)
    assert torch.equal(own, other)
    return float(own.double().sum())


def poisoned(sharded, step, scale=lambda loss: loss):
    x, y = batch(step)
    scale(torch.nn.functional.cross_entropy(sharded(x * float("nan") if RANK == 1 else x), y)).backward()


def case_dense(mesh, net):
    """What HSDP gives, which averages over replicas itself."""
    native, ours = model(mesh), model(mesh["shards"])
    hook = telegrad.torch.fsdp(ours, "dense", net)
    train(native, 3)
    train(ours, 3)
    torch.testing.assert_close(weights(native), weights(ours), rtol=1e-5, atol=1e-6)
    assert hook.stats()["steps"] == 3
    yield digest(ours)


def case_methods(mesh, net):
    for spec in SPECS[1:]:
        ours = model(mesh["shards"])
        hook = telegrad.torch.fsdp(ours, spec, net, rules={"*.bias": "dense"})
        train(ours, 4)
        assert hook.stats()["ratio"] > 1.5, hook.stats()
        yield spec, digest(ours)
    ours = model(mesh["shards"], torch.bfloat16)
    telegrad.torch.fsdp(ours, "dense", net)
    train(ours, 3)
    yield "bf16", digest(ours)


def case_nan(mesh, net):
    """Each rank raises, none applies anything, and what was sent is not lost."""
    for scaler in (None, torch.amp.GradScaler("cpu", enabled=False)):
        ours = model(mesh["shards"])
        hook = telegrad.torch.fsdp(ours, "topk:density=0.05", net, scaler=scaler)
        train(ours, 2)
        refused(telegrad.NonFiniteError, "finite", lambda: poisoned(ours, 2))
        train(ours, 2, 3)
        assert hook.stats()["skipped_steps"] == 1 and bool(torch.isfinite(weights(ours)).all())
        yield digest(ours)


def case_scaler(mesh, net):
    ours, scaler = model(mesh["shards"]), torch.amp.GradScaler("cpu", init_scale=1024.0)
    hook = telegrad.torch.fsdp(ours, "topk:density=0.05", net, scaler=scaler)
    optimizer = torch.optim.SGD(ours.parameters(), 0.1)
    for step in range(5):
        optimizer.zero_grad(set_to_none=True)
        before = weights(ours)
        if step == 2:
            poisoned(ours, step, scaler.scale)
        else:
            backward(ours, step, scaler.scale)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, weights(ours)) == (step == 2), step
    assert scaler.get_scale() == 512 and hook.stats()["skipped_steps"] == 1
    yield digest(ours)


def case_failed(mesh, net):
    """A backward pass fails after a group was exchanged: that step has not taken place, and the next is checked as ever."""
    ours = model(mesh["shards"])
    if not hasattr(ours, "reset_iter_state"):  # FSDP itself cannot go on then
        yield "old"
        return
    hook = telegrad.torch.fsdp(ours, "topk:density=0.05", net)
    train(ours, 2)
    before = hook.state_dict()
    for _ in range(2):
        sent = hook.stats()["bytes_sent"]
        handle = ours.first.register_forward_hook(lambda module, inputs, output: output.register_hook(lambda g: 1 / 0) and None)
        try:
            backward(ours, 2)
            raise AssertionError("no error")
        except ZeroDivisionError:
            pass
        handle.remove()
        ours.reset_iter_state()
        assert hook.stats()["bytes_sent"] > sent and hook.stats()["steps"] == 2
    try:
        poisoned(ours, 2)
        raise AssertionError("no error")
    except telegrad.NonFiniteError:
        pass
    assert hook.stats()["steps"] == 3 and hook.stats()["skipped_steps"] == 1
    assert sorted(hook.state_dict()["memory"]) == sorted(before["memory"])
    train(ours, 2, 3)
    assert hook.stats()["steps"] == 5
    yield digest(ours)


def case_resumed(mesh, net):
    one = model(mesh["shards"])
    hook = telegrad.torch.fsdp(one, "topk:density=0.05", net)
    train(one, 3)
    saved = copy.deepcopy(one.state_dict()), hook.state_dict()
    train(one, 2, 3)
    two = model(mesh["shards"])
    again = telegrad.torch.fsdp(two, "topk:density=0.05", net)
    two.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(two, 2, 3)
    assert torch.equal(weights(one), weights(two)) and again.stats()["steps"] == 5
    assert again.stats()["bytes_sent"] >= hook.stats()["bytes_sent"] > saved[1]["bytes_sent"] > 0
    for key, value in (("rank", 7), ("shard", 9), ("shards", 3), ("spec", "fp16"), ("rules", {"*": "fp16"})):
        try:
            again.load_state_dict({**saved[1], key: value})
            raise AssertionError(key)
        except telegrad.MismatchError as error:
            assert f"{key}=" in str(error)
    yield digest(two)


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)


def case_other_shards(mesh, net):
    """What replicas of two shards have saved is refused where they have one or four, on each rank; and by those that have saved it,
    if it is of another shard."""
    one = model(mesh["shards"])
    hook = telegrad.torch.fsdp(one, "topk:density=0.05", net)
    train(one, 3)
    every = [None] * SIZE
    dist.all_gather_object(every, hook.state_dict())
    for shards in (1, SIZE):
        other = init_device_mesh("cpu", (SIZE // shards, shards), mesh_dim_names=("replicas", "shards"))
        between = telegrad.torch.Network(group=other["replicas"].get_group())
        two = model(other["shards"])
        again = telegrad.torch.fsdp(two, "topk:density=0.05", between)
        train(two, 1)
        before = again.state_dict()
        words = f"has shards=2, but this rank has shards={shards}: allowed: a state that was saved with shards={shards}"
        refused(telegrad.MismatchError, "the state " + words, lambda: again.load_state_dict(every[RANK]))
        refused(telegrad.MismatchError, "state 0 of the list " + words, lambda: again.load_state_dict(every))
        assert again.state_dict()["step"] == before["step"] == 1
        train(two, 1, 1)
        yield shards, digest(two)
        between.close()
    shard = RANK % 2
    refused(telegrad.MismatchError, f"shard={1 - shard}, but this rank has shard={shard}", lambda: hook.load_state_dict(every[1 - shard]))


def groups_of_parameters(mesh):
    """A model whose parameters have two meshes, for PyTorch that allows it."""
    try:
        from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, ShardPlacementResult
    except ImportError:
        return
    infos = [FSDPMeshInfo(mesh=mesh[name], shard_mesh_dim=0) for name in ("replicas", "shards")]
    where = lambda p: ShardPlacementResult(placement=None, mesh_info=infos[p.dim() - 1])  # noqa: E731
    yield "the model) has 2 groups of parameters", fully_shard(torch.nn.Linear(8, 4), mesh=mesh["shards"], shard_placement_fn=where)


def case_refused(mesh, net):
    refused(telegrad.UnsupportedError, "replicas and shards", lambda: telegrad.torch.fsdp(model(mesh), "dense", net))
    refused(telegrad.UnsupportedError, "fully_shard", lambda: telegrad.torch.fsdp(Model(), "dense", net))
    refused(telegrad.UnsupportedError, "float64", lambda: telegrad.torch.fsdp(model(mesh["shards"], torch.float64), "dense", net))
    refused(telegrad.SpecError, "densty", lambda: telegrad.torch.fsdp(model(mesh["shards"]), "topk:densty=1", net))
    for spec in ("dgc:clip=0.25", "fetchsgd"):
        refused(telegrad.ArgumentError, f"scaler: with {spec}",
                lambda: telegrad.torch.fsdp(model(mesh["shards"]), spec, net, scaler=torch.amp.GradScaler("cpu")))
    refused(telegrad.ArgumentError, "'*.bia' matches no parameter",
            lambda: telegrad.torch.fsdp(model(mesh["shards"]), "dense", net, rules={"*.bia": "dense"}))
    untouched = model(mesh["shards"])
    refused(telegrad.MismatchError, "1 replicas of", lambda: telegrad.torch.fsdp(untouched, "dense", telegrad.Network.local(1)[0]))
    train(untouched, 1)  # without a hook

    for optimizer, words in ((torch.optim.SGD, "group 1 has momentum=0.5"), (torch.optim.AdamW, "a AdamW adapts its steps")):
        ours = model(mesh["shards"])
        rest = [p for p in ours.parameters() if p is not ours.last.bias]
        more = {"momentum": 0.5} if optimizer is torch.optim.SGD else {}
        groups = optimizer([{"params": rest}, {"params": [ours.last.bias], **more}], lr=0.1)
        refused(telegrad.ArgumentError, words, lambda: telegrad.torch.fsdp(ours, "dgc", net, optimizer=groups))
    for words, made in groups_of_parameters(mesh):
        refused(telegrad.UnsupportedError, words, lambda: telegrad.torch.fsdp(made, "dense", net))

    class Path(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = torch.nn.Linear(16, 4), torch.nn.Linear(16, 4)

        def forward(self, x):
            return self.used(x)
    ours = fully_shard(Path(), mesh=mesh["shards"])
    telegrad.torch.fsdp(ours, "dense", net)
    refused(telegrad.UnsupportedError, "set_reduce_scatter_unused_params", lambda: ours(batch(0)[0]).sum().backward())
    yield "refused"


def main():
    net_of_all = begin()
    net_of_all.close()
    mesh = init_device_mesh("cpu", (REPLICAS, SIZE // REPLICAS), mesh_dim_names=("replicas", "shards"))
    net = telegrad.torch.Network(group=mesh["replicas"].get_group())
    assert (net.rank, net.size) == (RANK // (SIZE // REPLICAS), REPLICAS)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            for found in case(mesh, net):
                print(name, *(found if isinstance(found, tuple) else (found,)), flush=True)
    net.close()
    print("end")


if __name__ == "__main__":
    sys.exit(main())
