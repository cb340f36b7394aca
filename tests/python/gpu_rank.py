"""One rank of ddp_gpu_test.py: RANK SIZE PORT. Prints the same on all ranks."""
import copy
import os
import sys

import torch
import torch.distributed as dist

import telegrad
import telegrad.torch
from local_models import Fixed, SPECS as LOCAL_SPECS

RANK, SIZE, PORT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
N, STEPS = 30011, 4
SPECS = ("topk:density=0.01", "dgc:density=0.01,warmup=2", "2bit", "1bit", "1bit:weights=no", "efsign", "qsgd:bits=4", "int8:exchange=allgather",
         "fp16:exchange=allgather", "powersgd:rank=2", "randomk:density=0.1", "dense")


def gradient(step):
    generator = torch.Generator().manual_seed(100 * step + RANK)
    return torch.randn(N, generator=generator)


def means(net, spec, on_gpu, stream):
    reducer = telegrad.Reducer(spec, N, net, segments=[(100, 300), (11,)], seed=3, device=0 if on_gpu else None, total_steps=20)
    found = []
    with torch.cuda.stream(stream):
        for step in range(STEPS):
            x = gradient(step)
            if on_gpu:
                x = (x.cuda() * 2) / 2  # kernels that are still under way when the mean begins
            reducer.mean_(x)
            found.append((x + 0).cpu())
    state = reducer.state_dict()["memory"]
    reducer.close()
    return found, state


def check(spec, wanted, found):
    assert all(torch.equal(a, b) for a, b in zip(wanted[0], found[0])), spec
    assert wanted[1] == found[1], f"{spec}: other memory"


def trained(net, with_graph, with_hook, node=None):
    """Parameters of a model after some steps of DDP with Gloo or with the hook. The passes may be CUDA graphs."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).cuda()
    if with_graph:
        model = torch.cuda.make_graphed_callables(model, (torch.randn(8, 16, device="cuda"),))
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    hook = telegrad.torch.ddp(ddp, "dense:exchange=allgather", net, node=node) if with_hook else None
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * step + RANK)
        x = torch.randn(8, 16, generator=generator).cuda()
        optimizer.zero_grad(set_to_none=True)
        ddp(x).square().mean().backward()
        optimizer.step()
    assert hook is None or hook.stats()["steps"] == STEPS
    return [p.detach().cpu() for p in ddp.parameters()]


def moved(net, spec, device):
    """Parameters after some steps of Local, whose sums are exact, and after some more from a saved state."""
    model = Fixed().to(device)
    opt = telegrad.torch.Local(torch.optim.SGD(model.parameters(), 0.25), model, spec, net, bucket_bytes=16)

    def go(begin, end):
        for step in range(begin, end):
            model.give(RANK, step)
            opt.step()
        return torch.cat([p.detach().cpu().reshape(-1) for p in model.parameters()])
    found = [go(0, 5)]
    state = copy.deepcopy(opt.state_dict())
    with opt.global_weights():
        found.append(torch.cat([p.detach().cpu().reshape(-1) for p in model.parameters()]))
    found.append(go(5, 9))
    opt.load_state_dict(state)
    found.append(go(5, 9))
    opt.finish()
    opt.close()
    return torch.stack(found)


def halves():
    """Copies there and back of what is neither float32 nor contiguous."""
    from telegrad._tensors import Tensor, are_finite, pull, push
    module = torch.nn.Linear(5, 3).cuda()
    for values in (torch.randn(3, 5).bfloat16(), torch.randn(3, 5).half(), torch.randn(5, 3).t(), torch.randn(3, 5)):
        module.weight = torch.nn.Parameter(values.cuda())
        own = Tensor(module, "weight", module.weight, True)
        assert own.copied and own.memory.is_pinned() and torch.equal(own.memory, values.float())
        own.memory.mul_(2)
        push([own])
        assert torch.equal(module.weight.detach().cpu(), values * 2)
        own.memory.zero_()
        pull([own])
        assert torch.equal(own.memory, values.float() * 2)
    large = torch.full((4,), 6e4, device="cuda", dtype=torch.float16)
    assert are_finite([large, torch.ones(3)]) and not are_finite([large / 0, torch.ones(3)])


class Given(Fixed):
    """Its gradients are those of `give`."""

    def forward(self, step):
        wanted = Fixed()
        wanted.give(RANK, step)
        return sum((p * w.grad.to(p.device)).sum() for p, w in zip(self.parameters(), wanted.parameters()))


def alone(device):
    """A group of this rank. NCCL takes no two ranks on one GPU."""
    return [dist.new_group([rank], backend="nccl" if device == "cuda" else "gloo") for rank in range(SIZE)][RANK]


def sharded(net, device):
    """Parameters after some steps of FSDP2, each rank with all of them: a replica of one shard."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    model = fully_shard(Given().to(device), mesh=DeviceMesh.from_group(alone(device), device))
    hook = telegrad.torch.fsdp(model, "topk:density=0.2", net)
    optimizer = torch.optim.SGD(model.parameters(), 0.25)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        model(step).backward()
        optimizer.step()
    assert hook.stats()["steps"] == STEPS
    return torch.cat([p.full_tensor().detach().cpu().reshape(-1) for p in model.parameters()])


os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
with telegrad.torch.Network() as net:
    side = torch.cuda.Stream()
    for spec in SPECS:
        wanted = means(net, spec, False, torch.cuda.default_stream())
        check(spec, wanted, means(net, spec, True, torch.cuda.default_stream()))
        check(spec, wanted, means(net, spec, True, side))
        check(spec, wanted, means(net, spec, RANK == 0, side))  # the other one has its array on the host
        print(spec)
    reducer = telegrad.Reducer("dense", 4, net, device=0)
    half = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16, device="cuda")
    print(reducer.mean_(half).tolist())
    for wrong in (torch.ones(4), torch.ones(5, device="cuda"), [1.0] * 4):
        try:
            reducer.mean_(wrong)
            raise AssertionError("no error")
        except telegrad.ArgumentError as error:
            print(str(error).partition(":")[0])
    for with_graph in (False, True):
        assert all(torch.equal(a, b) for a, b in zip(trained(net, with_graph, False), trained(net, with_graph, True))), with_graph
    print("graphs")
    assert all(torch.equal(a, b) for a, b in zip(trained(net, False, True), trained(net, False, True, alone("cuda"))))
    print("node")
    for spec in LOCAL_SPECS:
        assert torch.equal(moved(net, spec, "cpu"), moved(net, spec, "cuda")), spec
        print(spec)
    halves()
    print("halves")
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6):
        assert torch.equal(sharded(net, "cpu"), sharded(net, "cuda"))
        print("sharded")
dist.destroy_process_group()
print("end")
