"""What telegrad.torch.ddp costs beside DistributedDataParallel without a hook: processor time a step, by which other programs of the
machine change little; and what its threads take while they wait. One process; with several, use torchrun.

    python bench/torch/overhead.py [--buckets 4] [--mb 25] [--steps 20]
    torchrun --nproc-per-node 2 bench/torch/overhead.py

Prints JSON lines, each without a hook ("plain") and with it ("hook"):

    python    a step whose buckets hold 16 elements, where all is Python's; and its share of a step of 50 ms
    buckets   a step whose buckets have --mb each, with the work of the exchange
    idle      a second between steps: processor time and switches of all threads of rank 0. A thread that spins takes 1000 ms
    late      with several ranks: the same for a step in which the others come a second late"""
import argparse
import json
import os
import resource
import time

import torch
import torch.distributed as dist
import telegrad.torch
from torch.nn.parallel import DistributedDataParallel

FEW = 16  # elements
PAUSE = 1.0  # seconds
STEP_MS = 50


class Layers(torch.nn.Module):
    """Parameters that cost no computing: the gradients are copies."""

    def __init__(self, count, n):
        super().__init__()
        self.layers = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(n)) for _ in range(count)])

    def forward(self):
        return sum(p.sum() for p in self.layers)


def made(count, n, hooked, net):
    """A model that has taken its first steps."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1
    model = DistributedDataParallel(Layers(count, n), bucket_cap_mb=4 * n / (1 << 20), gradient_as_bucket_view=True)
    hook = telegrad.torch.ddp(model, "dense", net) if hooked else None
    for _ in range(3):
        model().backward()
    if hook is not None:
        assert len(hook._buckets) == count, len(hook._buckets)
    return model


def seconds_of_step(count, n, steps, hooked, net):
    """(processor time, time) of a step, on this rank."""
    model = made(count, n, hooked, net)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        model().backward()
    return (time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps


def taken(action):
    """Processor time in milliseconds, and switches of the process's threads, while the action runs."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    action()
    after = resource.getrusage(resource.RUSAGE_SELF)
    milliseconds = 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cpu_ms": round(milliseconds, 3), "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw}


def pauses(count, hooked, net):
    """(idle, late), with buckets of a few elements."""
    model = made(count, FEW, hooked, net)
    dist.barrier()
    idle = taken(lambda: time.sleep(PAUSE))
    dist.barrier()
    loss = model()
    if dist.get_rank() > 0:
        time.sleep(PAUSE)
    return idle, taken(loss.backward)


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
    found = {"plain": pauses(options.buckets, False, None)}  # before there is a network, whose threads would count
    net = telegrad.torch.Network()
    found["hook"] = pauses(options.buckets, True, net)
    say = lambda **row: dist.get_rank() == 0 and print(json.dumps({"ranks": net.size, "buckets": options.buckets, **row}), flush=True)  # noqa: E731
    for i, what in enumerate(("idle", "late")[:1 + (net.size > 1)]):
        say(what=what, seconds=PAUSE, **{key: values[i] for key, values in found.items()})
    for what, n, steps in (("python", FEW, 50 * options.steps), ("buckets", int(options.mb * 1e6) // 4, options.steps)):
        times = {key: min(seconds_of_step(options.buckets, n, steps, key == "hook", net) for _ in range(3)) for key in ("plain", "hook")}
        more = 1000 * (times["hook"][0] - times["plain"][0])
        share = {f"percent_of_{STEP_MS}_ms": round(100 * more / STEP_MS, 3)} if what == "python" else {}
        say(what=what, bytes=4 * n, cpu_ms_and_ms={key: [round(1000 * s, 3) for s in pair] for key, pair in times.items()},
            cpu_ms_more=round(more, 3), **share)
    net.close()
    dist.barrier()


if __name__ == "__main__":
    main()
