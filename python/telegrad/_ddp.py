"""The communication hook for DistributedDataParallel."""
import contextlib
import threading
import weakref
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import torch
import torch.distributed
import telegrad
from telegrad import _c, _network
from telegrad._checks import check_settings, check_text
from telegrad._errors import MismatchError, NonFiniteError, StateError, check
from telegrad._hook_threads import HookThreads
from telegrad._node import Node
from telegrad._parts import (BUCKETS_OWN, VERSION, Kept, Methods, Part, cut, inherited, ratio_of, rescaled, sent_by, slot_name,
                              view)
from telegrad._refused import check_ending, check_methods, check_model, check_ranks, ddp_of, enabled, trained_names
from telegrad._waits import LongWait


class _Bucket:
    """A bucket of DDP: the names of its parameters in order, and its parts."""

    def __init__(self, names: Tuple[str, ...], parts: List[Part]) -> None:
        self.names, self.parts = names, parts
        self.place = {name: (part, i) for part in parts for i, name in enumerate(part.names)}


class _Job:
    """One call of the hook."""

    def __init__(self, hook: "DdpHook", bucket: _Bucket, index: int, buffer: torch.Tensor) -> None:
        self.hook, self.bucket, self.index, self.buffer = hook, bucket, index, buffer
        self.future: "torch.futures.Future[torch.Tensor]" = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self.ready = torch.cuda.current_stream(buffer.device).record_event() if buffer.is_cuda else None
        self.in_node: Any = None  # the operation of the node's process group
        self.gradients: List[torch.Tensor] = []  # to be looked at for parameters that were not used
        self.started: List[Part] = []
        self.error: Optional[BaseException] = None
        self.finished = False


class DdpHook:
    """The communication hook that `ddp` registers. Its memory is kept by parameter name, so it survives when DDP cuts its
    buckets anew after the first step.

    >>> import torch, telegrad.torch                          # a job of one rank; torch.distributed is initialized
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 10))
    >>> hook = telegrad.torch.ddp(model, "topk:density=0.01", telegrad.torch.Network())
    >>> model(torch.ones(4, 100)).sum().backward()
    >>> sorted(hook.stats())
    ['bytes_sent', 'ratio', 'skipped_steps', 'steps']
    >>> hook.load_state_dict(hook.state_dict())
    """

    def __init__(self, model: Any, methods: Methods, net: telegrad.Network, node: Optional[Node], scaler: Any, seed: int,
                 settings: Dict[str, Any]) -> None:
        self.spec, self.net, self._methods = methods.spec, net, methods
        self._model = weakref.ref(model)  # which has the hook
        self._node, self._place = node, 0 if node is None else node.place
        self._jobs: List[_Job] = []  # with a node: those of the backward pass
        self._names = {id(p): name for name, p in model.module.named_parameters()}
        self._parameters = dict(model.module.named_parameters())
        self._scaler, self._scale = scaler, 1.0 if scaler is None else float(scaler.get_scale())
        self._seed, self._settings = seed, settings
        self._static = bool(getattr(model, "static_graph", False))
        self._keeps_unused = model.find_unused_parameters or self._static
        self._trained = trained_names(model)
        self._came: List[Tuple[str, ...]] = []  # the buckets of this step
        self._buckets: Dict[int, _Bucket] = {}
        self._memory = Kept()  # of parameters whose bucket has no reducer yet
        self._unused: List[Tuple[str, Part, int, torch.Tensor, Tuple[Dict[str, torch.Tensor], float]]] = []
        self._step = 0
        self._begun = self._nonfinite = 0
        self._skipped = 0
        self._sent = 0  # bytes, by reducers that are closed, and before the state that was loaded
        self._failed: Optional[BaseException] = None
        self._refusal: Optional[NonFiniteError] = None
        self._complete = False  # the last bucket has come
        self._pending = 0
        self._ended = False  # the threads take no more jobs
        self._streams: Dict[torch.device, Any] = {}
        self._changed = threading.Condition()
        self._threads = HookThreads.of(net)
        self._threads.add(self)

    # ---- the hook, called by DDP in the backward pass ---------------------------------------------------------------

    def __call__(self, state: object, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        buffer: torch.Tensor = bucket.buffer()
        parameters: List[torch.Tensor] = bucket.parameters()
        names = tuple(self._names[id(p)] for p in parameters)
        index, last = bucket.index(), bucket.is_last()
        if self._static and index == 0 and self._came and not any(set(names).intersection(other) for other in self._came):
            index = len(self._came)  # the first step of a static graph: all buckets come at its end, with index 0
            last = self._trained.issubset(names + sum(self._came, ()))
        if index == 0:
            if self._failed is not None:  # in later buckets _after_backward raises it: the node's other ranks wait for these
                raise self._failed
            self._begin_step()
        self._came.append(names)
        known = self._buckets.get(index)
        if known is None or known.names != names:
            self._cut_anew(index)
            shapes = [tuple(p.shape) for p in parameters]
            known = self._buckets[index] = _Bucket(names, cut(self._methods, names, shapes, [p.numel() for p in parameters]))
        in_node = self._begin_in_node(buffer)
        job = _Job(self, known, index, buffer)
        job.in_node = in_node
        if self._keeps_unused and self._node is None:
            self._remember_unused(known, bucket.gradients())
        elif self._keeps_unused:  # when the mean of the node is there
            job.gradients = bucket.gradients()
        if self._node is not None:
            self._jobs.append(job)
        if self._place == 0:
            self._put(job)
        if last:
            self._complete = True
            self._share()
            if index > 0:  # it may be in another backward pass than the first one: that of a checkpoint's inner graph
                self._call_after_backward()
        return job.future

    def _begin_in_node(self, buffer: torch.Tensor) -> Any:
        if self._node is None:
            return None
        try:
            return self._node.begin_mean(buffer)
        except StateError as error:
            self._note(error)
            return None

    def _put(self, job: _Job) -> None:
        with self._changed:
            if not self._ended:
                self._pending += 1
                self._threads.put(job)
                return
            job.error = self._failed = self._failed or StateError("the network is closed")
        if self._node is None:
            self._spoil(job)
            self._give(job)

    def _begin_step(self) -> None:
        """The first bucket of a step: all operations of the last one are done."""
        check_ending(self._model())
        self._settle()
        self._begun += 1
        self._methods.end_watch(False)
        self._refusal, self._jobs, self._came, self._complete = None, [], [], False
        if self._scaler is not None:
            scale = float(self._scaler.get_scale())
            if scale != self._scale:
                self._multiply(scale / self._scale)
                self._scale = scale
        self._unused = []
        self._call_after_backward()

    def _call_after_backward(self) -> None:
        with contextlib.suppress(RuntimeError):  # no backward pass: a rank in DDP's join() that has no more batches
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)

    def _after_backward(self) -> None:
        """Before DDP waits: raise failures with their class, which DDP would lose."""
        self._share()
        wait = LongWait()
        with self._changed:
            while self._pending > 0 and self._failed is None:
                self._changed.wait(5)
                wait.tell()
        if self._failed is not None:
            raise self._failed
        if self._complete and (self._unused or (self._refusal is not None and self._scaler is None)):
            self._complete = False
            torch.autograd.Variable._execution_engine.queue_callback(self._after_ddp)

    def _after_ddp(self) -> None:
        """DDP has given the means to the parameters."""
        self._restore_unused()
        if self._refusal is not None and self._scaler is None:
            raise self._refusal

    def _share(self) -> None:
        """With a node: its ranks get what its first one has. The thread of the backward pass begins all operations of the node's process
        group, in the same order in all ranks, as DDP does. The last bucket calls this, because DDP waits before _after_backward in the first step
        of a static graph. So does _after_backward, because a step may end without its last bucket."""
        if self._node is None or not self._jobs:
            return
        wait = LongWait()
        with self._changed:
            while self._pending > 0:
                self._changed.wait(5)
                wait.tell()
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            try:
                if job.buffer.is_cuda and job.buffer.device in self._streams:
                    torch.cuda.current_stream(job.buffer.device).wait_stream(self._streams[job.buffer.device])
                if self._place > 0:
                    self._node.end_mean(job.in_node)
                self._node.share(job.buffer, job.error)
            except BaseException as error:
                if job.error is None or isinstance(job.error, NonFiniteError):
                    job.error = error
                    self._note(error)
            self._spoil(job)
            self._give(job)

    # ---- in the network's threads -----------------------------------------------------------------------------------

    def start_job(self, job: _Job) -> None:
        try:
            with self._beside(job):
                self._start(job)
        except BaseException as error:
            job.error = error

    def _start(self, job: _Job) -> None:
        if job.ready is not None:
            torch.cuda.current_stream(job.buffer.device).wait_event(job.ready)
        if self._node is not None:
            self._node.end_mean(job.in_node)
        if self._failed is not None:
            raise self._failed
        if job.gradients:
            self._remember_unused(job.bucket, job.gradients)
        for i, part in enumerate(job.bucket.parts):
            if part.reducer is None:
                seed = (self._seed * 1000003 + job.index + 8191 * i) % (1 << 64)
                part.make_reducer(self.net, self._memory, self._scale, self._step, seed, self._settings, job.buffer.device)
            part.start(job.buffer)
            job.started.append(part)

    def _beside(self, job: _Job) -> Any:
        """On a GPU: what this thread gives it goes to a stream beside that of the backward pass."""
        if job.ready is None:
            return contextlib.nullcontext()
        torch.cuda.set_device(job.buffer.device)  # torch.cuda.stream restores the thread's device: a context for it, if that is another
        stream = self._streams.get(job.buffer.device)
        if stream is None:
            stream = self._streams[job.buffer.device] = torch.cuda.Stream(job.buffer.device)
        return torch.cuda.stream(stream)

    def wait_for_job(self, job: _Job) -> None:
        try:
            with self._beside(job):
                self._wait(job)
                self._finish(job)
        except BaseException as error:  # of the GPU: the stream cannot be used
            job.error = error
            self._finish(job)

    def _wait(self, job: _Job) -> None:
        for part in job.started:
            try:
                part.wait(job.buffer)
            except BaseException as error:  # one that is final counts more
                if job.error is None or isinstance(job.error, NonFiniteError):
                    job.error = error

    def _finish(self, job: _Job) -> None:
        """The exchange is over. With a node, its ranks get the mean afterwards. A thread that waits for it is not woken when the
        interpreter exits: it would end inside of autograd's C++, which then aborts."""
        if _network.exiting or job.finished:
            return
        job.finished = True
        if self._node is None:
            self._spoil(job)
        with self._changed:
            self._note(job.error)
            self._pending -= 1
            self._changed.notify_all()
        if self._node is None:
            self._give(job)

    def _spoil(self, job: _Job) -> None:
        """After an error the result is infinite, so that it cannot be taken for a gradient."""
        if job.error is None:
            return
        try:
            job.buffer.fill_(float("inf"))
        except BaseException as worse:  # the GPU has failed, which is final
            job.error = worse

    def _give(self, job: _Job) -> None:
        """The result, to DDP."""
        try:
            job.future.set_result(job.buffer)
        except BaseException as worse:
            job.future.set_exception(worse)

    def _note(self, error: Optional[BaseException]) -> None:
        if isinstance(error, NonFiniteError):
            self._nonfinite += 1
            self._refusal = self._refusal or error
        elif error is not None and self._failed is None:
            self._failed = error

    def end(self) -> bool:
        """The network is about to be closed: take no more jobs. Returns whether some are under way."""
        with self._changed:
            self._ended = True
            return self._pending > 0

    def ended(self) -> None:
        """The network's threads have ended."""
        self._methods.end_watch(True)
        with self._changed:
            self._failed = self._failed or StateError("the network is closed")
            self._changed.notify_all()

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _cut_anew(self, begin: int) -> None:
        """DDP has other buckets than before, from this one on, which is the first of this step to differ: take their memory, by
        names of parameters. The buckets before it may be under way."""
        for index in [i for i in self._buckets if i >= begin]:
            bucket = self._buckets.pop(index)
            for part in bucket.parts:
                self._memory.put(part.memory_of_tensors(), self._scale)
                self._sent += part.close()

    def _parts(self) -> List[Part]:
        return [part for bucket in self._buckets.values() for part in bucket.parts]

    def _multiply(self, factor: float) -> None:
        for part in self._parts():
            if part.reducer is not None:
                check(_c.tg_reducer_scale(part.reducer.handle(), factor))

    def _settle(self) -> None:
        """The last step is over. If a gradient in it was not finite, nobody has applied the means of the other buckets: what
        was sent for them returns to the memory."""
        if self._begun == 0:
            return
        self._begun = 0
        self._step += 1
        if self._nonfinite > 0:
            self._skipped += 1
        for part in self._parts():
            if self._nonfinite > 0 and part.used and part.reducer is not None:
                part.reducer.undo()
            part.used = False
        self._nonfinite = 0

    def _remember_unused(self, bucket: _Bucket, gradients: List[torch.Tensor]) -> None:
        """DDP discards the mean of a parameter that no rank used. Its gradient is zero here, so it may be one of them."""
        used = torch.stack([gradient.any() for gradient in gradients]).tolist() if gradients else []  # one wait for a GPU
        for name, gradient, is_used in zip(bucket.names, gradients, used):
            if name in bucket.place and not is_used:
                part, segment = bucket.place[name]
                memory = self._memory.of(name) if part.reducer is None else (part.memory({segment}).get(name, {}), self._scale)
                self._unused.append((name, part, segment, gradient, memory))

    def _restore_unused(self) -> None:
        if self._nonfinite > 0:  # the next step takes back everything; its undo must come before slots are touched
            self._unused = []
        for name, part, segment, mean, (memory, scale) in self._unused:
            own = self._parameters[name].grad
            if part.reducer is None or (own is not None and torch.equal(own, mean.to(own.dtype))):
                continue
            for slot, data in part.reducer.slots():
                if slot.segment == segment and not slot_name(slot).startswith(BUCKETS_OWN):
                    kept = memory.get(slot_name(slot))  # None: it had none before
                    data[:] = bytes(len(data)) if kept is None else view(rescaled(kept, self._scale / scale))
        self._unused = []

    # ---- for the user -----------------------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The memory of this rank, by names of parameters, to be saved with the model by each rank for itself. Call it
        between steps."""
        self._check_idle("state_dict")
        self._settle()
        return {**self._own(), "rank": self.net.rank, "size": self.net.size, "place": self._place,
                "ranks": self.net.size * (1 if self._node is None else self._node.size), "step": self._step, "skipped_steps": self._skipped,
                "bytes_sent": self._sent + sent_by(self._parts()), **self._memory.state(self._parts(), self._scale)}

    def load_state_dict(self, state: Any) -> None:
        """Continue from the `state_dict` of this rank, after the model's and the scaler's own: with the same bits. In a job with another
        number of ranks or nodes, give each rank a list (or another iterable) of what all old ranks saved, in order of ranks: what was not
        yet sent is divided anew, so that its mean over the ranks, or nodes, stays.

        Raises  MismatchError: it is of another rank, method or model, or some of the old ranks' are missing. Nothing has changed then
        """
        self._check_idle("load_state_dict")
        several = isinstance(state, Iterable) and not isinstance(state, (Mapping, str, bytes))
        if several:  # of a node's ranks the first one has the memory
            state = (each for each in state if not (isinstance(each, Mapping) and each.get("place", 0) > 0))
        elif isinstance(state, Mapping) and state.get("place", 0) != self._place:
            raise MismatchError(f"load_state_dict: the state is of a rank with place {state.get('place', 0)} in its node, but this rank has place "
                                f"{self._place}: allowed: its own state, or a list of the states of all old ranks")
        state = inherited(state, self.net, self._own())
        if several and self._place > 0:
            state = {**state, "memory": {}, "bytes_sent": 0}
        for name in state["memory"]:
            if name not in self._parameters:
                raise MismatchError(f"load_state_dict: the state has memory of the parameter {name!r}, which this model does not have")
        self._begun = self._nonfinite = 0
        self._refusal, self._unused = None, []
        for part in self._parts():
            part.close()
        self._buckets = {}
        self._memory.load(state)
        self._step, self._skipped, self._sent = int(state["step"]), int(state.get("skipped_steps", 0)), int(state.get("bytes_sent", 0))

    def _own(self) -> Dict[str, Any]:
        return {"version": VERSION, "spec": self.spec, "rules": self._methods.rules}

    def stats(self) -> Dict[str, float]:
        """Figures so far: steps, skipped steps (a gradient was not finite), bytes that this rank has sent in all of these steps, and
        the ratio of the gradient's size to that of its coded form in the last step. After load_state_dict they continue from
        the state's, and so cover the whole run."""
        self._check_idle("stats")
        return {"steps": self._step + (self._begun > 0), "skipped_steps": self._skipped + (self._nonfinite > 0),
                "bytes_sent": self._sent + sent_by(self._parts()), "ratio": ratio_of(self._parts())}

    def _check_idle(self, call: str) -> None:
        with self._changed:
            if self._pending > 0:
                raise StateError(f"{call}: a backward pass is under way: call it between steps")


def ddp(model: Any, spec: str, net: telegrad.Network, *, node: Any = None, rules: Optional[Mapping[str, str]] = None,
        scaler: Any = None, optimizer: Any = None, seed: int = 0, total_steps: int = 0, steps_per_epoch: int = 0, timeout: float = 600,
        threads: int = 1) -> DdpHook:
    """Exchange the gradients of a DistributedDataParallel in compressed form. All ranks call it, before the first step.

    With `node`, the ranks of a node average their gradients over its own fast network (NCCL, or Gloo), in the gradients' type. Its first
    rank exchanges this mean with the first ranks of the other nodes, over the slow network, in compressed form:

        mesh = init_device_mesh("cuda", (nodes, gpus), mesh_dim_names=("nodes", "gpus"))
        net = telegrad.torch.Network(group=mesh["nodes"].get_group())
        hook = telegrad.torch.ddp(model, "dgc:density=0.001", net, node=mesh["gpus"].get_group())

    model            a DistributedDataParallel whose gradients are float32, bfloat16 or float16, in host memory or on CUDA devices
    spec             a method: "dense", "topk:density=0.01", "dgc:density=0.001,warmup=500", "powersgd:rank=2", "qsgd:bits=4"
    net              telegrad.torch.Network(), between the same ranks; with `node`, between the ranks with the same place in their nodes
    node             the process group of this node's ranks; None: all ranks exchange. Nodes have equally many ranks. The exchange has
                     as many ranks as there are nodes, and is between their first ranks, which have the memory. Begin other operations
                     on this group in the thread of the backward pass only
    rules            other methods for parameters by name, {"*.bias": "dense", "embed*": "topk:density=0.01"}; the first pattern that
                     matches applies
    scaler           the GradScaler; one that is not enabled counts as None. If a gradient on some rank is not finite, all ranks get infinite gradients, the scaler skips
                     the step on each, and the memory stays. Without a scaler the backward pass then raises NonFiniteError on
                     each; continue with the next batch
    optimizer        to check it: `dgc`, `csc` and `fetchsgd` apply momentum themselves, so the optimizer's must be 0. If it is not given, they
                     warn. Rank 0 also warns of Adam with methods that send gradients in parts (docs/pytorch.md)
    total_steps, steps_per_epoch, seed, timeout, threads   as for telegrad.Reducer

    Errors of the exchange are raised by `loss.backward()`: PeerError names the rank that has died (with `node`: the number of its node).

    >>> import torch, telegrad.torch                          # a job of one rank; torch.distributed is initialized
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 10))
    >>> hook = telegrad.torch.ddp(model, "topk:density=0.01", telegrad.torch.Network(), rules={"bias": "dense"})
    >>> model(torch.ones(4, 100)).sum().backward()
    >>> int((model.module.weight.grad != 0).sum()), hook.stats()["steps"]
    (10, 1)
    """
    model = ddp_of(model)
    check_text("spec", spec)
    _network.check_network(net)
    check_settings(seed, total_steps, steps_per_epoch, timeout, threads)
    scaler = enabled(scaler)
    levels = None if node is None else Node(node)
    if levels is None:
        check_ranks(model, net)
    parameters = dict(model.module.named_parameters())
    check_model(model, parameters)
    if any(p.requires_grad and p.is_cuda for p in parameters.values()):
        check(_c.tg_cuda_attach())
    settings = {"total_steps": total_steps, "steps_per_epoch": steps_per_epoch, "timeout": timeout, "threads": threads}
    methods = Methods(spec, rules, list(parameters), **settings)
    check_methods(methods, scaler, model.find_unused_parameters)
    methods.check_optimizer(optimizer, torch.distributed.get_rank(model.process_group), list(parameters.values()))
    if levels is not None:
        levels.check(net, torch.distributed.get_world_size(model.process_group), [p for p in parameters.values() if p.requires_grad])
    hook = DdpHook(model, methods, net, levels, scaler, seed, settings)
    try:
        model.register_comm_hook(None, _named(hook))
    except RuntimeError as error:
        raise StateError(f"model: {error}") from None
    if optimizer is None:
        methods.watch_optimizer(torch.distributed.get_rank(model.process_group), list(parameters.values()))
    return hook


def _named(hook: DdpHook) -> Any:
    """The hook as the function that DDP wants."""
    def telegrad_hook(state: object, bucket: torch.distributed.GradBucket  # type: ignore[name-defined,unused-ignore]
                      ) -> torch.futures.Future[torch.Tensor]:
        return hook(state, bucket)
    return telegrad_hook
