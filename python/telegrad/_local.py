"""Local methods (local SGD, DiLoCo, SparseLoCo, ...) with any optimizer of PyTorch's inside."""
import contextlib
import ctypes
import inspect
import os
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from telegrad import _c
from telegrad._blend import mean_of
from telegrad._checks import check_rules, check_settings, check_text, check_whole
from telegrad._errors import ArgumentError, Error, MismatchError, StateError, check
from telegrad._network import Network, check_network
from telegrad._spread import add, groups, others_of, spread
from telegrad._takeover import states_of
from telegrad._tensors import TAKEN, Tensor, are_finite, pull, push, unscaled

_VERSION = 1


def _of_inner(name: str) -> Any:
    def method(self: "Local", *args: Any, **options: Any) -> Any:
        """That of the optimizer inside, which calls the hook."""
        return getattr(self.optimizer, name)(*args, **options)
    method.__name__ = name
    return method


class Local(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore]
    """An optimizer with which each rank takes steps of its own, and the ranks exchange from time to time what these steps have
    changed. Each rank trains on its own data; all ranks call `step` equally often.

        opt = telegrad.torch.Local(torch.optim.AdamW(model.parameters(), 3e-4), model, "diloco:every=50", net)
        for x, y in data:
            opt.zero_grad()
            loss(model(x), y).backward()
            opt.step()
        with opt.global_weights():
            evaluate(model)

    optimizer        any optimizer whose step() needs no closure (LBFGS does). Its memory stays on its rank, and is not exchanged.
                     A learning-rate schedule takes it or this one
    model            the module, not in DistributedDataParallel, which has all parameters of the optimizer, in host memory or on
                     CUDA devices. The exchange works on float32 in host memory: other parameters are copied there and back, with
                     `local`, `fedavg`, `diloco`, `sparseloco` and `streaming` only at the end of a round. Buffers of float32,
                     bfloat16 and float16 (statistics of a batch norm) stay on their rank; `global_weights` shows their means
    spec             a strategy with its settings: "local:every=8", "local:every=8,after=500" (post-local SGD),
                     "diloco:every=100", "streaming:every=100,fragments=4", "sparseloco", "fedavg", "eager", "dga:delay=4",
                     "gossip"; docs/strategies.md lists them. "ssgd", "pipe", and "cd" or "od" with local=sgd and eta_loc
                     give means of gradients to the optimizer. "demo" is an optimizer itself, and is refused
    net              the ranks, which must all give the same arguments. At first all get rank 0's parameters and buffers,
                     including parameters that the optimizer does not have and buffers of other types
    method           how changes are coded: "qsgd:bits=4", "topk:density=0.01", ...; None: the strategy's own
    rules            methods of parameters by patterns of names: {"*.bias": "f32"}
    samples          training samples of this rank; fedavg weights by them
    bucket_bytes     bytes of parameters that are exchanged together; streaming needs as many buckets as fragments. 0: 25 MiB
    total_steps, steps_per_epoch, seed, timeout, threads   as for telegrad.Reducer

    A rank whose gradients are not finite leaves the step out, but counts it. GradScaler.step(opt) calls `step` even when it
    finds such gradients, so ranks make equally many. If parameters are not finite when they are exchanged, the round is lost,
    and all ranks continue from the last average.

    >>> import torch, telegrad, telegrad.torch
    >>> model = torch.nn.Linear(4, 2)
    >>> net = telegrad.Network.local(1)[0]
    >>> opt = telegrad.torch.Local(torch.optim.AdamW(model.parameters(), 3e-4), model, "diloco:every=2", net)
    >>> for _ in range(4):
    ...     opt.zero_grad()
    ...     model(torch.ones(4)).sum().backward()
    ...     opt.step()
    >>> with opt.global_weights():
    ...     total = float(model(torch.ones(4)).sum().detach())
    >>> opt.stats()["steps"]
    4
    """

    # GradScaler calls step() in every case, and gives this object the attributes grad_scale (None: it has divided by it) and
    # found_inf meanwhile.
    _step_supports_amp_scaling = True

    def __init__(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module, spec: str, net: Network, *,
                 method: Optional[str] = None, rules: Optional[Dict[str, str]] = None, samples: int = 0, bucket_bytes: int = 0,
                 seed: int = 0, total_steps: int = 0, steps_per_epoch: int = 0, timeout: float = 600, threads: int = 1) -> None:
        # not super().__init__, which would make groups and a state of its own beside those of the optimizer
        self._handle: Optional[int] = None
        self._pid = os.getpid()
        self._lock = threading.RLock()  # so that no thread frees what another one waits for
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, Local):
            raise ArgumentError(f"optimizer: a {type(optimizer).__name__}: allowed: a torch.optim.Optimizer")
        arguments = list(inspect.signature(type(optimizer).step).parameters.values())[1:]
        if any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in arguments):
            raise ArgumentError(f"optimizer: a {type(optimizer).__name__}, whose step() needs a closure: allowed: an optimizer that "
                                "takes one step with the gradient that there is")
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise ArgumentError("model: a DistributedDataParallel, which averages gradients in every step: allowed: the module inside "
                                "of it (model.module)")
        check_settings(seed, total_steps, steps_per_epoch, timeout, threads)
        check_whole("samples", samples, 0)
        check_whole("bucket_bytes", bucket_bytes, 0)
        strategy, own_method = check_text("spec", spec), None if method is None else check_text("method", method)
        check_network(net)
        self.optimizer, self.spec, self.net = optimizer, spec, net
        self._optimizer_step_pre_hooks: Dict[int, Any] = {}
        self._optimizer_step_post_hooks: Dict[int, Any] = {}
        self._tensors = _tensors_of(optimizer, model)
        self._trained = [t for t in self._tensors if t.trained]
        self._model = model
        others = others_of({t.name for t in self._tensors}, model)
        job = f"{len(others)} tensors that are not exchanged, {sum(t.numel() * t.element_size() for t in others.values())} bytes"
        self._buffers = [name for name, _ in model.named_buffers() if name in others]
        first = optimizer.param_groups[0]
        self._first_rate = float(first.get("initial_lr", first.get("lr")) or 0.0)  # Adafactor's is None
        self._rate = 1.0
        self._left_out = 0
        self._sent = 0  # bytes, before the state that was loaded
        self._texts = [f"{pattern}={value}".encode() for pattern, value in check_rules(rules).items()]
        self._rules = (ctypes.c_char_p * len(self._texts))(*self._texts)
        self._config = _c.tg_session_config(
            struct_size=ctypes.sizeof(_c.tg_session_config), method=own_method, strategy=strategy,
            optimizer=b"external", seed=seed, steps_per_epoch=steps_per_epoch, timeout_ms=max(1, round(timeout * 1000)),
            on_unready=_c.TG_UNREADY_ZERO, bucket_bytes=bucket_bytes, rules=ctypes.addressof(self._rules) if self._texts else None,
            nrules=len(self._texts), codec_threads=threads, samples=samples, total_steps=total_steps,
            job=job.encode(), stop=ctypes.addressof(net._stop))
        self._create()
        try:
            self._call(_c.tg_session_begin)
            for group in groups(others):
                spread(self._config, net, group)
        except BaseException:
            self.close()
            raise
        push(self._tensors)
        net._reducers.add(self)

    def _create(self) -> None:
        """A session with the tensors, which has not begun."""
        handle = ctypes.c_void_p()
        check(_c.tg_session_create(ctypes.byref(self._config), self.net.handle(), ctypes.byref(handle)))
        assert handle.value is not None
        self._handle = handle.value
        self.net._handles[handle.value] = _c.tg_session_destroy
        try:
            for t in self._tensors:
                t.id = add(self.handle(), t.name, t.memory, _c.TG_TENSOR_TRAINED if t.trained else _c.TG_TENSOR_AVERAGED)
        except Error:
            self.close()
            raise

    def handle(self) -> int:
        """The `tg_session *`, for calls of `telegrad._c`."""
        if self._handle is None:
            raise StateError("the optimizer is closed, or its step or its load_state_dict has failed")
        return self._handle

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Of the session, which works on the tensors meanwhile, and may wait for other ranks."""
        handle, uses = self.handle(), self._tensors
        self.net._wait(lambda uses=uses: check(function(handle, *arguments)), handle, tells=False)  # type: ignore[misc]

    def _call_here(self, function: Callable[..., int], *arguments: Any) -> None:
        """One that does not wait."""
        check(function(self.handle(), *arguments))

    def _exchanges(self, handle: int) -> bool:
        """Whether this step may wait for other ranks; of two tensors, because it costs something to ask, and nothing to be wrong but that
        a signal has to wait, too."""
        return any(_c.tg_session_touches(handle, t.id) for t in (self._trained[0], self._trained[-1]))

    # ---- as every optimizer -----------------------------------------------------------------------------------------

    @property
    def param_groups(self) -> List[Dict[str, Any]]:  # type: ignore[override, unused-ignore]
        """Those of the optimizer inside."""
        groups: List[Dict[str, Any]] = self.optimizer.param_groups
        return groups

    @property
    def state(self) -> Any:  # type: ignore[override, unused-ignore]
        """That of the optimizer inside."""
        return self.optimizer.state

    @property
    def defaults(self) -> Dict[str, Any]:  # type: ignore[override, unused-ignore]
        """Those of the optimizer inside."""
        defaults: Dict[str, Any] = self.optimizer.defaults
        return defaults

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As that of the optimizer inside."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: Any) -> None:
        """Refused: the ranks have agreed on the parameters."""
        raise StateError("add_param_group: the ranks have agreed on the parameters: allowed: to add them to the optimizer before Local is "
                         "created")

    register_step_pre_hook = _of_inner("register_step_pre_hook")
    register_step_post_hook = _of_inner("register_step_post_hook")
    register_state_dict_pre_hook = _of_inner("register_state_dict_pre_hook")
    register_state_dict_post_hook = _of_inner("register_state_dict_post_hook")
    register_load_state_dict_pre_hook = _of_inner("register_load_state_dict_pre_hook")
    register_load_state_dict_post_hook = _of_inner("register_load_state_dict_post_hook")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError("Local is connected to other ranks and can be neither copied nor pickled: allowed: state_dict()")

    def __repr__(self) -> str:
        return f"<telegrad.torch.Local: {self.spec} over {type(self.optimizer).__name__}, rank {self.net.rank} of {self.net.size}>"

    # ---- the step ---------------------------------------------------------------------------------------------------

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """A step of the optimizer inside, and an exchange if one is due. `local`, `fedavg`, `diloco` and `sparseloco` wait for
        other ranks at the end of a round; `ssgd`, `gossip` and the first `after` steps of `local` in every step.
        `streaming`, `eager`, `dga`, `pipe`, `od`, `cd` and `gossip:overlap=1` exchange while training continues, and wait only
        for results that are late.

        Raises  PeerError, CorruptError, StoppedError: final. So is what the optimizer inside raises: this rank leaves the network,
                so that the others do not wait for it
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._lock, torch.no_grad():
            handle = self.handle()
            finite = unscaled(self)
            self._check()
            self._set_rate(handle)
            try:
                self._exchange(handle, finite)
            except Error:
                raise
            except BaseException:  # in the middle of a step, which cannot be taken again
                self.net.close()
                raise
        return loss

    def _check(self) -> None:
        for t in self._tensors:
            t.check("Local")

    def _exchange(self, handle: int, finite: bool) -> None:
        """The step. finite: the own gradients are."""
        in_deliver, in_step = self._touched(handle)
        call = self._call if self._exchanges(handle) else self._call_here
        sends = self._send_gradients(handle)
        turn = _c.tg_turn(struct_size=ctypes.sizeof(_c.tg_turn))
        pull(in_deliver)
        call(_c.tg_session_deliver, ctypes.byref(turn))
        push(in_deliver)
        if turn.resets:
            self.optimizer.state.clear()
        if sends and turn.moves:
            self._take_means(handle)
        if turn.moves and (sends or finite):
            self.optimizer.step()
        elif turn.moves:
            self._left_out += 1
        pull(in_step)
        info = _c.tg_step_info(struct_size=ctypes.sizeof(_c.tg_step_info))
        call(_c.tg_session_step, ctypes.byref(info))
        push(in_step)
        if info.skipped:
            self._heal()

    def _touched(self, handle: int) -> Tuple[List[Tensor], List[Tensor]]:
        """Of the tensors that the session has copies of, those that the two calls of this step read or change."""
        calls = [(t, int(_c.tg_session_touches(handle, t.id))) for t in self._trained if t.copied]
        return ([t for t, touches in calls if touches & _c.TG_TOUCHES_IN_DELIVER],
                [t for t, touches in calls if touches & _c.TG_TOUCHES_IN_STEP])

    def _set_rate(self, handle: int) -> None:
        """eta_loc of od and cd, and the outer momentum of diloco and streaming, follow the schedule of the first group."""
        rate = float(self.param_groups[0].get("lr") or 0.0) / self._first_rate if self._first_rate > 0 else 1.0
        if rate != self._rate:
            check(_c.tg_session_set_lr(handle, rate))
            self._rate = rate

    def _send_gradients(self, handle: int) -> bool:
        """If this step exchanges gradients, hand them in, the last layers' first."""
        sends = False
        for t in reversed(self._trained):
            where = _c.tg_session_gradient(handle, t.id)
            if not where:
                continue
            sends = True
            own, to = t.tensor.grad, t.gradient(where)
            if own is None:
                to.zero_()
            else:
                to.copy_(own.to_dense() if own.is_sparse else own)
            check(_c.tg_session_grad_ready(handle, t.id))
        return sends

    def _take_means(self, handle: int) -> None:
        """Parameters that are frozen, or that no rank has used, get none: an optimizer moves by a gradient of zero, too (weight
        decay, momentum). All ranks decide alike, by the mean."""
        for t in self._trained:
            mean = t.gradient(_c.tg_session_gradient(handle, t.id))
            if not t.tensor.requires_grad or not bool(mean.any()):
                t.tensor.grad = None
            elif t.tensor.grad is None or t.tensor.grad.is_sparse:
                t.tensor.grad = mean.to(t.tensor.device, t.tensor.dtype, copy=True)
            else:
                t.tensor.grad.copy_(mean)

    def _heal(self) -> None:
        """A round was lost: what the optimizer remembers may be what spoiled it."""
        for p, state in list(self.optimizer.state.items()):
            if not are_finite([v for v in state.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]):
                del self.optimizer.state[p]

    # ---- global weights ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def global_weights(self) -> Iterator[None]:
        """Inside of `with`, the model has the global weights, the same on all ranks, and the means of its buffers: to evaluate
        it, or to save the weights. All ranks use it, between the same steps."""
        self._evaluate(True)
        try:
            yield
        finally:
            self._evaluate(False)

    def _evaluate(self, begins: bool) -> None:
        with self._lock, torch.no_grad():
            self._check()
            pull(self._tensors)
            self._call(_c.tg_session_eval_begin if begins else _c.tg_session_eval_end)
            push(self._tensors)

    def finish(self) -> None:
        """Take in what is in flight, and the unfinished round. From here on the parameters are the global weights. All ranks
        call it, after the last step; more steps may follow."""
        with self._lock, torch.no_grad():
            self._check()
            pull(self._tensors)
            self._call(_c.tg_session_finish)
            push(self._tensors)

    @property
    def idle(self) -> bool:
        """Whether this rank sits out the next step (fedavg with clients < 1). Its gradient is not needed then, but call `step`."""
        return bool(_c.tg_session_idle(self.handle()))

    def stats(self) -> Dict[str, int]:
        """Figures so far: steps; skipped_steps: those that this rank has left out because a gradient was not finite;
        lost_rounds: exchanges that were dropped because something was not finite; bytes_sent: by this rank, in all of these
        steps. After load_state_dict, those of the state count on."""
        handle = self.handle()
        return {"steps": int(_c.tg_session_steps(handle)), "skipped_steps": self._left_out,
                "lost_rounds": int(_c.tg_session_skipped(handle)), "bytes_sent": self._sent + int(_c.tg_session_bytes_sent(handle))}

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """What this rank needs to continue with the same bits: the optimizer's state, its parameters and the model's buffers on
        this rank, the last average, and what is in flight; not the parameters that the optimizer does not have. All ranks call
        it after the same step, and each saves its own."""
        with self._lock, torch.no_grad():
            self._check()
            pull(self._tensors)
            bytes_, length = ctypes.c_void_p(), ctypes.c_size_t()
            self._call(_c.tg_session_save_memory, ctypes.byref(bytes_), ctypes.byref(length))
            assert bytes_.value is not None
            memory = (ctypes.c_uint8 * length.value).from_address(bytes_.value)
            session = torch.frombuffer(memory, dtype=torch.uint8).clone()
        return {"version": _VERSION, "spec": self.spec, "rank": self.net.rank, "size": self.net.size,
                "optimizer": self.optimizer.state_dict(), "left_out": self._left_out, "session": session,
                "first_rate": self._first_rate, "bytes_sent": self.stats()["bytes_sent"],
                "buffers": {name: b.detach().clone() for name, b in self._model.named_buffers() if name in self._buffers}}

    def load_state_dict(self, state_dict: Any) -> None:
        """Continue from the `state_dict` of this rank: with the same bits. It sets the parameters, too. All ranks call it. In a job with
        another number of ranks, give each rank a list (or another iterable) of what all old ranks saved, in order of ranks. A rank's own
        parameters, optimizer memory and what it has not yet sent become the mean over the old ranks that it takes over; the last average
        stays (docs/checkpoints.md). With fedavg:clients= below 1, or deadline=, the optimizer starts again without memory.

        Raises  MismatchError: it is of another rank, strategy or model, or the ranks' are of different steps, or some are missing
        """
        own = {"version": _VERSION, "spec": self.spec}
        states = list(states_of(state_dict, self.net, own, ("optimizer", "session", "buffers", "left_out", "first_rate")))
        taken = [(share, state) for share, _, state in states if share > 0]
        first = taken[0][1]
        buffers: Dict[str, torch.Tensor] = first["buffers"]
        if sorted(buffers) != sorted(self._buffers):
            raise MismatchError(f"load_state_dict: the state has the buffers {sorted(buffers)}, but this model has {sorted(self._buffers)}")
        with self._lock, torch.no_grad():
            pull(self._tensors)
            self._call(_c.tg_session_finish)  # nothing may be in flight when it ends
            push(self._tensors)
            self.optimizer.load_state_dict(mean_of([(share, state["optimizer"]) for share, state in taken]))
            self.close()
            self._create()
            try:
                self._load([state["session"].cpu().contiguous() for _, _, state in states], int(first["size"]))
            except Error:
                self.close()
                raise
            for name, b in self._model.named_buffers():
                if name in buffers:
                    b.copy_(buffers[name])
            self._sent = int(first.get("bytes_sent", 0))
            self._left_out, self._first_rate, self._rate = int(first["left_out"]), float(first["first_rate"]), -1.0
            push(self._tensors)
            self.net._reducers.add(self)

    def _load(self, states: List[torch.Tensor], ranks: int) -> None:
        """What `ranks` ranks have saved: that of this rank if they are as many as now, else those of all."""
        if ranks == self.net.size:
            self._call(_c.tg_session_load_memory, states[0].data_ptr(), states[0].numel())
            return
        where = (ctypes.c_void_p * ranks)(*(s.data_ptr() for s in states))
        lengths = (ctypes.c_size_t * ranks)(*(s.numel() for s in states))
        self._call(_c.tg_session_take_memory, where, lengths, ranks)
        resumed = _c.tg_resumed(struct_size=ctypes.sizeof(_c.tg_resumed))
        check(_c.tg_session_resumed(self.handle(), ctypes.byref(resumed)))
        anew = resumed.anew.decode() if resumed.anew else ""
        if "optimizers' states" in anew:
            self.optimizer.state.clear()
        if anew and self.net.rank == 0:
            warnings.warn(f"load_state_dict: with {self.net.size} ranks instead of {ranks}, these begin anew: {anew}")

    def close(self) -> None:
        """Free what the optimizer holds of the library. An exchange under way is lost, and ends the network for all ranks; call
        `finish` before."""
        if self._handle is None or os.getpid() != self._pid:
            return
        with self._lock:
            handle, self._handle = self._handle, None
            self.net._free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def _tensors_of(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> List[Tensor]:
    """The optimizer's parameters in the order of the model, and those buffers of the model that are averaged."""
    wanted = {id(p): (g, i) for g, group in enumerate(optimizer.param_groups) for i, p in enumerate(group["params"])}
    tensors = [Tensor(model, name, p, True) for name, p in model.named_parameters() if wanted.pop(id(p), None) is not None]
    for group, index in wanted.values():
        raise ArgumentError(f"optimizer: parameter {index} of its group {group} is not one of the model's")
    tensors += [Tensor(model, name, b, False) for name, b in model.named_buffers() if b.dtype in TAKEN and b.numel() > 0]
    return tensors
