"""One rank of ddp_test.py: RANK SIZE PORT WHAT. Prints a line for each case; the lines of all ranks must be the same."""
import contextlib
import copy
import faulthandler
import hashlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import telegrad
import telegrad.torch

RANK, SIZE, PORT, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
DEVICE = os.environ.get("TELEGRAD_TEST_DEVICE", "cpu")  # "cuda": all cases on a GPU (ddp_gpu_test.py)
torch.set_num_threads(1)
faulthandler.dump_traceback_later(100 if DEVICE == "cpu" else 240, exit=True)  # a hang says where
dist._DEFAULT_FIRST_BUCKET_BYTES = 10000  # several buckets from the first step on
SPECS = ("dense", "topk:density=0.05", "dgc:density=0.05,warmup=2", "powersgd:rank=2", "qsgd:bits=4")


class Model(torch.nn.Module):
    """Two paths, of which a step may use one."""

    def __init__(self, width=64):
        super().__init__()
        self.first = torch.nn.Linear(16, width)
        self.left = torch.nn.Linear(width, width)
        self.right = torch.nn.Linear(width, width)
        self.last = torch.nn.Linear(width, 4)

    def forward(self, x, path="both"):
        x = torch.relu(self.first(x))
        if path == "both":
            x = self.left(x) + self.right(x)
        else:
            x = getattr(self, path)(x)
        return self.last(x)


def model(**more):
    torch.manual_seed(1)
    # Small buckets: several, and others after the first step.
    return DistributedDataParallel(Model().to(DEVICE), bucket_cap_mb=0.01, **more)


def batch(step, rank=RANK):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=generator).to(DEVICE), torch.randint(4, (8,), generator=generator).to(DEVICE)


def loss_of(ddp, step, *arguments):
    x, y = batch(step)
    return torch.nn.functional.cross_entropy(ddp(x, *arguments), y)


def train(ddp, steps, begin=0, optimizer=None, *arguments):
    optimizer = optimizer or torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(begin, begin + steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(ddp, step, *arguments).backward()
        optimizer.step()


def digest(ddp):
    return hashlib.sha256(b"".join(p.detach().float().cpu().numpy().tobytes() for p in ddp.parameters())).hexdigest()[:16]


def hooked(net, spec, more={}, **settings):
    ddp = model(**more)
    return ddp, telegrad.torch.ddp(ddp, spec, net, **settings)


def case_dense_is_ddp(net):
    """Stock DDP and `dense`: the same bits, in every mode."""
    for more in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}):
        stock, (ours, hook) = model(**more), hooked(net, "dense", more)
        train(stock, 4)
        train(ours, 4)
        if SIZE == 2:  # DDP sums in another order where there are more
            assert digest(stock) == digest(ours), more
        assert hook.stats()["steps"] == 4
        yield digest(ours)


def case_methods(net):
    for spec in SPECS:
        ddp, hook = hooked(net, spec)
        train(ddp, 5)
        stats = hook.stats()
        assert stats["bytes_sent"] > 0 and stats["skipped_steps"] == 0
        assert stats["ratio"] > (0.5 if spec == "dense" else 1.5), (spec, stats)
        yield spec, digest(ddp)


def case_no_copy(net):
    """C works on the memory of DDP's buckets, in place."""
    ddp, hook = hooked(net, "topk:density=0.05", {"gradient_as_bucket_view": True})
    train(ddp, 2)
    start, seen = telegrad._c.tg_reducer_start_array, []

    def spied(reducer, gradient, mean, *more):
        seen.append((gradient._obj.data, mean._obj.data))
        return start(reducer, gradient, mean, *more)
    telegrad._c.tg_reducer_start_array = spied
    train(ddp, 1, 2)
    telegrad._c.tg_reducer_start_array = start
    grads = {name: p.grad.data_ptr() for name, p in ddp.module.named_parameters()}
    buckets = [min(grads[name] for name in bucket.names) for _, bucket in sorted(hook._buckets.items())]
    assert len(buckets) > 1 and seen == [(where, where) for where in buckets], (buckets, seen)
    yield len(buckets)


def case_waits_asleep(net):
    """While another rank is late, this one takes no processor time."""
    ddp, _ = hooked(net, "topk:density=0.05")
    train(ddp, 2)
    loss = loss_of(ddp, 2)
    dist.barrier()
    if RANK == 1:
        time.sleep(0.7)
    cpu = time.process_time()
    loss.backward()
    cpu = time.process_time() - cpu
    assert RANK == 1 or cpu < 0.2, cpu
    yield "asleep"


def residuals(hook):
    return {name: torch.frombuffer(bytearray(slots["rank/residual/0"].numpy()), dtype=torch.float32)
            for name, slots in hook.state_dict()["memory"].items() if "rank/residual/0" in slots}


def case_rebuild(net):
    """DDP cuts other buckets after the first step: no residual is lost. sent + residual is the sum of the gradients."""
    ddp, hook = hooked(net, "topk:density=0.05")
    layouts, sent, figures = set(), {}, [hook.stats()["bytes_sent"]]
    own = {name: torch.zeros(p.numel()) for name, p in ddp.module.named_parameters()}
    for step in range(3):
        ddp.zero_grad(set_to_none=True)
        with ddp.no_sync():  # this rank's own gradient
            loss_of(ddp, step).backward()
        for name, p in ddp.module.named_parameters():
            own[name] += p.grad.reshape(-1).cpu()
        ddp.zero_grad(set_to_none=True)
        loss_of(ddp, step).backward()
        for name, p in ddp.module.named_parameters():
            sent[name] = sent.get(name, 0) + p.grad.reshape(-1).cpu()
        figures.append(hook.stats()["bytes_sent"])
        layouts.add(tuple(b.names for _, b in sorted(hook._buckets.items())))
    assert len(layouts) == 2, len(layouts)
    each = [end - begin for begin, end in zip(figures, figures[1:])]  # what the first buckets have sent stays counted
    assert figures[0] == 0 and each[2] > 0 and min(each) >= each[2], figures
    kept = residuals(hook)
    assert sorted(kept) == sorted(own)
    for name in own:
        whole = torch.stack([own[name], kept[name]])
        dist.all_reduce(whole)
        torch.testing.assert_close(sent[name] * SIZE + whole[1], whole[0], rtol=1e-4, atol=1e-5)
    yield len(layouts)


def case_unused(net):
    """The mean of a parameter that no rank used is discarded by DDP: its residual stays."""
    for more in ({}, {"gradient_as_bucket_view": True}):
        ddp, hook = hooked(net, "topk:density=0.05", {"find_unused_parameters": True, **more})
        train(ddp, 3)
        before = residuals(hook)
        train(ddp, 2, 3, None, "left")
        after = residuals(hook)
        assert before["right.weight"].abs().sum() > 0
        assert torch.equal(before["right.weight"], after["right.weight"])
        assert not torch.equal(before["left.weight"], after["left.weight"])
        assert ddp.module.right.weight.grad is None
        train(ddp, 2, 5, None, "left" if RANK == 0 else "right")  # each is used by one rank
        yield digest(ddp)


def case_unused_and_nan(net):
    """A step that is skipped, in which a bucket has a parameter that no rank used."""
    scaler = Scaler()
    ddp, hook = hooked(net, "topk:density=0.05", {"find_unused_parameters": True}, scaler=scaler)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    for number in range(6):
        optimizer.zero_grad(set_to_none=True)
        loss = scaler.scale(loss_of(ddp, number, "both" if number < 3 else "left"))
        poison = ddp.module.last.weight.register_hook(lambda g: g * float("nan")) if number == 4 and RANK == 1 else None
        loss.backward()
        if poison is not None:
            poison.remove()
        scaler.step(optimizer)
        scaler.update()
    assert hook.stats()["skipped_steps"] == 1 and hook.stats()["steps"] == 6
    yield digest(ddp)


def case_loaded_after_nan(net):
    """The last state is loaded after a step that failed: what follows is what followed before."""
    ddp, hook = hooked(net, "topk:density=0.05")
    train(ddp, 3)
    weights, state = copy.deepcopy(ddp.module.state_dict()), copy.deepcopy(hook.state_dict())
    digests = []
    for _ in range(2):
        handle = ddp.module.first.weight.register_hook(lambda g: g * float("nan"))
        try:
            loss_of(ddp, 3).backward()
            raise AssertionError("no error")
        except telegrad.NonFiniteError:
            pass
        handle.remove()
        ddp.module.load_state_dict(weights)
        hook.load_state_dict(state)
        train(ddp, 3, 3)
        digests.append((digest(ddp), hook.stats()["skipped_steps"]))
    assert digests[0][0] == digests[1][0] and digests[0][1] == 0, digests
    yield digests[0][0]


def case_no_sync(net):
    """Two backward passes and one exchange."""
    stock, (ours, hook) = model(), hooked(net, "dense")
    for ddp in (stock, ours):
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
        for step in range(0, 6, 2):
            optimizer.zero_grad(set_to_none=True)
            with ddp.no_sync():
                loss_of(ddp, step).backward()
            loss_of(ddp, step + 1).backward()
            optimizer.step()
    assert hook.stats()["steps"] == 3
    if SIZE == 2:
        assert digest(stock) == digest(ours)
    yield digest(ours)


class Scaler:
    """What a GradScaler does, which is for the GPU only in PyTorch 1.13."""

    def __init__(self):
        self.factor, self.skipped = 1024.0, 0

    def get_scale(self):
        return self.factor

    def scale(self, loss):
        return loss * self.factor

    def step(self, optimizer):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.found = not all(bool(torch.isfinite(g).all()) for g in gradients)
        if not self.found:
            for g in gradients:
                g /= self.factor
            optimizer.step()

    def update(self):
        if self.found:
            self.skipped += 1
            self.factor /= 2


def case_scaler(net):
    """A NaN in one bucket of one rank: all ranks skip that step, the scale halves, and the gradients of the other buckets and
    ranks are not lost."""
    for spec in ("topk:density=0.05", "powersgd:rank=2"):
        scaler = Scaler()
        ddp, hook = hooked(net, spec, scaler=scaler)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)

        def step(number, poison=False):
            optimizer.zero_grad(set_to_none=True)
            loss = scaler.scale(loss_of(ddp, number))
            handle = ddp.module.first.weight.register_hook(lambda g: g * float("nan")) if poison else None
            loss.backward()
            if handle is not None:
                handle.remove()
            scaler.step(optimizer)
            scaler.update()
        for number in range(3):
            step(number)
        ddp.zero_grad(set_to_none=True)
        with ddp.no_sync():
            scaler.scale(loss_of(ddp, 3)).backward()
        own = {name: p.grad.reshape(-1).cpu().clone() for name, p in ddp.module.named_parameters()}
        before, digest_before = residuals(hook), digest(ddp)
        step(3, poison=RANK == 1)
        assert scaler.skipped == 1 and scaler.get_scale() == 512 and digest(ddp) == digest_before
        after = residuals(hook)
        poisoned = next(b.names for b in hook._buckets.values() if "first.weight" in b.names)
        assert len(poisoned) < len(own)
        for name in before:  # what was sent is back, in the buckets that were exchanged and on the rank that was finite
            kept = before[name] if RANK == 1 and name in poisoned else before[name] + own[name]
            assert torch.equal(kept, after[name]), name
        step(4)
        assert hook.stats()["skipped_steps"] == 1 and hook.stats()["steps"] == 5
        for number in range(5, 8):
            step(number)
        assert scaler.skipped == 1
        assert all(bool(torch.isfinite(p).all()) for p in ddp.parameters())
        yield spec, digest(ddp)


def train_poisoned(ddp):
    """Six steps, of which the fourth has a NaN on rank 1. Returns its error."""
    optimizer, found = torch.optim.SGD(ddp.parameters(), 0.1), None
    for step in range(6):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(ddp, step)
        try:
            (loss * float("nan") if step == 3 and RANK == 1 else loss).backward()
        except telegrad.NonFiniteError as error:
            assert step == 3
            found = error
            continue
        assert step != 3
        optimizer.step()
    return found


def case_nan_without_scaler(net):
    """backward() raises on all ranks, and the next batch may follow."""
    ddp, hook = hooked(net, "topk:density=0.05")
    error = train_poisoned(ddp)
    assert ("rank 1: element" if RANK == 1 else "another rank") in str(error), error
    assert RANK == 0 or str(error).split("of the gradient of ")[1].split(" ")[0] in hook._names.values(), error
    assert hook.stats()["skipped_steps"] == 1
    yield digest(ddp)


def case_resumed(net):
    """New objects that load what was saved continue with the same bits. DDP cuts its buckets anew after the first backward
    pass; that of the new objects comes before they load."""
    for spec in SPECS:
        one = model()
        hook = telegrad.torch.ddp(one, spec, net)
        train(one, 4)
        saved = {k: v.clone() for k, v in one.module.state_dict().items()}, hook.state_dict()
        train(one, 3, 4)
        two = model()
        again = telegrad.torch.ddp(two, spec, net)
        loss_of(two, 99).backward()
        two.module.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        train(two, 3, 4)
        assert digest(one) == digest(two), spec
        one_sent, two_sent = hook.stats()["bytes_sent"], again.stats()["bytes_sent"]
        assert again.stats()["steps"] == 7 and two_sent >= one_sent, (spec, one_sent, two_sent)
        yield spec, digest(two)
    scaler = Scaler()  # a skipped step is one of the run's as well
    skipping, hook = hooked(net, "topk:density=0.05", scaler=scaler)
    scaler.scale(loss_of(skipping, 0) * float("nan")).backward()
    again.load_state_dict({**saved[1], **{key: hook.state_dict()[key] for key in ("step", "skipped_steps")}})
    assert again.stats()["skipped_steps"] == 1 and again.stats()["steps"] == 1
    for key, value in (("rank", RANK + 1), ("size", 9), ("spec", "fp16")):
        try:
            again.load_state_dict({**saved[1], key: value})
            assert False, key
        except telegrad.MismatchError as error:
            assert f"{key}=" in str(error)


def case_saved_before_the_first_step(net):
    """What was loaded and not yet used is saved with the loss scale that it was taken at, not with today's."""
    for unused in (False, True):
        def start():
            scaler.factor = 64.0
            return hooked(net, "topk:density=0.05", {"find_unused_parameters": unused}, scaler=scaler)

        def go_on(ddp):
            for step in range(3, 6):
                ddp.zero_grad(set_to_none=True)
                scaler.scale(loss_of(ddp, step, "left" if unused else "both")).backward()
        scaler = Scaler()
        ddp, hook = hooked(net, "topk:density=0.05", {"find_unused_parameters": unused}, scaler=scaler)
        for step in range(3):
            ddp.zero_grad(set_to_none=True)
            scaler.scale(loss_of(ddp, step)).backward()
        saved, before = hook.state_dict(), residuals(hook)
        (one, hook_one), (two, hook_two) = start(), start()
        hook_one.load_state_dict(saved)
        hook_two.load_state_dict(saved)
        hook_two.load_state_dict(hook_two.state_dict())
        go_on(one)
        go_on(two)
        ours, others = residuals(hook_one), residuals(hook_two)
        assert all(torch.equal(ours[name], others[name]) for name in before)
        assert not unused or torch.equal(ours["right.weight"], before["right.weight"] / 16)
    yield len(before)


class Half(torch.nn.Module):
    """float16 parameters, computing in float32."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 4).half())

    def forward(self, x):
        return x @ self.w.float()


def case_half(net):
    torch.manual_seed(1)
    ddp = DistributedDataParallel(Half().to(DEVICE))
    hook = telegrad.torch.ddp(ddp, "topk:density=0.05", net)
    train(ddp, 3)
    assert ddp.module.w.grad.dtype == torch.float16 and int((ddp.module.w.grad != 0).sum()) in (3, 4, 5, 6)
    assert hook.stats()["steps"] == 3
    yield digest(ddp)


def case_different_specs(net):
    """Ranks that differ learn so in backward()."""
    ddp, _ = hooked(net, "fp16" if RANK == 1 else "dense")
    try:
        loss_of(ddp, 0).backward()
        assert False
    except telegrad.MismatchError as error:
        assert "rank 1 has reducer=fp16" in str(error), error
    yield "different"


def last_words(net):
    """The end of the job: rank 1 dies within a step; or exits with an operation in flight."""
    ddp, _ = hooked(net, "topk:density=0.05")
    train(ddp, 2)
    if RANK == 1:
        if WHAT == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1.5)
        os._exit(0)
    if WHAT == "exit":
        x, y = batch(2)
        import threading
        def ignore():
            with contextlib.suppress(telegrad.Error):
                train(ddp, 1, 2)
        threading.Thread(target=ignore, daemon=True).start()
        time.sleep(0.5)
        print("exits", flush=True)
        sys.exit(0)
    try:
        train(ddp, 100, 2)
    except telegrad.PeerError as error:
        print("PeerError:", error, flush=True)
        os._exit(0)  # Gloo would wait for rank 1


def begin():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
    net = telegrad.torch.Network()
    assert (net.rank, net.size) == (RANK, SIZE)
    return net


def run_cases(net, names):
    for name, case in list(names.items()):
        if name.startswith("case_") and (WHAT == "all" or WHAT in name):
            for found in case(net):
                print(name, *(found if isinstance(found, tuple) else (found,)), flush=True)


def main():
    net = begin()
    if WHAT in ("killed", "exit"):
        last_words(net)
        return
    run_cases(net, globals())
    ddp, _ = hooked(net, "dense")
    train(ddp, 2)
    net.close()
    try:
        train(ddp, 1)
        raise AssertionError("no error")
    except RuntimeError as error:  # raised in the hook, where PyTorch 1.13 loses the class
        assert "the network is closed" in str(error)
    print("end")


if __name__ == "__main__":
    main()
