"""Workers of parameter servers (telegrad serve): each sends gradients, and gets parameters."""
import ctypes
import math
import os
import threading
from typing import Any, Callable, Dict, List, Optional

import torch

from telegrad import _c
from telegrad._attach import log, Servers, Texts
from telegrad._checks import check_rules, check_settings, check_text
from telegrad._errors import ArgumentError, PeerError, StateError, check
from telegrad._network import _STOP_S, Key
from telegrad._spread import add
from telegrad._tensors import Tensor, unscaled

_SAY_S = 10  # of a wait, when it is told first
_wait_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _Waits:
    """Tells of long waits for a server."""

    def __init__(self) -> None:
        self._last, self._next = 0.0, float(_SAY_S)

    def __call__(self, _: Optional[int], where: Optional[int]) -> None:
        wait = _c.tg_wait.from_address(where or 0)
        seconds = wait.for_ns / 1e9
        if seconds < self._last:  # another wait
            self._next = _SAY_S
        self._last = seconds
        if seconds >= self._next:
            self._next *= 2
            log.warning("waiting for server %d for %.0f s (step %d)", wait.rank - 1, seconds, wait.step)


class _Session:
    """A tg_session, which the worker and its network hold: whichever ends first destroys it."""

    def __init__(self, net: Servers, config: _c.tg_session_config, uses: object) -> None:
        """uses: what must live as long as the session."""
        self._waits = _wait_function(_Waits())
        config.optimizer = net.optimizer.encode()
        config.on_wait = ctypes.cast(self._waits, ctypes.c_void_p).value
        self.method = (config.method or b"").decode()
        self._uses, self._ended = (config, uses), net._stop
        self._inside = threading.Lock()  # of a call inside the library
        self._there = threading.Lock()  # so that the handle is not freed meanwhile
        handle = ctypes.c_void_p()
        check(_c.tg_session_create(ctypes.byref(config), net.handle(), ctypes.byref(handle)))
        self._handle = handle.value
        net._before_close.append(self.end)

    def get(self) -> int:
        if self._handle is None:
            raise StateError("the worker is closed")
        return self._handle

    def call(self, body: Callable[[int], None]) -> None:
        """Run it, with the handle, in a thread of its own, because a thread inside the library cannot take a signal: this one can
        be interrupted, which ends the wait."""
        failed: List[BaseException] = []
        idle = threading.Event()

        def run() -> None:
            try:
                with self._inside:
                    body(self.get())
            except BaseException as error:
                failed.append(error)
            finally:
                idle.set()
        threading.Thread(target=run, name="telegrad worker", daemon=True).start()
        try:
            while not idle.wait(0.5):  # a signal that another thread has taken is seen then
                if self._ended.value:
                    self._end_wait()
        except BaseException:
            if not idle.wait(1):
                self._end_wait()
                idle.wait(_STOP_S)
            raise
        if failed:
            raise failed[0]

    def _end_wait(self) -> None:
        self._ended.value = 1
        with self._there:
            for _ in range(2):
                _c.tg_session_request_stop(self._handle)

    def end(self) -> None:
        """Raises StateError if a call does not end: then what it uses must stay."""
        if not self._inside.acquire(blocking=False):
            self._end_wait()
            if not self._inside.acquire(timeout=_STOP_S):
                raise StateError("a call of the worker does not end")
        with self._there:
            handle, self._handle = self._handle, None
        self._inside.release()
        if handle is not None:
            _c.tg_session_destroy(handle)


class Worker(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore]
    """What `server` returns: an optimizer whose steps the servers make. `step` sends the gradients and takes the parameters
    that come back into the model; it is the only call that waits for servers. Its one parameter group has `lr`, which goes
    with each gradient, so that a learning-rate schedule takes it as any optimizer.

    optimizer   the servers', such as "sgd:lr=0.01,momentum=0.9", which counts but for its lr
    seat        the number of this worker among those that are there, 0 to `seats` - 1: for its part of the data
    seats       most workers at the same time (`telegrad serve --workers`)
    net         its `stop`, from any thread, ends a wait after a second

    `with` closes it. Ctrl-C ends a wait, too.

    >>> import torch, telegrad.torch                          # address: that of "telegrad serve --insecure --listen ADDRESS"
    >>> model = torch.nn.Linear(100, 10)
    >>> opt = telegrad.torch.server(model, address, "topk:density=0.01", lr=0.1, insecure=True)
    >>> schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=2)
    >>> for x in torch.ones(4, 5, 100):
    ...     opt.zero_grad()
    ...     model(x).pow(2).mean().backward()
    ...     opt.step()
    ...     schedule.step()
    >>> opt.stats()["steps"], opt.seat, round(opt.param_groups[0]["lr"], 3)
    (4, 0, 0.001)
    >>> opt.close()
    """

    # GradScaler calls step() in every case: see Local.
    _step_supports_amp_scaling = True

    def __init__(self, model: torch.nn.Module, net: Servers, lr: float, config: _c.tg_session_config, uses: object) -> None:
        """See `server`. config: what it points to is in `uses`."""
        self._complete = False
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self.net, self.optimizer, self.seat, self.seats = net, net.optimizer, net.seat, net.seats
        self._tensors = _tensors_of(model)
        self._copied = [t for t in self._tensors if t.copied]
        self._left_out, self._ratio = 0, 0.0
        super().__init__([t.tensor for t in self._tensors], {"lr": float(lr)})
        self._complete = True
        # The gradients, side by side: the session does not copy these.
        self._gradients = torch.zeros(sum(t.memory.numel() for t in self._tensors))
        pieces = self._gradients.split([t.memory.numel() for t in self._tensors])
        self._views = [piece.view(t.memory.shape) for piece, t in zip(pieces, self._tensors)]
        self._session = _Session(net, config, (uses, self._tensors, self._gradients))
        try:
            handle = self.handle()
            for t, view in zip(self._tensors, self._views):
                t.id = add(handle, t.name, t.memory, _c.TG_TENSOR_TRAINED, view)
            with torch.no_grad():
                self._session.call(lambda handle: check(_c.tg_session_begin(handle)))
                self._take()
        except BaseException as error:
            self.close()
            if isinstance(error, PeerError) and ("other settings" in str(error) or "another model" in str(error)):
                raise PeerError(f"{error}; this worker has {self._gradients.numel()} parameters in {len(self._tensors)} tensors, method "
                                f"{self._session.method}") from None
            raise

    def handle(self) -> int:
        """The `tg_session *`, for calls of `telegrad._c`."""
        return self._session.get()

    # ---- the step ---------------------------------------------------------------------------------------------------

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Send the gradients, and take the parameters that the servers have then. Gradients that are not finite are not sent
        (`skipped_steps`); the parameters stay. A parameter without a gradient sends zeros, so that the servers' momentum and
        weight decay go on for it.

        Raises  PeerError: a server has left for good, has disconnected this worker, or was called for `timeout` seconds in
                vain; the text says which, and why. StoppedError. Both are final
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._lock, torch.no_grad():
            self.handle()  # refuses one that is closed
            for t in self._tensors:
                t.check("the worker")
            if not unscaled(self):
                self._left_out += 1
                return loss
            for t, view in zip(self._tensors, self._views):
                gradient = t.tensor.grad
                if gradient is None:
                    view.zero_()
                else:
                    view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            rate = float(self.param_groups[0]["lr"])
            info = _c.tg_step_info(struct_size=ctypes.sizeof(_c.tg_step_info))

            def push(handle: int) -> None:
                check(_c.tg_session_set_lr(handle, rate))
                for t in reversed(self._tensors):
                    check(_c.tg_session_grad_ready(handle, t.id))
                check(_c.tg_session_step(handle, ctypes.byref(info)))
            self._session.call(push)
            self._take()
            self._left_out += bool(info.skipped)
            if info.coded_bytes:
                self._ratio = 4 * self._gradients.numel() / info.coded_bytes
        return loss

    def _take(self) -> None:
        for t in self._copied:
            t.push()

    # ---- as every optimizer -----------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Any) -> None:
        """Refused: the servers have the parameters."""
        if self._complete:
            raise StateError("add_param_group: the servers have the parameters that the model had: allowed: all parameters in one group")
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError("a worker is connected to servers and can be neither copied nor pickled: allowed: state_dict()")

    def __repr__(self) -> str:
        return (f"<telegrad.torch.Worker: {self._session.method} for {self.optimizer}, worker {self.seat} of at most {self.seats}"
                f"{', closed' if self.net.closed else ''}>")

    # ---- figures and the end ----------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Figures so far: steps, that servers have answered; skipped_steps: those that were left out because a gradient was not
        finite; bytes_sent: by this worker; ratio: size of the gradient over that of its coded form in the last step."""
        handle = self.handle()
        return {"steps": int(_c.tg_session_steps(handle)), "skipped_steps": self._left_out,
                "bytes_sent": int(_c.tg_session_bytes_sent(handle)), "ratio": self._ratio}

    def close(self) -> None:
        """Leave the servers, which go on. The model keeps the parameters that came last. What the method has not yet sent of the
        gradients is lost. Does nothing the second time."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._session.end()
            self.net.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_session"):
            self.close()


def _tensors_of(model: torch.nn.Module) -> List[Tensor]:
    tensors = [Tensor(model, name, p, True) for name, p in model.named_parameters() if p.requires_grad and p.numel() > 0]
    if not tensors:
        raise ArgumentError("model: no parameter of it requires a gradient: allowed: a model to train")
    return tensors


def server(model: torch.nn.Module, address: Texts, method: str = "dense", *, lr: float, server_key: Optional[Texts] = None,
           key: Optional[Key] = None, insecure: bool = False, rules: Optional[Dict[str, str]] = None, seed: int = 0, total_steps: int = 0,
           steps_per_epoch: int = 0, timeout: float = 600, threads: int = 1) -> Worker:
    """Be a worker of `telegrad serve`, which keeps the parameters and makes the steps. Workers come and go at any time, and do
    not know each other: each process is alone, and needs neither torch.distributed nor DistributedDataParallel.

        opt = telegrad.torch.server(model, "tcp://host-a:4242", "topk:density=0.01", lr=0.1, key=telegrad.Key.load("w1.key"),
                                    server_key="tgk1:...")
        for x, y in data:
            opt.zero_grad()
            loss(model(x), y).backward()
            opt.step()

    Returns once the model has the parameters of the servers; the first worker brings those that training begins with.

    model       the module: its parameters that require a gradient, in host memory; of float32, without a copy. Buffers and
                frozen parameters stay as they are on this worker
    address     of the server, as its --listen: "tcp://HOST:PORT"; of several (telegrad serve --shard 0/2 and 1/2), a list in
                the order of their shards
    method      how gradients are coded: "topk:density=0.01", "dgc:density=0.001", "2bit", "fp16", ...; those of one round,
                with exchange=star
    lr          the learning rate, which goes with each gradient; the servers' optimizer counts otherwise
    server_key  the server's public key, as telegrad key show prints it; of several, a list
    key         this worker's, whose public key is on the servers' list (telegrad serve --allow)
    insecure    neither keys nor encryption, as telegrad serve --insecure
    rules       methods of parameters by patterns of names: {"*.bias": "f32"}
    timeout     seconds for which a server is called that does not answer, now or after its connection has broken off; and that
                an answer may take
    seed, total_steps, steps_per_epoch, threads   as for telegrad.Reducer

    Workers that are there at the same time give the same method, rules, seed, lengths and shapes; one that differs is
    disconnected. The log "telegrad" of the module logging tells of long waits.

    Raises  PeerError: a server does not answer, does not accept the key, has no seat free, or has disconnected this worker; the
            text says which, and why. MismatchError: it is another shard, or has another key

    >>> import torch, telegrad.torch                          # address: that of "telegrad serve --insecure --listen ADDRESS"
    >>> model = torch.nn.Linear(100, 10)
    >>> with telegrad.torch.server(model, address, "topk:density=0.01", lr=0.1, insecure=True) as opt:
    ...     for x in torch.ones(4, 5, 100):
    ...         opt.zero_grad()
    ...         model(x).pow(2).mean().backward()
    ...         opt.step()
    ...     print(opt.stats()["steps"], opt.optimizer)
    4 sgd:lr=0.01
    """
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise ArgumentError(f"model: a {type(model).__name__}: allowed: a torch.nn.Module, not in DistributedDataParallel (model.module)")
    try:
        rate = float(lr)
    except (TypeError, ValueError):
        raise ArgumentError(f"lr: a {type(lr).__name__}: allowed: a number") from None
    if not 0 <= rate or not math.isfinite(rate):
        raise ArgumentError(f"lr={lr}: allowed: 0 or more")
    check_settings(seed, total_steps, steps_per_epoch, timeout, threads)
    own_method = check_text("method", method)
    texts = [f"{pattern}={value}".encode() for pattern, value in check_rules(rules).items()]
    listed = (ctypes.c_char_p * len(texts))(*texts)
    _tensors_of(model)  # refuses what cannot be trained before anybody is called
    config = _c.tg_session_config(
        struct_size=ctypes.sizeof(_c.tg_session_config), method=own_method, strategy=b"server", seed=seed, steps_per_epoch=steps_per_epoch,
        timeout_ms=max(1, round(timeout * 1000)), driver=_c.TG_DRIVER_INLINE, rules=ctypes.addressof(listed) if texts else None,
        nrules=len(texts), codec_threads=threads, total_steps=total_steps, job=b"telegrad.torch.server")
    return Worker(model, Servers(address, server_key, key, insecure, timeout), rate, config, (texts, listed))
