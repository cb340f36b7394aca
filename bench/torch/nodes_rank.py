"""One rank of bench/nodes.py, with the variables of torchrun: JOBS is a JSON list of [levels, method]. Rank 0 prints a line for each: the
times of its steps and what its machine has sent."""
import json
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist

EACH, WARM, STEPS = 2, 4, 15


def sent():
    """Bytes on the machine's interface so far."""
    with open("/proc/net/dev", encoding="ascii") as file:
        return next(int(line.split()[9]) for line in file if line.strip().startswith("eth0:"))


def groups(rank, size):
    """Of the ranks with this rank's place in all nodes, and of this rank's node."""
    across = [dist.new_group(range(place, size, EACH)) for place in range(EACH)]
    nodes = [dist.new_group(range(first, first + EACH)) for first in range(0, size, EACH)]
    return across[rank % EACH], nodes[rank // EACH]


def main():
    import telegrad.torch
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    across, node = groups(rank, size)
    flat, between = telegrad.torch.Network(), telegrad.torch.Network(group=across)
    for levels, method in json.loads(sys.argv[1]):
        torch.manual_seed(1)
        warnings.simplefilter("ignore")  # of an optimizer that is not there
        layers = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
                                     torch.nn.Linear(1024, 256))
        model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1)
        if levels == 1:
            telegrad.torch.ddp(model, method, flat)
        elif levels == 2:
            telegrad.torch.ddp(model, method, between, node=node)
        ms, begin = [], 0
        for step in range(WARM + STEPS):
            if step == WARM:
                dist.barrier()
                begin = sent()
            start = time.monotonic()
            model(torch.randn(8, 256)).square().mean().backward()
            ms.append(1000 * (time.monotonic() - start))
        dist.barrier()
        if rank == 0:
            print(json.dumps({"levels": levels, "method": method, "elements": sum(p.numel() for p in model.parameters()),
                              "ms": [round(t, 2) for t in ms[WARM:]], "bytes": round((sent() - begin) / STEPS)}), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
