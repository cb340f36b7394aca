"""A small GPT, trained by DiLoCo: each rank takes AdamW steps of its own, and every 50 steps the ranks exchange what these
have changed. torchrun --nproc-per-node 4 gpt_diloco.py [--steps 200] [--strategy diloco:every=50] [--method int8]

It learns characters of tiny Shakespeare if TELEGRAD_DATA is a folder with tiny-shakespeare/input.txt, else of sentences that
it makes itself; nothing is downloaded. With --save FOLDER it saves a checkpoint at the end, and starts from the one there.
"""
import argparse
import os
import pathlib
import random
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


def text():
    path = pathlib.Path(os.environ.get("TELEGRAD_DATA", "."), "tiny-shakespeare", "input.txt")
    if path.exists():
        return path.read_text()
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--strategy", default="diloco:every=50")
    parser.add_argument("--method", default=None, help="how changes are coded: int8, topk:density=0.01, ...")
    parser.add_argument("--report", type=int, default=50, metavar="STEPS")
    parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    letters = sorted(set(text()))
    data = torch.tensor([letters.index(c) for c in text()])
    held_out, data = data[:len(data) // 20], data[len(data) // 20:]
    data = data[rank * len(data) // size:(rank + 1) * len(data) // size]  # each rank has text of its own

    torch.manual_seed(1)
    model = Gpt(len(letters))
    net = telegrad.torch.Network()
    optimizer = telegrad.torch.Local(torch.optim.AdamW(model.parameters(), 2e-3), model, options.strategy, net, method=options.method)
    begin, path = 0, options.save / f"rank-{rank}.pt" if options.save else None
    if path is not None and path.exists():
        state = torch.load(path)
        begin = state["step"]
        optimizer.load_state_dict(state["optimizer"])  # the parameters, too

    began = time.monotonic()
    for step in range(begin, begin + options.steps):
        optimizer.zero_grad()
        loss_of(model, data, step * size + rank).backward()
        optimizer.step()
        if (step + 1) % options.report == 0 or step + 1 == begin + options.steps:
            with optimizer.global_weights(), torch.no_grad():
                loss = sum(float(loss_of(model, held_out, seed)) for seed in range(4)) / 4
            if rank == 0:
                sent = optimizer.stats()["bytes_sent"] / (step + 1 - begin)
                print(f"step {step + 1}: loss {loss:.4f}, {sent:.0f} bytes sent a step, {time.monotonic() - began:.1f} s", flush=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"step": begin + options.steps, "optimizer": optimizer.state_dict()}, path)
    optimizer.finish()  # nothing may be under way when a rank leaves
    net.close()
    dist.barrier()


if __name__ == "__main__":
    main()
