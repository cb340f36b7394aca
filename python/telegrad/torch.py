"""telegrad in PyTorch: a network between the ranks of torch.distributed, and a communication hook for
DistributedDataParallel.

    import telegrad.torch
    net = telegrad.torch.Network()
    model = DistributedDataParallel(model)
    hook = telegrad.torch.ddp(model, "dgc:density=0.001", net)
"""
import datetime
import os
import queue
import socket
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
import torch.distributed
import telegrad
from telegrad import _c, _network
from telegrad._errors import ArgumentError, MismatchError, NonFiniteError, PeerError, StateError, UnsupportedError, check
from telegrad._network import Key, _join

__all__ = ["DdpHook", "Network", "ddp"]

_networks = 0  # made so far, the same number on all ranks


class Network(telegrad.Network):
    """TCP between the ranks of torch.distributed's default group. All ranks call it.

    Addresses and public keys travel by the group's store; each rank makes a key of its own for this job. So the connections
    are encrypted, and as trustworthy as the store, which anybody who reaches its port can write to.

    host      the address of rank 0 for the others; None: MASTER_ADDR, if that is the machine of rank 0, else the address of
              its interface
    timeout   seconds until all ranks are there
    """

    def __init__(self, *, host: Optional[str] = None, timeout: float = 60) -> None:
        if not torch.distributed.is_initialized():
            raise StateError("telegrad.torch.Network: torch.distributed is not initialized: call "
                             "torch.distributed.init_process_group first")
        global _networks
        c10d: Any = torch.distributed.distributed_c10d
        store = c10d._get_default_store()
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        prefix, _networks = f"telegrad/{_networks}/", _networks + 1
        key = Key()
        if size == 1:
            super().__init__(_join(listen=f"tcp://127.0.0.1:{_free_port('127.0.0.1')}", size=1, key=key, timeout=timeout))
        elif rank == 0:
            host, listen = _place_of_rank_0(host)
            port = _free_port(listen)
            nonce = os.urandom(8).hex()  # a rank of an earlier start of the job does not get in
            store.set(prefix + "meet", f"{_address(host, port)} {key.public} {nonce}")
            allow = [_get(store, f"{prefix}key/{other}", other, timeout) for other in range(1, size)]
            super().__init__(_join(listen=_address(listen, port), size=size, key=key, allow=allow, job=nonce, timeout=timeout))
        else:
            store.set(f"{prefix}key/{rank}", key.public)
            address, peer_key, nonce = _get(store, prefix + "meet", 0, timeout).split()
            super().__init__(_join(join=address, rank=rank, key=key, peer_key=peer_key, job=nonce, timeout=timeout))


def _get(store: Any, key: str, rank: int, timeout: float) -> str:
    """What a rank has set."""
    try:
        store.wait([key], datetime.timedelta(seconds=timeout))
        return str(store.get(key).decode())
    except RuntimeError as error:
        raise PeerError(f"telegrad.torch.Network: rank {rank} has not come in {timeout:g} s") from error


def _address(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])


def _is_here(host: str) -> bool:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as s:
            s.bind(where)
        return True
    except OSError:
        return False


def _place_of_rank_0(host: Optional[str]) -> Tuple[str, str]:
    """Where others reach this rank, and where it listens."""
    master = os.environ.get("MASTER_ADDR", "")
    if host is None and master and _is_here(master):
        host = master
    if host is None:  # the interface that leads away; nothing is sent
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect((master or "192.0.2.1", 9))
                host = str(s.getsockname()[0])
            except OSError:
                host = "127.0.0.1"
    if host in ("localhost", "127.0.0.1", "::1"):
        return host, "127.0.0.1" if host == "localhost" else host
    return host, "::" if ":" in host else "0.0.0.0"


_DTYPES = {torch.float32: _c.TG_F32, torch.float16: _c.TG_F16, torch.bfloat16: _c.TG_BF16}


class _Bucket:
    """A bucket of DDP: its reducer, and the names of its parameters in order."""

    def __init__(self, names: Tuple[str, ...]) -> None:
        self.names = names
        self.reducer: Optional[telegrad.Reducer] = None
        self.used = False  # in this step, with success: so it can be taken back


class _Job:
    """One call of the hook."""

    def __init__(self, bucket: _Bucket, index: int, shapes: List[Tuple[int, ...]], buffer: torch.Tensor,
                 future: "torch.futures.Future[torch.Tensor]") -> None:
        self.bucket, self.index, self.shapes = bucket, index, shapes
        self.buffer, self.future = buffer, future


Memory = Dict[str, Dict[str, torch.Tensor]]


class DdpHook:
    """The communication hook that `ddp` registers. Its memory is kept by parameter name, so it survives when DDP cuts its
    buckets anew after the first step."""

    def __init__(self, model: Any, spec: str, net: telegrad.Network, *, scaler: Any = None, seed: int = 0, total_steps: int = 0,
                 steps_per_epoch: int = 0, timeout: float = 60, threads: int = 1) -> None:
        self.spec, self.net = spec, net
        self._names = {id(p): name for name, p in model.module.named_parameters()}
        self._parameters = dict(model.module.named_parameters())
        self._scaler, self._scale = scaler, 1.0 if scaler is None else float(scaler.get_scale())
        self._settings: Dict[str, Any] = {"total_steps": total_steps, "steps_per_epoch": steps_per_epoch, "timeout": timeout,
                                          "threads": threads}
        self._seed = seed
        self._keeps_unused = bool(model.find_unused_parameters or getattr(model, "static_graph", False))
        self._buckets: Dict[int, _Bucket] = {}
        self._memory: Memory = {}  # of parameters whose bucket has no reducer yet ...
        self._memory_scale = self._scale  # ... in gradients of this scale
        self._unused: List[Tuple[_Bucket, int, str, torch.Tensor, Dict[str, torch.Tensor]]] = []
        self._step = 0
        self._begun = self._nonfinite = 0
        self._skipped = 0
        self._failed: Optional[BaseException] = None
        self._refusal: Optional[NonFiniteError] = None
        self._pending = 0
        self._changed = threading.Condition()
        self._to_start: "queue.SimpleQueue[Optional[_Job]]" = queue.SimpleQueue()
        self._to_wait: "queue.SimpleQueue[Optional[_Job]]" = queue.SimpleQueue()
        self._threads = [threading.Thread(target=run, name=f"telegrad {run.__name__.strip('_')}", daemon=True)
                         for run in (self._start_jobs, self._wait_for_jobs)]
        for thread in self._threads:
            thread.start()
        net._before_close.append(self._end)

    # ---- the hook, called by DDP in the backward pass ---------------------------------------------------------------

    def __call__(self, state: object, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        if self._failed is not None:
            raise self._failed
        buffer: torch.Tensor = bucket.buffer()
        parameters: List[torch.Tensor] = bucket.parameters()
        names = tuple(self._names[id(p)] for p in parameters)
        index: int = bucket.index()
        if index == 0:
            self._begin_step()
        known = self._buckets.get(index)
        if known is None or known.names != names:
            self._cut_anew(index)
            known = self._buckets[index] = _Bucket(names)
        if self._keeps_unused:
            self._remember_unused(known, bucket.gradients())
        job = _Job(known, index, [tuple(p.shape) for p in parameters], buffer, torch.futures.Future())
        with self._changed:
            self._pending += 1
        self._to_start.put(job)
        return job.future

    def _begin_step(self) -> None:
        """The first bucket of a step: all operations of the last one are done."""
        self._settle()
        self._begun += 1
        self._refusal = None
        if self._scaler is not None:
            scale = float(self._scaler.get_scale())
            if scale != self._scale:
                self._multiply(scale / self._scale)
                self._scale = scale
        torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)

    def _after_backward(self) -> None:
        """Before DDP waits: raise failures with their class, which DDP would lose."""
        with self._changed:
            while self._pending > 0 and self._failed is None:
                self._changed.wait()
        if self._failed is not None:
            raise self._failed
        if self._unused or (self._refusal is not None and self._scaler is None):
            torch.autograd.Variable._execution_engine.queue_callback(self._after_ddp)

    def _after_ddp(self) -> None:
        """DDP has given the means to the parameters."""
        self._restore_unused()
        if self._refusal is not None and self._scaler is None:
            raise self._refusal

    # ---- threads: they block in C, and hold no interpreter lock there -----------------------------------------------

    def _start_jobs(self) -> None:
        for job in iter(self._to_start.get, None):
            try:
                if self._failed is not None:
                    raise self._failed
                if job.bucket.reducer is None:
                    self._make_reducer(job)
                assert job.bucket.reducer is not None
                where = job.buffer.data_ptr()
                check(_c.tg_reducer_start_as(job.bucket.reducer.handle(), _DTYPES[job.buffer.dtype], where, where, None, None))
            except BaseException as error:
                self._finish(job, error)
            else:
                self._to_wait.put(job)
        self._to_wait.put(None)

    def _wait_for_jobs(self) -> None:
        for job in iter(self._to_wait.get, None):
            try:
                assert job.bucket.reducer is not None
                check(_c.tg_reducer_wait(job.bucket.reducer.handle()))
            except BaseException as error:
                self._finish(job, error)
            else:
                self._finish(job, None)

    def _finish(self, job: _Job, error: Optional[BaseException]) -> None:
        """Give the result to DDP. After an error it is infinite, so that it cannot be taken for a gradient. A thread that
        waits for it is not woken when the interpreter exits: it would end inside of autograd's C++, which then aborts."""
        if _network.exiting:
            return
        if error is None:
            job.bucket.used = True
        else:
            job.buffer.fill_(float("inf"))
        with self._changed:
            if isinstance(error, NonFiniteError):
                self._nonfinite += 1
                self._refusal = self._refusal or error
            elif error is not None and self._failed is None:
                self._failed = error
            self._pending -= 1
            self._changed.notify_all()
        job.future.set_result(job.buffer)

    def _end(self) -> None:
        """The network is closed, or the interpreter exits (then net.stop() has ended what waits)."""
        with self._changed:
            if self._pending > 0:
                self.net.stop()
        self._to_start.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)
        if _network.exiting:
            return
        with self._changed:  # nobody takes jobs any more
            self._failed = self._failed or StateError("the network is closed")
            self._changed.notify_all()

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _make_reducer(self, job: _Job) -> None:
        seed = (self._seed * 1000003 + job.index) % (1 << 64)
        reducer = telegrad.Reducer(self.spec, job.buffer.numel(), self.net, segments=[shape or (1,) for shape in job.shapes],
                                   seed=seed, **self._settings)
        for slot, data in reducer.slots():
            kept = self._memory.get(job.bucket.names[slot.segment], {}).pop(_name(slot), None)
            if kept is None:
                continue
            if len(data) != kept.numel():
                raise MismatchError(f"load_state_dict: the memory of the parameter {job.bucket.names[slot.segment]!r} has "
                                    f"{kept.numel()} bytes of {_name(slot)}, but this model's has {len(data)}")
            data[:] = memoryview(kept.numpy())
        if self._memory_scale != self._scale:
            check(_c.tg_reducer_scale(reducer.handle(), self._scale / self._memory_scale))
        check(_c.tg_reducer_set_step(reducer.handle(), self._step))
        job.bucket.reducer = reducer

    def _cut_anew(self, begin: int) -> None:
        """DDP has other buckets than before, from this one on, which is the first of this step to differ: take their memory, by
        names of parameters. The buckets before it may be under way."""
        for index in [i for i in self._buckets if i >= begin]:
            bucket = self._buckets.pop(index)
            self._memory_scale = self._scale
            if bucket.reducer is not None:
                for name, slots in self._memory_of(bucket).items():
                    self._memory.setdefault(name, {}).update(slots)
                bucket.reducer.close()

    def _memory_of(self, bucket: _Bucket, segments: Optional[Set[int]] = None) -> Memory:
        """A copy of a bucket's memory, or of that of some of its parameters."""
        memory: Memory = {}
        assert bucket.reducer is not None
        for slot, data in bucket.reducer.slots():
            if len(data) > 0 and (segments is None or slot.segment in segments):
                copy = torch.frombuffer(bytearray(data), dtype=torch.uint8)
                memory.setdefault(bucket.names[slot.segment], {})[_name(slot)] = copy
        return memory

    def _multiply(self, factor: float) -> None:
        for bucket in self._buckets.values():
            if bucket.reducer is not None:
                check(_c.tg_reducer_scale(bucket.reducer.handle(), factor))

    def _settle(self) -> None:
        """The last step is over. If a gradient in it was not finite, nobody has applied the means of the other buckets: what
        was sent for them returns to the memory."""
        if self._begun == 0:
            return
        self._begun = 0
        self._step += 1
        if self._nonfinite > 0:
            self._skipped += 1
        for bucket in self._buckets.values():
            if self._nonfinite > 0 and bucket.used and bucket.reducer is not None:
                bucket.reducer.undo()
            bucket.used = False
        self._nonfinite = 0

    def _remember_unused(self, bucket: _Bucket, gradients: List[torch.Tensor]) -> None:
        """DDP discards the mean of a parameter that no rank used. Its gradient is zero here, so it may be one of them."""
        zero = {i for i, g in enumerate(gradients) if not bool(g.any())}
        if zero:
            memory = self._memory if bucket.reducer is None else self._memory_of(bucket, zero)
            for i in zero:
                name = bucket.names[i]
                self._unused.append((bucket, i, name, gradients[i], dict(memory.get(name, {}))))

    def _restore_unused(self) -> None:
        if self._nonfinite > 0:  # the next step takes back everything; its undo must come before slots are touched
            self._unused = []
        for bucket, segment, name, mean, memory in self._unused:
            own = self._parameters[name].grad
            if bucket.reducer is None or (own is not None and torch.equal(own, mean.to(own.dtype))):
                continue
            for slot, data in bucket.reducer.slots():
                if slot.segment == segment:
                    kept = memory.get(_name(slot))  # None: it had none before
                    data[:] = bytes(len(data)) if kept is None else memoryview(kept.numpy())
        self._unused = []

    # ---- for the user -----------------------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The memory of this rank, by names of parameters, to be saved with the model by each rank for itself. Call it
        between steps."""
        self._check_idle("state_dict")
        self._settle()
        memory: Memory = {name: dict(slots) for name, slots in self._memory.items() if slots}
        for bucket in self._buckets.values():
            if bucket.reducer is not None:
                for name, slots in self._memory_of(bucket).items():
                    memory.setdefault(name, {}).update(slots)
        return {"version": 1, "spec": self.spec, "rank": self.net.rank, "size": self.net.size, "step": self._step,
                "scale": self._scale, "memory": memory}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continue from a `state_dict` of this rank, after the model's and the scaler's own.

        Raises  MismatchError: it is of another rank, number of ranks, method or model. Nothing has changed then
        """
        self._check_idle("load_state_dict")
        for key, value in {"version": 1, "spec": self.spec, "rank": self.net.rank, "size": self.net.size}.items():
            if state.get(key) != value:
                raise MismatchError(f"load_state_dict: {key}={state.get(key)!r}, but this hook has {key}={value!r}")
        for name in state["memory"]:
            if name not in self._parameters:
                raise MismatchError(f"load_state_dict: it has memory of the parameter {name!r}, which the model does not have")
        self._begun = self._nonfinite = 0
        self._refusal, self._unused = None, []
        for bucket in self._buckets.values():
            if bucket.reducer is not None:
                bucket.reducer.close()
        self._buckets = {}
        self._memory = {name: {key: value.clone() for key, value in slots.items()} for name, slots in state["memory"].items()}
        self._step, self._memory_scale = int(state["step"]), float(state["scale"])

    def stats(self) -> Dict[str, float]:
        """Figures so far: steps, skipped steps (a gradient was not finite), bytes sent, and the ratio of the gradient's size
        to that of its coded form in the last step."""
        self._check_idle("stats")
        reducers = [b.reducer for b in self._buckets.values() if b.reducer is not None]
        coded = sum(r.n / r.ratio for r in reducers if r.ratio > 0)
        return {"steps": self._step + (self._begun > 0), "skipped_steps": self._skipped + (self._nonfinite > 0),
                "bytes_sent": sum(r.bytes_sent for r in reducers), "ratio": sum(r.n for r in reducers) / coded if coded else 0.0}

    def _check_idle(self, call: str) -> None:
        with self._changed:
            if self._pending > 0:
                raise StateError(f"{call}: a backward pass is under way: call it between steps")


def _name(slot: _c.tg_reducer_slot) -> str:
    return f"{slot.role.decode()}/{slot.name.decode()}/{slot.at}"


def ddp(model: Any, spec: str, net: telegrad.Network, *, scaler: Any = None, optimizer: Any = None, seed: int = 0,
        total_steps: int = 0, steps_per_epoch: int = 0, timeout: float = 60, threads: int = 1) -> DdpHook:
    """Exchange the gradients of a DistributedDataParallel in compressed form. All ranks call it, before the first step.

    model            a DistributedDataParallel whose gradients are float32, bfloat16 or float16 in host memory
    spec             a method: "dense", "topk:density=0.01", "dgc:density=0.001,warmup=500", "powersgd:rank=2", "qsgd:bits=4"
    net              telegrad.torch.Network(), between the same ranks
    scaler           the GradScaler. If a gradient on some rank is not finite, all ranks get infinite gradients, the scaler skips
                     the step on each, and the memory stays. Without a scaler the backward pass then raises NonFiniteError on
                     each; go on with the next batch
    optimizer        checked: `dgc` and `csc` apply momentum themselves, so the optimizer's must be 0
    total_steps, steps_per_epoch, seed, timeout, threads   as for telegrad.Reducer

    Errors of the exchange are raised by `loss.backward()`: PeerError names the rank that has died.
    """
    from torch.nn.parallel import DistributedDataParallel
    if not isinstance(model, DistributedDataParallel):
        raise ArgumentError(f"model: a {type(model).__name__}: allowed: a torch.nn.parallel.DistributedDataParallel")
    if net.size != torch.distributed.get_world_size(model.process_group) or net.rank != torch.distributed.get_rank(model.process_group):
        raise MismatchError(f"net: rank {net.rank} of {net.size}, but the model's process group has rank "
                            f"{torch.distributed.get_rank(model.process_group)} of "
                            f"{torch.distributed.get_world_size(model.process_group)}: allowed: a network of the same ranks")
    if getattr(model, "mixed_precision", None) is not None:
        raise UnsupportedError("model: DistributedDataParallel(mixed_precision=...) has a communication hook of its own: allowed: "
                               "a model without it (autocast and bfloat16 parameters work)", "TG_E_UNSUPPORTED")
    if getattr(model, "_use_python_reducer", False):
        raise UnsupportedError('model: torch._dynamo.config.optimize_ddp="python_reducer" does not call communication hooks: allowed: '
                               "other values of it", "TG_E_UNSUPPORTED")
    for name, p in model.module.named_parameters():
        if p.requires_grad and p.dtype not in _DTYPES:
            raise UnsupportedError(f"parameter {name}: its gradient is {str(p.dtype)[6:]}: allowed: float32, bfloat16, float16",
                                   "TG_E_UNSUPPORTED")
        if p.requires_grad and p.device.type != "cpu":
            raise UnsupportedError(f"parameter {name}: it is on {p.device}: allowed so far: host memory", "TG_E_UNSUPPORTED")
    method = spec.partition(":")[0]
    if optimizer is not None and method in ("dgc", "csc"):
        for group in optimizer.param_groups:
            if group.get("momentum", 0) != 0:
                raise ArgumentError(f"optimizer: its momentum={group['momentum']}, but {method} applies momentum itself: allowed: 0 "
                                    f"(give it to the method: {method}:momentum={group['momentum']})")
    with telegrad.Network.local(1)[0] as alone:  # a wrong spec is refused now, not in the first backward pass
        telegrad.Reducer(spec, 1, alone, total_steps=total_steps, steps_per_epoch=steps_per_epoch, timeout=timeout, threads=threads)
    hook = DdpHook(model, spec, net, scaler=scaler, seed=seed, total_steps=total_steps, steps_per_epoch=steps_per_epoch,
                   timeout=timeout, threads=threads)
    try:
        model.register_comm_hook(None, _named(hook))
    except RuntimeError as error:
        raise StateError(f"model: {error}") from None
    return hook


def _named(hook: DdpHook) -> Any:
    """The hook as the function that DDP wants."""
    def telegrad_hook(state: object, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        return hook(state, bucket)
    return telegrad_hook
