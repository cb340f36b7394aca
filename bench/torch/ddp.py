"""Trains on images as train.py does, on the ranks of torch.distributed: DistributedDataParallel over Gloo, plain or with one
of PyTorch's own communication hooks, or with telegrad's. Start each rank as torchrun does (RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT):

    torchrun --nproc-per-node 4 bench/torch/ddp.py --hook powersgd:rank=1,start=46 --test-every 26
    torchrun --nproc-per-node 4 bench/torch/ddp.py --telegrad dgc:density=0.001,warmup=46 --test-every 26

Rank 0 prints JSON lines: `start`; `test`, with the step, the seconds of training until then, and the test accuracy; `end`.
The clock starts when all ranks have the initial parameters. Weights to be tested are put aside, which the clock leaves out,
and tested after the last step."""
import argparse
import datetime
import lzma
import os
import struct
import sys
import time
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel
from train import Run, add_options, say, settings

# localsgd: all-reduce for `start` steps, then local steps, and the mean of the parameters every so many.
HOOKS = {"none": {}, "fp16": {}, "powersgd": {"rank": 1, "start": 1000}, "localsgd": {"every": 4, "start": 100}}
TIMEOUT = datetime.timedelta(seconds=120)


def register(model, optimizer, hook, keys):
    """Give the model the hook; returns the optimizer that goes with it."""
    if hook == "fp16":
        model.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=keys["rank"], start_powerSGD_iter=keys["start"])
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif hook == "localsgd":
        state = post_localSGD_hook.PostLocalSGDState(None, None, keys["start"], post_local_gradient_allreduce=False)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        return PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(keys["every"], warmup_steps=keys["start"]))
    return optimizer


def register_telegrad(run, method):
    """Give the model telegrad's hook; returns its network. DGC and CSC take over the optimizer's momentum, as in `telegrad train`."""
    import telegrad.torch
    name, given = method.partition(":")[0], method.partition(":")[2]
    if name in ("dgc", "csc") and "momentum=" not in given:
        momenta = {group.get("momentum", 0) for group in run.optimizer.param_groups}
        method = f"{name}:{given}{',' if given else ''}momentum={momenta.pop()}"
        for group in run.optimizer.param_groups:
            group["momentum"] = 0
    net = telegrad.torch.Network()
    telegrad.torch.ddp(run.model, method, net, optimizer=run.optimizer, total_steps=run.steps, steps_per_epoch=run.per_epoch)
    return net


def tests_at(hook, keys, every, steps):
    """The steps after which weights are tested. Local steps make ranks differ: there the tests follow the next mean."""
    steps_of_tests = [*range(every, steps + 1, every), steps]
    if hook != "localsgd":
        return set(steps_of_tests)
    period, phase = keys["every"], keys["start"] + 1
    return {min(step + (phase - step) % period, steps - (steps - phase) % period) for step in steps_of_tests}


def train(run, tests):
    """All steps; returns [(step, seconds, weights)]."""
    aside, kept, step = 0, [], 0
    dist.barrier()
    begin = time.perf_counter()
    while step < run.steps:
        for x, labels in run.batches():
            run.step(step, x, labels)
            step += 1
            if step in tests and run.rank == 0:
                now = time.perf_counter()
                weights = {name: tensor.clone() for name, tensor in run.model.module.state_dict().items()}
                kept.append((step, now - begin - aside, weights))
                aside += time.perf_counter() - now
            if step == run.steps:
                break
    return kept


def test(run, kept):
    """Print what the weights reach."""
    record = {}
    run.model = run.model.module
    for step, seconds, weights in kept:
        run.model.load_state_dict(weights)
        accuracy, loss = run.test()
        record = {"type": "test", "step": step, "seconds": seconds, "test_accuracy": accuracy, "test_loss": loss}
        say(record)
    say({**record, "type": "end", "steps": run.steps, "step_ms_mean": 1e3 * record["seconds"] / run.steps})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--hook", default="none", help="none, fp16, powersgd:rank=R,start=STEP, localsgd:every=N,start=STEP")
    parser.add_argument("--telegrad", metavar="METHOD", help="telegrad's hook with this method (needs the package telegrad)")
    parser.add_argument("--test-every", type=int, default=50, metavar="STEPS")
    options = parser.parse_args()
    options.weights = options.no_eval = options.checkpoint = None
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    net = None
    try:
        hook, keys = settings(options.hook, HOOKS, {})
        run = Run(options, dist.get_rank(), dist.get_world_size())
        if run.context:
            raise ValueError(f"data {options.data}: ddp.py trains on images")
        # PowerSGD chains three all-reduces per bucket. With several buckets, ranks start them in different orders, and Gloo fails.
        run.model = DistributedDataParallel(run.model, **({"bucket_cap_mb": 1024} if hook == "powersgd" else {}))
        if options.telegrad:
            if hook != "none":
                raise ValueError("--telegrad and --hook: a model has one hook")
            net = register_telegrad(run, options.telegrad)
        else:
            run.optimizer = register(run.model, run.optimizer, hook, keys)
    except (EOFError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError, lzma.LZMAError, struct.error) as error:
        print("ddp.py:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
    if run.rank == 0:
        run.start(hook=options.telegrad or options.hook)
    kept = train(run, tests_at(hook, keys, options.test_every, run.steps))
    if run.rank == 0:
        test(run, kept)
    if net:
        net.close()
    sys.stdout.flush()
    os._exit(0)  # the group's destructor in PyTorch 1.13 can wait for a thread that waits for the interpreter's lock


if __name__ == "__main__":
    main()
