"""A DistributedDataParallel script, with its gradients sent by telegrad: torchrun --nproc-per-node 4 ddp_patterns.py [METHOD]

A small network learns the glyph-like patterns that it draws itself, so nothing is downloaded.
"""
import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import telegrad.torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("method", nargs="?", default="topk:density=0.01", metavar="METHOD", help="how gradients are coded (%(default)s)")
METHOD = parser.parse_args().method


def batch(step, rank, size=64):
    """Ten patterns under noise."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randn(10, 256, generator=generator)
    generator.manual_seed(step * 1000 + rank)
    labels = torch.randint(10, (size,), generator=generator)
    return patterns[labels] + 4 * torch.randn(size, 256, generator=generator), labels


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    model = DistributedDataParallel(network)
    hook = telegrad.torch.ddp(model, METHOD, telegrad.torch.Network())  # the only line that is added

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(200):
        images, labels = batch(step, dist.get_rank())
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        with torch.no_grad():
            images, labels = batch(10000, 0, 2000)
            right = (model.module(images).argmax(1) == labels).float().mean()
        stats = hook.stats()
        print(f"{METHOD}: {100 * right:.1f} % right, {stats['bytes_sent'] / stats['steps']:.0f} bytes sent a step, "
              f"ratio {stats['ratio']:.1f}")
    dist.barrier()


if __name__ == "__main__":
    main()
