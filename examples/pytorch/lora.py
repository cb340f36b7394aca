"""LoRA in DistributedDataParallel: the linear layers of a trained transformer get adapters of a low rank. Only these are trained, and
only their gradients are sent.

    torchrun --nproc-per-node 4 lora.py input.txt --save run
    torchrun --nproc-per-node 3 lora.py input.txt --save run --resume
    python lora.py --method powersgd:rank=1

The transformer is small. Rank 0 trains it on sentences that it makes itself, in the place of a download, which takes some seconds.
The adapters then learn the text, or sentences of another kind.
"""
import argparse
import os
import pathlib
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import telegrad.torch

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 4, 2, 16


class Block(torch.nn.Module):
    """Causal attention, then two layers for each position."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.feed = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.mix(self.norm1(x)).chunk(3, -1))
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weight = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed(self.norm2(x))


class Transformer(torch.nn.Module):
    """Predicts the next byte at each position."""

    def __init__(self):
        super().__init__()
        self.byte, self.place = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 256)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.byte(x) + self.place(torch.arange(x.shape[1])))))


class Lora(torch.nn.Module):
    """A linear layer that stays as it is, plus up(down(x)), which begins as zero."""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear
        self.down = torch.nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features ** 0.5)
        self.up = torch.nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + x @ self.down.t() @ self.up.t()


def adapt(model, rank):
    """Freeze the model, and give each linear layer an adapter."""
    model.requires_grad_(False)
    for path, linear in [(path, m) for path, m in model.named_modules() if isinstance(m, torch.nn.Linear)]:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, Lora(linear, rank))


def adapters(model):
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def sentences(who, does, whom):
    draw = random.Random(1)
    text = "".join(f"{draw.choice(who)} {draw.choice(does)} {draw.choice(whom)}.\n" for _ in range(5000))
    return torch.tensor(list(text.encode()))


def loss_of(model, data, seed):
    """Of stretches of the text, and the same one byte later."""
    begins = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=torch.Generator().manual_seed(seed))
    rows = torch.stack([data[b:b + CONTEXT + 1] for b in begins.tolist()])
    return torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def pretrained(steps):
    """A trained model: yours would come from a file."""
    model = Transformer()
    data = sentences(("the king", "a fool", "my lord", "the witch"), ("sees", "loves", "calls", "fears"), ("me", "him", "the crown"))
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(steps if dist.get_rank() == 0 else 0):  # DistributedDataParallel gives it to the other ranks
        optimizer.zero_grad()
        loss_of(model, data, step).backward()
        optimizer.step()
    return model


def save(folder, step, model, optimizer, hook):
    """Each rank saves its memory of what it has not sent yet; one on each machine also the adapters and, once, the model that they
    adapt. A checkpoint that has adapters.pt is complete."""
    rank, here = dist.get_rank(), folder / f"step-{step}"
    here.mkdir(parents=True, exist_ok=True)
    torch.save(hook.state_dict(), here / f"telegrad-{rank}.pt")
    dist.barrier()
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        if not (folder / "base.pt").exists():
            base = {name: value for name, value in model.state_dict().items() if name not in adapters(model)}
            torch.save(base, folder / f"base-{rank}.part")
            os.replace(folder / f"base-{rank}.part", folder / "base.pt")
        torch.save({"ranks": dist.get_world_size(), "adapters": adapters(model), "optimizer": optimizer.state_dict()},
                   here / f"adapters-{rank}.part")
        os.replace(here / f"adapters-{rank}.part", here / "adapters.pt")


def resume(folder, model, optimizer, hook):
    """Continue from the newest checkpoint, with any number of ranks. Returns its step."""
    found = [int(path.parent.name[5:]) for path in folder.glob("step-*/adapters.pt")]
    if not found:
        sys.exit(f"--resume: {folder} has no checkpoint")
    here = folder / f"step-{max(found)}"
    saved = torch.load(here / "adapters.pt")
    model.load_state_dict({**torch.load(folder / "base.pt"), **saved["adapters"]})
    optimizer.load_state_dict(saved["optimizer"])
    if saved["ranks"] == dist.get_world_size():
        hook.load_state_dict(torch.load(here / f"telegrad-{dist.get_rank()}.pt"))
    else:
        hook.load_state_dict(torch.load(here / f"telegrad-{old}.pt") for old in range(saved["ranks"]))
    return max(found)


def say(text, end="\n"):
    """Rank 0 prints a line, on a terminal in the place of an unfinished one."""
    if dist.get_rank() == 0:
        print(("\r\033[K" if sys.stdout.isatty() else "") + text, end=end, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, nargs="?", help="a file; none: sentences that it makes itself")
    parser.add_argument("--method", default="qsgd:bits=4", help="how gradients are sent: dense, fp16, powersgd:rank=1, ...")
    parser.add_argument("--rank", type=int, default=8, help="of the adapters")
    parser.add_argument("--steps", type=int, default=300, help="in all, those before a --resume included")
    parser.add_argument("--base-steps", type=int, default=300, help="of the model that is adapted, on rank 0")
    parser.add_argument("--report", type=int, default=50, metavar="STEPS")
    parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER", help="save a checkpoint there after each report")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in the folder of --save")
    options = parser.parse_args()
    if options.resume and options.save is None:
        parser.error("--resume: allowed: with --save FOLDER")

    if "RANK" in os.environ:  # torchrun
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rank, size = dist.get_rank(), dist.get_world_size()
    if options.text is not None:
        data = torch.tensor(list(options.text.read_bytes()))
    else:
        data = sentences(("a ship", "the storm", "my boat", "the sea"), ("takes", "finds", "leaves", "carries"), ("us", "the shore", "them"))
    if len(data) < 10 * (CONTEXT + 2):
        sys.exit(f"{options.text}: {len(data)} bytes: allowed: at least {10 * (CONTEXT + 2)}")
    held_out, data = data[:len(data) // 10], data[len(data) // 10:]

    torch.manual_seed(1)
    model = pretrained(0 if options.resume else options.base_steps)
    torch.manual_seed(2)
    adapt(model, options.rank)
    ddp = DistributedDataParallel(model)
    net = telegrad.torch.Network()
    hook = telegrad.torch.ddp(ddp, options.method, net, total_steps=options.steps)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 4e-3)
    begin = 0
    if options.resume:
        loss_of(ddp, data, 0).backward()  # DDP cuts its buckets anew after its first pass
        begin = resume(options.save, model, optimizer, hook)
    trained, all_of_them = sum(p.numel() for p in adapters(model).values()), sum(p.numel() for p in model.parameters())
    say(f"{trained} of {all_of_them} parameters are trained")

    began, sent = time.monotonic(), hook.stats()["bytes_sent"]
    for step in range(begin, options.steps):
        loss = loss_of(ddp, data, step * size + rank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stats, done = hook.stats(), step + 1 - begin
        figures = (f"{1000 * (time.monotonic() - began) / done:.0f} ms a step, {(stats['bytes_sent'] - sent) / done:.0f} bytes sent a step, "
                   f"ratio {stats['ratio']:.1f}")
        if sys.stdout.isatty():
            say(f"step {step + 1}: loss {float(loss.detach()):.4f} of a batch, {figures}", end="")
        if (step + 1) % options.report == 0 or step + 1 == options.steps:
            with torch.no_grad():
                loss = sum(float(loss_of(model, held_out, seed)) for seed in range(4)) / 4
            say(f"step {step + 1}: loss {loss:.4f}, {figures}")
            if options.save is not None:
                save(options.save, step + 1, model, optimizer, hook)
    net.close()


if __name__ == "__main__":
    main()
