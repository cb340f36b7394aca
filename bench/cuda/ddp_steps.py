"""Steps of DistributedDataParallel on one GPU with several processes: milliseconds of a step for each way to exchange gradients.

    ddp_steps.py [--model resnet50|gpt2] [--ranks 2] [--steps 20] [--ways none gloo dgc:density=0.001 ...]      JSON lines

The processes share the GPU, and reach each other over 127.0.0.1. `none` exchanges nothing, so the rest of a way's time is what its
exchange costs; `gloo` is DDP's own all-reduce; `powersgd-hook` and `fp16-hook` are PyTorch's hooks over Gloo; others are methods of
telegrad.
"""
import argparse
import contextlib
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

WAYS = ("none", "gloo", "fp16-hook", "powersgd-hook", "dgc:density=0.001,warmup=0", "topk:density=0.01", "2bit", "efsign",
        "qsgd:bits=4,exchange=allgather", "powersgd:rank=4")


def resnet50():
    import torchvision
    model = torchvision.models.resnet50(weights=None).cuda()
    x, y = torch.randn(32, 3, 224, 224, device="cuda"), torch.randint(1000, (32,), device="cuda")
    return model, lambda ddp: torch.nn.functional.cross_entropy(ddp(x), y)


def gpt2():
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)).cuda()
    x = torch.randint(50257, (4, 512), device="cuda")

    def loss(ddp):
        logits = ddp(input_ids=x).logits
        return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), x[:, 1:].reshape(-1))
    return model, loss


def register(ddp, way, net, state):
    if way == "fp16-hook":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif way == "powersgd-hook":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hooks
        ddp.register_comm_hook(hooks.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2), hooks.powerSGD_hook)
    elif way not in ("none", "gloo"):
        import telegrad.torch
        state.append(telegrad.torch.ddp(ddp, way, net, total_steps=1000))


def measure(way, options, net):
    torch.manual_seed(1)
    model, loss_of = {"resnet50": resnet50, "gpt2": gpt2}[options.model]()
    ddp = DistributedDataParallel(model)
    hooks, times = [], []
    register(ddp, way, net, hooks)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.01)
    for step in range(-5, options.steps):
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with ddp.no_sync() if way == "none" else contextlib.nullcontext():
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(ddp)
            loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= 0:
            times.append(1e3 * (time.perf_counter() - begin))
    ratio = hooks[0].stats()["ratio"] if hooks else 1.0
    del ddp, model, optimizer
    torch.cuda.empty_cache()
    return sorted(times)[len(times) // 2], ratio


def rank_main(rank, options, way, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(options.ranks))
    import telegrad.torch
    torch.cuda.set_device(0)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    with telegrad.torch.Network() as net:
        ms, ratio = measure(way, options, net)
        if rank == 0:
            print(json.dumps({"model": options.model, "ranks": options.ranks, "way": way, "ms": round(ms, 2), "ratio": round(ratio, 1),
                              "device": torch.cuda.get_device_name(0)}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet50", choices=("resnet50", "gpt2"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("ddp_steps.py: no CUDA device")
    failed = False
    for way in options.ways:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        try:
            torch.multiprocessing.spawn(rank_main, (options, way, port), options.ranks)
        except Exception as error:
            failed = failed or way != "powersgd-hook"  # which not every PyTorch has with Gloo on a GPU
            print(json.dumps({"model": options.model, "way": way, "error": str(error).strip().splitlines()[-1]}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
