"""One rank of takeover_test.py: RANK SIZE PORT save|load FOLDER. Trains with each hook and saves; or loads what another number of ranks has
saved, and checks that the means over ranks of what waits to be sent are those that were saved."""
import pathlib
import sys

import torch
import torch.distributed as dist

from ddp_rank import RANK, SIZE, WHAT, begin, digest, model, train
import telegrad.torch

FOLDER = pathlib.Path(sys.argv[5])
SPECS = ("topk:density=0.05", "dgc:density=0.05,warmup=2", "powersgd:rank=2", "1bit:twoway=yes", "qsgd:bits=4")


def means(states):
    """By parameter and slot, over the ranks; of pieces that owners have, the sum, because each has another part."""
    found = {}
    for state in states:
        for name, slots in state["memory"].items():
            for key, data in slots.items():
                if data.dtype != torch.float32:
                    continue
                if key.startswith("owner/"):
                    key = "owner/" + name + key.split("/")[1]
                    found[key] = found.get(key, 0) + float(data.double().sum())
                else:
                    found[name, key] = found.get((name, key), 0) + data.double() / len(states)
    return found


def states_of(state):
    every = [None] * SIZE
    dist.all_gather_object(every, state)
    return every


def check(spec, hook, before, go_on):
    """The memory as it is loaded; as it is after DDP has cut its buckets; saved in between."""
    hook.load_state_dict(iter(before))
    after = means(states_of(hook.state_dict()))
    want = means(before)
    assert set(want) == set(after), spec
    for key, mean in want.items():
        if isinstance(key, str):  # each rank has all pieces, until it has cut its own
            mean *= 1 if len(before) == SIZE else SIZE
        torch.testing.assert_close(after[key], mean, rtol=1e-5, atol=1e-6)
    hook.load_state_dict(hook.state_dict())
    go_on(1)
    now = states_of(hook.state_dict())
    assert set(want) == set(means(now)), spec
    assert all(state["step"] == before[0]["step"] + 1 for state in now)
    go_on(2)


def run_ddp(net):
    for spec in SPECS:
        ddp = model()
        hook = telegrad.torch.ddp(ddp, spec, net)
        name = spec.partition(":")[0]
        if WHAT == "save":
            train(ddp, 4)
            torch.save({"model": ddp.module.state_dict(), "hook": hook.state_dict()}, FOLDER / f"{name}-{RANK}.pt")
            continue
        saved = [torch.load(path) for path in sorted(FOLDER.glob(f"{name}-*.pt"))]
        ddp.module.load_state_dict(saved[0]["model"])
        check(spec, hook, [s["hook"] for s in saved], lambda steps: train(ddp, steps, 4))
        print(spec, digest(ddp))


def run_fsdp():
    if int(torch.__version__.split(".")[0]) < 2:
        return
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (SIZE, 1), mesh_dim_names=("replicas", "shards"))
    net = telegrad.torch.Network(group=mesh["replicas"].get_group())
    sharded = model().module
    fully_shard(sharded, mesh=mesh["shards"])
    hook = telegrad.torch.fsdp(sharded, "topk:density=0.05", net)
    if WHAT == "save":
        train(sharded, 4)
        torch.save(hook.state_dict(), FOLDER / f"fsdp-{RANK}.pt")
    else:
        check("fsdp", hook, [torch.load(path) for path in sorted(FOLDER.glob("fsdp-*.pt"))], lambda steps: train(sharded, steps, 4))
    net.close()


def main():
    net = begin()
    run_ddp(net)
    run_fsdp()
    net.close()


if __name__ == "__main__":
    main()
