"""ResNet-18 on CIFAR-10 in DistributedDataParallel, with its gradients sent by telegrad.

    torchrun --nproc-per-node 4 ddp_resnet.py cifar-10-batches-py --method topk:density=0.01 --save run
    torchrun --nproc-per-node 3 ddp_resnet.py cifar-10-batches-py --method topk:density=0.01 --save run --resume
    python ddp_resnet.py cifar-10-batches-py

The folder is CIFAR-10 as its authors distribute it, for Python or binary. Without one the images are synthetic.
"""
import argparse
import lzma
import math
import os
import pathlib
import pickle
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import telegrad.torch


class Block(torch.nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = torch.nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = torch.nn.BatchNorm2d(after), torch.nn.BatchNorm2d(after)
        self.short = torch.nn.Sequential()
        if stride != 1 or before != after:
            self.short = torch.nn.Sequential(torch.nn.Conv2d(before, after, 1, stride, bias=False), torch.nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.short(x))


def resnet18(width):
    blocks, before = [], width
    for after, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        blocks += [Block(before, after, stride), Block(after, after, 1)]
        before = after
    return torch.nn.Sequential(torch.nn.Conv2d(3, width, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU(), *blocks,
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8 * width, 10))


def read(path):
    """Images (n, 3, 32, 32) and labels of a file of CIFAR-10."""
    with lzma.open(path) if path.suffix == ".xz" else open(path, "rb") as file:
        if ".bin" in path.name:
            rows = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(-1, 1 + 3072)
            return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()
        data = pickle.load(file, encoding="bytes")
        return torch.from_numpy(data[b"data"]).view(-1, 3, 32, 32), torch.tensor(data[b"labels"])


def load(folder, count):
    """Images and labels to train with, and to test with."""
    if folder is None:
        generator = torch.Generator().manual_seed(7)
        patterns = torch.randint(256, (10, 3, 32, 32), generator=generator)
        labels = torch.randint(10, (count + count // 5,), generator=generator)
        noise = torch.randint(256, (len(labels), 3, 32, 32), generator=generator)
        images = ((patterns[labels] + 3 * noise) // 4).to(torch.uint8)
        return images[:count], labels[:count], images[count:], labels[count:]
    files = sorted(folder.glob("data_batch_[1-5]*")), sorted(folder.glob("test_batch*"))
    if [len(f) for f in files] != [5, 1]:
        sys.exit(f"{folder}: allowed: a folder with data_batch_1 to 5 and test_batch of CIFAR-10")
    train, test = ([torch.cat(parts) for parts in zip(*map(read, group))] for group in files)
    return train[0][:count], train[1][:count], test[0][:count], test[1][:count]


def floats(images):
    return (images.float() - 120) / 64


def save(folder, epoch, model, optimizer, hook):
    """Each rank saves its memory of what it has not sent yet; one on each machine also what all ranks have alike, at the end:
    a checkpoint that has model.pt is complete."""
    rank, here = dist.get_rank(), folder / f"epoch-{epoch}"
    here.mkdir(parents=True, exist_ok=True)
    torch.save(hook.state_dict(), here / f"telegrad-{rank}.pt")
    dist.barrier()
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        torch.save({"epoch": epoch, "ranks": dist.get_world_size(), "model": model.module.state_dict(), "optimizer": optimizer.state_dict()},
                   here / f"model-{rank}.part")
        os.replace(here / f"model-{rank}.part", here / "model.pt")
    dist.barrier()


def resume(folder, model, optimizer, hook):
    """Continue from the newest checkpoint, with any number of ranks. Returns its epoch."""
    found = [int(path.parent.name[6:]) for path in folder.glob("epoch-*/model.pt")]
    if not found:
        sys.exit(f"--resume: {folder} has no checkpoint")
    here = folder / f"epoch-{max(found)}"
    saved = torch.load(here / "model.pt")
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if saved["ranks"] == dist.get_world_size():
        hook.load_state_dict(torch.load(here / f"telegrad-{dist.get_rank()}.pt"))
    else:
        hook.load_state_dict(torch.load(here / f"telegrad-{old}.pt") for old in range(saved["ranks"]))
    return saved["epoch"]


def accuracy(model, images, labels):
    """Each rank looks at a part of the images."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model.eval()
    with torch.no_grad():
        right = sum((model.module(floats(x)).argmax(1) == y).sum()
                    for x, y in zip(images[rank::size].split(256), labels[rank::size].split(256)))
    model.train()
    total = torch.tensor([float(right)])
    dist.all_reduce(total)
    return float(total) / len(labels)


def say(text, end="\n"):
    """Rank 0 prints a line, on a terminal in the place of an unfinished one."""
    if dist.get_rank() == 0:
        print(("\r\033[K" if sys.stdout.isatty() else "") + text, end=end, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="CIFAR-10; none: synthetic images")
    parser.add_argument("--method", default="topk:density=0.01", help="how gradients are sent: dense, dgc:density=0.001, powersgd:rank=4, ...")
    parser.add_argument("--epochs", type=int, default=10, help="in all, those before a --resume included")
    parser.add_argument("--batch", type=int, default=32, help="images of each rank in a step")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate, which falls to 0 as a cosine")
    parser.add_argument("--width", type=int, default=64, help="channels of the first layers; 64: ResNet-18")
    parser.add_argument("--images", type=int, default=50000, help="to train with, at most")
    parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER", help="save a checkpoint there after each epoch")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in the folder of --save")
    options = parser.parse_args()
    if options.resume and options.save is None:
        parser.error("--resume: allowed: with --save FOLDER")

    if "RANK" in os.environ:  # torchrun
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels, test_images, test_labels = load(options.folder, options.images)
    steps = len(images) // (options.batch * size)
    if options.folder is None:
        say("no folder of CIFAR-10 is given: the images are synthetic")
    if steps == 0:
        sys.exit(f"--images {len(images)}: allowed: at least {options.batch * size}, a batch for each rank")

    torch.manual_seed(1)
    model = DistributedDataParallel(resnet18(options.width))
    own_momentum = options.method.startswith(("dgc", "csc", "fetchsgd"))  # these apply momentum themselves
    optimizer = torch.optim.SGD(model.parameters(), options.rate, momentum=0 if own_momentum else 0.9, weight_decay=5e-4)
    net = telegrad.torch.Network()
    hook = telegrad.torch.ddp(model, options.method, net, optimizer=optimizer, total_steps=options.epochs * steps, steps_per_epoch=steps)
    begin = 0
    if options.resume:
        model(floats(images[:2])).sum().backward()  # DDP cuts its buckets anew after its first pass
        begin = resume(options.save, model, optimizer, hook)

    for epoch in range(begin, options.epochs):
        for group in optimizer.param_groups:
            group["lr"] = options.rate * (1 + math.cos(math.pi * epoch / options.epochs)) / 2
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))[rank::size]
        began, total, sent = time.monotonic(), 0.0, hook.stats()["bytes_sent"]
        for step in range(steps):
            chosen = order[step * options.batch:(step + 1) * options.batch]
            loss = torch.nn.functional.cross_entropy(model(floats(images[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
            stats = hook.stats()
            figures = (f"loss {total / (step + 1):.4f}, {1000 * (time.monotonic() - began) / (step + 1):.0f} ms a step, "
                       f"{(stats['bytes_sent'] - sent) / (step + 1):.0f} bytes sent a step, ratio {stats['ratio']:.1f}")
            if sys.stdout.isatty():
                say(f"epoch {epoch + 1}, step {step + 1} of {steps}: {figures}", end="")
        right = accuracy(model, test_images, test_labels)
        say(f"epoch {epoch + 1}: {figures}, {100 * right:.1f} % right")
        if options.save is not None:
            save(options.save, epoch + 1, model, optimizer, hook)
    net.close()


if __name__ == "__main__":
    main()
