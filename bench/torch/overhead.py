"""What telegrad.torch.ddp costs beside DistributedDataParallel without a hook: processor time a step, by which other programs of the
machine change little. One process; with several, use torchrun.

    python bench/torch/overhead.py [--buckets 4] [--mb 25] [--steps 20]

Prints JSON lines: for gradients of a few bytes, where all is Python's, and for those of --mb each."""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import telegrad.torch
from torch.nn.parallel import DistributedDataParallel


class Layers(torch.nn.Module):
    """Parameters that cost no computing: the gradients are copies."""

    def __init__(self, count, n):
        super().__init__()
        self.layers = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(n)) for _ in range(count)])

    def forward(self):
        return sum(p.sum() for p in self.layers)


def seconds_of_step(count, n, steps, hooked, net):
    """(processor time, time) of a step, on rank 0."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1
    model = DistributedDataParallel(Layers(count, n), bucket_cap_mb=4 * n / (1 << 20), gradient_as_bucket_view=True)
    hook = telegrad.torch.ddp(model, "dense", net) if hooked else None
    for _ in range(3):
        model().backward()
    if hook is not None:
        assert len(hook._buckets) == count, len(hook._buckets)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        model().backward()
    return (time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--mb", type=float, default=25, help="megabytes of a bucket")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29511"))
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    net = telegrad.torch.Network()
    for name, n, steps in (("python", 16, 50 * options.steps), ("buckets", int(options.mb * 1e6) // 4, options.steps)):
        found = {}
        for hooked in (False, True):
            found["hook" if hooked else "plain"] = min(seconds_of_step(options.buckets, n, steps, hooked, net) for _ in range(3))
        if dist.get_rank() == 0:
            row = {key: [round(1000 * s, 3) for s in times] for key, times in found.items()}
            print(json.dumps({"what": name, "ranks": net.size, "buckets": options.buckets, "bytes": 4 * n, "cpu_ms_and_ms": row,
                              "cpu_ms_more": round(1000 * (found["hook"][0] - found["plain"][0]), 3)}), flush=True)
    net.close()
    dist.barrier()


if __name__ == "__main__":
    main()
