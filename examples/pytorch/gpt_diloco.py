"""A small GPT, trained by DiLoCo: each rank takes AdamW steps of its own, and every 50 steps the ranks exchange what these
have changed.

    torchrun --nproc-per-node 4 gpt_diloco.py input.txt --save run
    torchrun --nproc-per-node 3 gpt_diloco.py input.txt --save run --resume
    python gpt_diloco.py --strategy streaming:every=50 --method int8

It learns the characters of a text (tiny Shakespeare, for example). Without one it makes sentences itself.
"""
import argparse
import os
import pathlib
import random
import sys
import time

import torch
import torch.distributed as dist

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


class Gpt(torch.nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letter, self.place = torch.nn.Embedding(letters, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, letters))

    def forward(self, x):
        return self.head(self.blocks(self.letter(x) + self.place(torch.arange(x.shape[1]))))


def text_of(path):
    if path is not None:
        return path.read_text(encoding="utf-8")
    draw = random.Random(1)
    who, does, whom = ("the king", "a fool", "my lord", "the witch"), ("sees", "loves", "calls", "fears"), ("me", "him", "the crown")
    return "".join(f"{draw.choice(who)} {draw.choice(does)} {draw.choice(whom)}.\n" for _ in range(20000))


def batch(data, seed):
    """Stretches of text, and the same one character later."""
    begins = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=torch.Generator().manual_seed(seed))
    rows = torch.stack([data[b:b + CONTEXT + 1] for b in begins.tolist()])
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, data, seed):
    x, y = batch(data, seed)
    return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def save(folder, step, optimizer):
    """Each rank saves its own. A checkpoint that says of how many ranks it is is complete."""
    here = folder / f"step-{step}"
    here.mkdir(parents=True, exist_ok=True)
    torch.save(optimizer.state_dict(), here / f"rank-{dist.get_rank()}.pt")
    dist.barrier()
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:  # on each machine
        (here / "ranks").write_text(str(dist.get_world_size()))


def resume(folder, optimizer):
    """Continue from the newest checkpoint, with any number of ranks; the parameters, too. Returns its step."""
    found = [int(path.parent.name[5:]) for path in folder.glob("step-*/ranks")]
    if not found:
        sys.exit(f"--resume: {folder} has no checkpoint")
    here = folder / f"step-{max(found)}"
    ranks = int((here / "ranks").read_text())
    if ranks == dist.get_world_size():
        optimizer.load_state_dict(torch.load(here / f"rank-{dist.get_rank()}.pt"))
    else:
        optimizer.load_state_dict(torch.load(here / f"rank-{old}.pt") for old in range(ranks))
    return max(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, nargs="?", help="a file; none: sentences that it makes itself")
    parser.add_argument("--steps", type=int, default=200, help="in all, those before a --resume included")
    parser.add_argument("--strategy", default="diloco:every=50")
    parser.add_argument("--method", default=None, help="how changes are coded: int8, topk:density=0.01, ...")
    parser.add_argument("--report", type=int, default=50, metavar="STEPS")
    parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER", help="save a checkpoint there after each report, and the model at the end")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in the folder of --save")
    options = parser.parse_args()
    if options.resume and options.save is None:
        parser.error("--resume: allowed: with --save FOLDER")

    if "RANK" in os.environ:  # torchrun
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rank, size = dist.get_rank(), dist.get_world_size()
    text = text_of(options.text)
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    held_out, data = data[:len(data) // 20], data[len(data) // 20:]
    data = data[rank * len(data) // size:(rank + 1) * len(data) // size]  # each rank has text of its own
    if min(len(held_out), len(data)) < CONTEXT + 2:
        sys.exit(f"{options.text}: {len(text)} characters: allowed: at least {21 * size * (CONTEXT + 2)}")

    torch.manual_seed(1)
    model = Gpt(len(letters))
    net = telegrad.torch.Network()
    optimizer = telegrad.torch.Local(torch.optim.AdamW(model.parameters(), 2e-3), model, options.strategy, net, method=options.method)
    begin = resume(options.save, optimizer) if options.resume else 0

    began, sent = time.monotonic(), optimizer.stats()["bytes_sent"]
    for step in range(begin, options.steps):
        optimizer.zero_grad()
        loss_of(model, data, step * size + rank).backward()
        optimizer.step()
        if (step + 1) % options.report == 0 or step + 1 == options.steps:
            with optimizer.global_weights(), torch.no_grad():
                loss = sum(float(loss_of(model, held_out, seed)) for seed in range(4)) / 4
            if rank == 0:
                done = step + 1 - begin
                print(f"step {step + 1}: loss {loss:.4f}, {1000 * (time.monotonic() - began) / done:.0f} ms a step, "
                      f"{(optimizer.stats()['bytes_sent'] - sent) / done:.0f} bytes sent a step", flush=True)
            if options.save is not None:
                save(options.save, step + 1, optimizer)
    optimizer.finish()  # takes in the unfinished round: all ranks have the same weights now
    if rank == 0 and options.save is not None:
        torch.save(model.state_dict(), options.save / "model.pt")
    net.close()


if __name__ == "__main__":
    main()
