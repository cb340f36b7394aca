"""A worker of a parameter server (telegrad serve). Start as many as you like, anywhere, at any time: each trains on batches of
its own, begins with the server's parameters at the step of the others, and ends after step --steps of the job.

    telegrad serve --listen tcp://0.0.0.0:4242 --insecure --workers 8 --mode async:staleness=8
    python server.py tcp://host-a:4242 --save model.pt
    python server.py tcp://host-a:4242 --key w1.key --server-key tgk1:...       # of a server that has keys

A small network learns patterns under noise, so nothing is downloaded.
"""
import argparse
import math

import torch

import telegrad.torch


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="+", help="of the server; of several, those of all shards in order")
    parser.add_argument("--key", help="file of this worker's key, as telegrad key new makes it; without it: no encryption")
    parser.add_argument("--server-key", nargs="+", help="public key of the server; of several, those of all shards in order")
    parser.add_argument("--method", default="topk:density=0.05")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save", metavar="FILE", help="write the model there at the end")
    return parser.parse_args()


def batch(generator, size=64):
    """Ten patterns under noise."""
    patterns = torch.randn(10, 256, generator=torch.Generator().manual_seed(7))
    labels = torch.randint(10, (size,), generator=generator)
    return patterns[labels] + 4 * torch.randn(size, 256, generator=generator), labels


def main(o):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    key = telegrad.Key.load(o.key) if o.key else None
    with telegrad.torch.server(model, o.address, o.method, lr=o.rate, key=key, server_key=o.server_key, insecure=key is None) as opt:
        first = opt.first_step  # a worker that joins others continues at their step
        schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: (1 + math.cos(math.pi * (first + step) / max(1, o.steps))) / 2)
        generator = torch.Generator().manual_seed(opt.seat + opt.seats * first)  # its own part of the data
        for _ in range(first, o.steps):
            images, labels = batch(generator)
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            opt.step()
            schedule.step()
        stats = opt.stats()
    with torch.no_grad():
        images, labels = batch(torch.Generator().manual_seed(10000), 2000)
        right = (model(images).argmax(1) == labels).float().mean()
    print(f"worker {opt.seat} of at most {opt.seats}: {100 * right:.1f} % right, {stats['bytes_sent'] / max(1, stats['steps']):.0f} bytes "
          f"sent a step, ratio {stats['ratio']:.1f}")
    if o.save:
        torch.save(model.state_dict(), o.save)


if __name__ == "__main__":
    main(options())
