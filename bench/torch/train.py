"""Trains a model of models.py as `telegrad train` trains its own with one worker: the same data, settings and meaning of the
settings, other random numbers. Prints JSON lines as `telegrad train --out` writes them (docs/records.md), those fields that
there are.

    train.py --model resnet20 --data cifar10:train=1-4,test=5 --batch 128 --epochs 30 \\
        --optimizer sgd:lr=0.1,momentum=0.9,weight_decay=0.0001 --lr-schedule cosine:warmup=1ep"""
import argparse
import itertools
import json
import lzma
import math
import os
import struct
import sys
import time
import torch
import torch.nn.functional as F
from data import open_data
from models import create, load_state, parse_spec

OPTIMIZERS = {
    "sgd": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0, "nesterov": False},
    "adam": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0},
    "adamw": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01},
}
SCHEDULES = {
    "constant": {"warmup": 0},
    "cosine": {"final": 0, "warmup": 0},
    "step": {"every": None, "at": None, "factor": 0.1, "warmup": 0},
    "onecycle": {"pct_start": 0.3, "div_factor": 25, "final_div_factor": 10000},
}


def settings(spec, kinds, more):
    name, given = parse_spec(spec)
    if name not in kinds:
        raise ValueError(f'"{spec}": there are {", ".join(kinds)}')
    known = {**kinds[name], **more}
    for key in given:
        if key not in known:
            raise ValueError(f'"{spec}": key "{key}": there are {", ".join(known)}')
    return name, {**known, **given}


def make_optimizer(spec, model):
    """The optimizer, its rate, and the norm that gradients are clipped to (0: never)."""
    name, keys = settings(spec, OPTIMIZERS, {"clip": 0, "exempt": "none"})
    exempt = keys.pop("exempt")
    for key, value in keys.items():
        if isinstance(value, str):
            raise ValueError(f'"{spec}": {key}={value} is no number')
    clip, decay = keys.pop("clip"), keys.pop("weight_decay")
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0 if exempt == "1d" else decay}]
    if name == "sgd":
        return torch.optim.SGD(groups, **keys), keys["lr"], clip
    betas = keys.pop("beta1"), keys.pop("beta2")
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(groups, betas=betas, **keys), keys["lr"], clip


def make_schedule(spec, lr, total, per_epoch):
    """The rate as a function of the step (0, 1, ...)."""
    name, keys = settings(spec, SCHEDULES, {})

    def duration(text):
        text = str(text)
        steps = float(text[:-2]) * per_epoch if text.endswith("ep") else float(text)
        return math.floor(steps + 0.5)  # halves up, as telegrad's round()

    def anneal(first, last, x):
        return last + (first - last) * (1 + math.cos(math.pi * x)) / 2

    if name == "onecycle":
        first, peak = lr / keys["div_factor"], keys["pct_start"] * total - 1
        least = first / keys["final_div_factor"]
        return lambda step: (anneal(first, lr, step / peak) if peak > 0 and step <= peak
                             else anneal(lr, least, min(1, (step - peak) / (total - 1 - peak))))
    warmup = duration(keys["warmup"])
    if name == "step" and keys["at"]:
        times = [duration(time_) for time_ in str(keys["at"]).split("+")]

    def rate(step):
        if name == "cosine":
            value = anneal(lr, keys["final"] * lr, max(0, step - warmup) / max(1, total - warmup))
        elif name == "step" and keys["at"]:
            value = lr * keys["factor"] ** sum(step >= t for t in times)
        elif name == "step":
            value = lr * keys["factor"] ** (step // duration(keys["every"] or "30ep"))
        else:
            value = lr
        return value * min(1, (step + 1) / warmup) if warmup else value

    return rate


class Run:
    """One worker, or one rank of several that share the batches of each epoch's order in turn."""

    def __init__(self, options, rank=0, world=1):
        self.options = options
        self.rank, self.world = rank, world
        torch.manual_seed(options.seed)
        self.generator = torch.Generator().manual_seed(options.seed)
        self.data = open_data(options.data)
        context = options.context or parse_spec(options.model)[1].get("context") or 35
        self.context = context if self.data.unit != "images" else 0
        self.format = {"memory_format": getattr(torch, options.format)}
        self.model = create(options.model, self.data.input(self.context)).to(**self.format)
        if options.weights:
            load_state(self.model, options.weights)
        self.stream = hasattr(self.model, "reset")
        self.per_epoch = self.data.steps(options.batch, self.context) // world
        if self.per_epoch < 1:
            raise ValueError("an epoch has no whole step: give a smaller --batch")
        self.steps = options.steps or options.epochs * self.per_epoch
        self.optimizer, lr, self.clip = make_optimizer(options.optimizer, self.model)
        self.rate = make_schedule(options.lr_schedule, lr, self.steps, self.per_epoch)
        self.rate(0)  # finds what is wrong in the schedule
        self.seconds = 0

    def loss(self, x, labels, reduction):
        if x.dim() == 4:
            x = x.contiguous(**self.format)
        logits = self.model(x)
        logits = logits.reshape(-1, logits.shape[-1])
        return F.cross_entropy(logits, labels.reshape(-1), ignore_index=-1, reduction=reduction), logits

    def batches(self):
        """This rank's batches of one epoch."""
        order = self.data.train_batches(self.options.batch, self.context, self.stream, self.generator)
        return itertools.islice(order, self.rank, self.per_epoch * self.world, self.world)

    def step(self, number_, x, labels):
        begin = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(number_)
        loss, _ = self.loss(x, labels, "mean")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.seconds += time.perf_counter() - begin
        return loss.item()

    def test(self):
        """Accuracy and loss over the whole test set."""
        self.model.eval()
        state = getattr(self.model, "state", None)
        if self.stream:
            self.model.reset()
        correct = total = loss = 0
        with torch.no_grad():
            for x, labels in self.data.test_batches(self.options.batch, self.context, self.stream):
                sum_, logits = self.loss(x, labels, "sum")
                loss += sum_.item()
                correct += (logits.argmax(1) == labels.reshape(-1)).sum().item()
                total += (labels >= 0).sum().item()
        if self.stream:
            self.model.state = state
        self.model.train()
        return correct / total, loss / total

    def close_epoch(self, step, losses):
        record = {"type": "epoch", "epoch": (step - 1) // self.per_epoch, "step": step,
                  "train_loss": sum(losses) / len(losses), "test_accuracy": None, "test_loss": None, "perplexity": None,
                  "seconds": self.seconds}
        if not self.options.no_eval:
            record["test_accuracy"], record["test_loss"] = self.test()
            if self.context:
                record["perplexity"] = math.exp(record["test_loss"]) if record["test_loss"] < 709 else math.inf
        say(record)
        return record

    def start(self, **more):
        o = self.options
        say({"type": "start", "program": f"PyTorch {torch.__version__}", "model": o.model, "optimizer": o.optimizer,
             "lr_schedule": o.lr_schedule, "world": self.world, "batch": o.batch, "context": self.context or None, "seed": o.seed,
             "steps": self.steps, "steps_per_epoch": self.per_epoch, "data": o.data,
             "params": sum(p.numel() for p in self.model.parameters()), "train_samples": self.data.count("train"),
             "test_samples": self.data.count("test"), **more})

    def save(self, step, last):
        """Written aside, then renamed."""
        file = self.options.checkpoint
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": step, "last": last,
                    "seconds": self.seconds, "random": torch.get_rng_state(), "order": self.generator.get_state()}, file + ".new")
        os.replace(file + ".new", file)

    def load(self):
        state = torch.load(self.options.checkpoint)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.seconds = state["seconds"]
        torch.set_rng_state(state["random"])
        self.generator.set_state(state["order"])
        return state["step"], state["last"]

    def run(self):
        self.model.train()
        step, losses, last = 0, [], {}
        if self.options.checkpoint and os.path.exists(self.options.checkpoint):
            step, last = self.load()
        else:
            self.start()
        while step < self.steps:
            if self.stream:
                self.model.reset()
            for x, labels in self.batches():
                losses.append(self.step(step, x, labels))
                step += 1
                if step % self.options.log_every == 0 or step == self.steps:
                    say({"type": "step", "step": step, "epoch": (step - 1) // self.per_epoch, "loss": losses[-1],
                         "lr": self.rate(step - 1), "seconds": self.seconds})
                if step == self.steps:
                    break
            last = self.close_epoch(step, losses)
            losses = []
            if self.options.checkpoint:
                self.save(step, last)
        say({**last, "type": "end", "epochs": step // self.per_epoch, "steps": step,
             "step_ms": 1e3 * self.seconds / max(1, step)})


def say(record):
    print(json.dumps({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}), flush=True)


def add_options(parser):
    """What ddp.py takes too."""
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=0, help="tokens in a sample; 0: the model's, or 35")
    parser.add_argument("--optimizer", default="sgd:lr=0.05,momentum=0.9")
    parser.add_argument("--lr-schedule", default="constant")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="in the place of epochs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("contiguous_format", "channels_last"), default="contiguous_format")
    parser.add_argument("--threads", type=int, default=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--no-eval", action="store_true")
    parser.add_argument("--weights", help="a file in the format safetensors to start from")
    parser.add_argument("--checkpoint", metavar="FILE", help="written after every epoch; a run whose file is there goes on from it")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        run = Run(options)
    except (EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError, lzma.LZMAError, struct.error) as error:
        print("train.py:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
    run.run()


if __name__ == "__main__":
    main()
