"""One rank of bench/peers.py, which starts four: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME are set.

    peers_rank.py JOBS.json

Trains for each job of the list with its system (systems.py). Rank 0 prints a JSON line for each."""
import argparse
import functools
import itertools
import json
import os
import re
import sys
import time
import torch
import torch.distributed as dist
import train
from systems import SYSTEMS, TIMEOUT, endless, timed

MOST = 20  # steps that are timed
LONG_S = 5  # a first step that takes as long is the only one of the warm-up


def sent():
    """Bytes that this host has sent, from its interface's counter; None on a machine's own loopback, which all ranks share."""
    with open("/proc/self/net/dev", encoding="ascii") as file:
        found = re.search(r"^ *eth0:(.*)$", file.read(), re.M)
    return int(found.group(1).split()[8]) if found and os.environ["GLOO_SOCKET_IFNAME"] == "eth0" else None


def drained():
    """What sent() says when nothing but heartbeats is on its way from this host: for 0.3 s, hardly more bytes."""
    dist.barrier()
    last = sent()
    while last is not None and dist.get_rank() == 0:
        time.sleep(0.3)
        before, last = last, sent()
        if last < before + 20000:
            break
    dist.barrier()
    return last


def agreed(value):
    """What rank 0 says."""
    box = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(box, 0)
    return float(box)


def steps_of(run, attached, job):
    """Part "steps": the time of whole periods after a warm-up, as many as there is time for."""
    period, batches, done = job["period"], endless(run), 0

    def go(periods):
        nonlocal done
        found = timed(attached, done, periods * period, batches)
        done += periods * period
        return found

    def seconds(found):
        return agreed(sum(ms for ms, _, _ in found) / 1e3)

    before = drained()
    found = go(1)
    took = seconds(found)
    if period == 1 or took < job["budget"] / 2:  # else the first period is all there is time for
        for _ in range(job["warm"] - 1 if took < LONG_S or job["warm"] > 2 else 0):
            took = seconds(go(1))
        count = int(agreed(max(1, min(job["budget"] / max(took, 1e-3), MOST / period))))
        before = drained()
        found = go(count)
    bytes_step = None if before is None else (drained() - before) / len(found)
    return {"ms": [round(ms, 2) for ms, _, _ in found], "bytes_step": bytes_step, "batches_step": sum(n for _, _, n in found) / len(found)}


def tested(run, attached):
    """Loss and accuracy of the common weights on 256 images, or windows of text: each rank looks at a part."""
    model, parts = getattr(run.model, "module", run.model), 4
    sums = torch.zeros(3, dtype=torch.float64)
    with attached.weights(), torch.no_grad():
        model.eval()
        order = run.data.test_batches(256 // parts, run.context, run.stream)
        for x, labels in itertools.islice(order, run.rank, parts, run.world):
            logits = model(x)
            logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
            sums += torch.tensor([float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum")),
                                  float((logits.argmax(1) == labels).sum()), labels.numel()])
        model.train()
    dist.all_reduce(sums)
    return float(sums[0] / sums[2]), float(sums[1] / sums[2])


def loss_of(run, attached, job):
    """Part "loss": the mean loss of the ranks' batches in each step, and tests."""
    batches, losses, tests, taken = endless(run), [], [], 0
    while len(losses) < job["steps"]:
        found = timed(attached, len(losses), min(job["test_every"], job["steps"] - len(losses)), batches)
        losses += [loss for _, loss, _ in found]
        taken += sum(n for _, _, n in found)
        if len(losses) == job["steps"]:
            attached.finish()
        loss, accuracy = tested(run, attached)
        tests.append({"step": len(losses), "test_loss": round(loss, 5), "test_accuracy": round(accuracy, 5)})
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    return {"samples": taken * run.options.batch * run.world, "train_loss": [round(loss, 4) for loss in (mean / run.world).tolist()],
            "tests": tests}


PARTS = {"steps": steps_of, "loss": loss_of}


def do(job):
    options = argparse.Namespace(model=job["model_spec"], data=job["data"], batch=job["batch"], context=job["context"],
                                 optimizer=job["optimizer"], lr_schedule="constant", epochs=1, steps=job["steps"], seed=job["seed"],
                                 format="contiguous_format", weights=None, no_eval=True, checkpoint=None)
    run = train.Run(options, dist.get_rank(), dist.get_world_size())
    run.model.train()
    with SYSTEMS[job["system"]](run, job) as attached:
        record = PARTS[job["part"]](run, attached, job)
        if job["part"] == "steps":
            attached.finish()
    dist.barrier()
    record["params"] = sum(p.numel() for p in run.model.parameters())
    return {**record, **({"version": attached.version} if attached.version else {})}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    torch.set_num_threads(1)
    train.open_data = functools.lru_cache(maxsize=None)(train.open_data)  # jobs share what they read
    dist.init_process_group("gloo", timeout=TIMEOUT)
    for job in jobs:
        record = do(job)
        if dist.get_rank() == 0:
            print(json.dumps({**{key: job[key] for key in ("part", "model", "link", "row", "repeat")}, "torch": torch.__version__, **record}),
                  flush=True)
    sys.stdout.flush()
    os._exit(0)  # threads of the systems may wait for each other


if __name__ == "__main__":
    main()
