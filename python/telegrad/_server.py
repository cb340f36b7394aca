"""Workers of parameter servers (telegrad serve): each sends gradients, and gets parameters."""
import ctypes
import math
import os
import threading
from typing import Any, Callable, Dict, List, Optional

import torch

from telegrad import _c
from telegrad._attach import expected_mode, Servers, Texts
from telegrad._checks import check_rules, check_settings, check_text
from telegrad._errors import ArgumentError, PeerError, StateError, check
from telegrad._log import log
from telegrad._network import _STOP_S, Key
from telegrad._spread import add
from telegrad._tensors import Tensor, check_tensor, fetch, finish_copies, host_memory, push, unscaled

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


def _await_step(lock: Any) -> None:
    """Wait until no other thread is in step(), once its call of the library has been ended."""
    if lock.acquire(timeout=_STOP_S):
        lock.release()


class Worker(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore]
    """What `server` returns: an optimizer whose updates the servers make. `step` sends the gradients and copies the
    parameters that come back into the model. There is one parameter group, whose `lr` goes with each gradient, so
    learning-rate schedulers work as with any optimizer.

    optimizer   that of the servers, such as "sgd:lr=0.01,momentum=0.9"; its lr has no effect
    mode        that of the servers, such as "async:staleness=4"
    seat        this worker's number, 0 to `seats` - 1, by which to choose its part of the data
    seats       the most workers at a time (`telegrad serve --workers`)
    first_step  the step of the job at which this worker begins: that of the slowest worker; if no other is connected, the one
                after the last that was made
    net         `net.stop()`, from any thread, ends a wait for a server after a second, as does Ctrl-C

    A `with` statement closes it.

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
        self.net, self.optimizer, self.mode, self.seat, self.seats = net, net.optimizer, net.mode, net.seat, net.seats
        self._tensors = [Tensor(model, name, p, True) for name, p in _trained(model).items()]
        self._left_out, self._late, self._ratio = 0, 0, 0.0
        super().__init__([t.tensor for t in self._tensors], {"lr": float(lr)})
        self._complete = True
        # The gradients, side by side: the session does not copy these.
        on_gpu = [t.tensor for t in self._tensors if t.tensor.is_cuda]
        self._gradients = host_memory([sum(t.memory.numel() for t in self._tensors)], (on_gpu or [self._tensors[0].tensor])[0])
        pieces = self._gradients.split([t.memory.numel() for t in self._tensors])
        self._views = [piece.view(t.memory.shape) for piece, t in zip(pieces, self._tensors)]
        self._session = _Session(net, config, (uses, self._tensors, self._gradients))
        lock = self._lock  # the network must not keep the worker
        net._before_close.append(lambda: _await_step(lock))
        try:
            handle = self.handle()
            for t, view in zip(self._tensors, self._views):
                t.id = add(handle, t.name, t.memory, _c.TG_TENSOR_TRAINED, view)
            with torch.no_grad():
                self._session.call(lambda handle: check(_c.tg_session_begin(handle)))
                self.first_step = int(_c.tg_session_steps(handle))
                push(self._tensors)
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
        """Send the gradients, and wait for the new parameters. If a gradient is not finite, nothing is sent, and the parameters
        stay as they are (`skipped_steps`). A parameter without a gradient counts as one with a gradient of zero, so momentum
        and weight decay change it.

        Raises  PeerError: the server has disconnected this worker, or could not be reached for `timeout` seconds; the text
                says which server, and why. StoppedError: the wait was ended. Both are final
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
                    fetch(view, gradient.to_dense() if gradient.is_sparse else gradient)
            finish_copies(t.tensor for t in self._tensors)
            rate = float(self.param_groups[0]["lr"])
            info = _c.tg_step_info(struct_size=ctypes.sizeof(_c.tg_step_info))

            def exchange(handle: int) -> None:
                check(_c.tg_session_set_lr(handle, rate))
                for t in reversed(self._tensors):
                    check(_c.tg_session_grad_ready(handle, t.id))
                check(_c.tg_session_step(handle, ctypes.byref(info)))
            self._session.call(exchange)
            push(self._tensors)
            self._left_out += bool(info.skipped)
            self._late += info.late > 0
            if info.coded_bytes:
                self._ratio = 4 * self._gradients.numel() / info.coded_bytes
        return loss

    # ---- as every optimizer -----------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Any) -> None:
        """Refused: the servers know the parameters already."""
        if self._complete:
            raise StateError("add_param_group: the servers know the model's parameters already: allowed: one group with all of them")
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError("a worker is connected to servers and can be neither copied nor pickled: allowed: state_dict()")

    def __repr__(self) -> str:
        return (f"<telegrad.torch.Worker: {self._session.method} for {self.optimizer}, worker {self.seat} of at most {self.seats}"
                f"{', closed' if self.net.closed else ''}>")

    # ---- figures and the end ----------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Figures of this worker: steps of the job since it began; skipped_steps: steps that were skipped because a gradient was
        not finite; late_steps: steps whose gradient came after the servers' deadline; bytes_sent; ratio: the gradient's size over
        that of its coded form in the last step."""
        handle = self.handle()
        return {"steps": int(_c.tg_session_steps(handle)) - self.first_step, "skipped_steps": self._left_out,
                "late_steps": self._late, "bytes_sent": int(_c.tg_session_bytes_sent(handle)), "ratio": self._ratio}

    def close(self) -> None:
        """Disconnect from the servers. The model keeps its last parameters. The part of the gradients that the method has not sent
        yet is lost. Does nothing the second time."""
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


def _trained(model: torch.nn.Module) -> Dict[str, torch.Tensor]:
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel() > 0}
    if not trained:
        raise ArgumentError("model: no parameter of it requires a gradient: allowed: a model to train")
    return trained


def server(model: torch.nn.Module, address: Texts, method: str = "dense", *, lr: float, server_key: Optional[Texts] = None,
           key: Optional[Key] = None, insecure: bool = False, rules: Optional[Dict[str, str]] = None, seed: int = 0, total_steps: int = 0,
           steps_per_epoch: int = 0, timeout: float = 600, threads: int = 1, anew: bool = False, mode: Optional[str] = None,
           staleness: Optional[int] = None) -> Worker:
    """Train as a worker of `telegrad serve`, which keeps the parameters and updates them. Workers may start and end at any time.
    Each is a process of its own, and needs neither torch.distributed nor DistributedDataParallel.

        opt = telegrad.torch.server(model, "tcp://host-a:4242", "topk:density=0.01", lr=0.1, key=telegrad.Key.load("w1.key"),
                                    server_key="tgk1:...")
        for x, y in data:
            opt.zero_grad()
            loss(model(x), y).backward()
            opt.step()

    The first worker brings the initial parameters. Every other one gets the servers': when this returns, the model has them. It
    continues at the others' step, and so do warm-ups of the method. The learning rate and the end of training are yours:

        schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: factor(opt.first_step + step))
        for step in range(opt.first_step, steps):

    model       the module, with its parameters in host memory or on CUDA devices (those of float32 in host memory are used without
                a copy). Frozen parameters and buffers are not exchanged
    address     the server's, "tcp://HOST:PORT"; for several servers, a list in the order of their --shard
    method      how gradients are coded: "topk:density=0.01", "dgc:density=0.001", "2bit", "fp16", ... Allowed are methods of one
                round with exchange=star
    lr          the learning rate, which goes with each gradient. The servers' --optimizer sets everything else
    server_key  the server's public key, as telegrad key show prints it; for several servers, a list
    key         this worker's key. Its public key must be on the servers' list (telegrad serve --allow)
    insecure    use no keys and no encryption, as telegrad serve --insecure does
    rules       methods by patterns of parameter names: {"*.bias": "f32"}
    timeout     seconds to wait for an answer, and to keep calling a server that cannot be reached, now or later
    anew        count steps from 0 if no other worker is connected; the servers' parameters and the optimizer's memory stay
    mode, staleness   what you expect of the servers: mode="async", staleness=4 for telegrad serve --mode async:staleness=4, or
                mode="sync". They are set there, for all workers; here they are compared. None: not compared
    seed, total_steps, steps_per_epoch, threads   as for telegrad.Reducer

    Workers that train at the same time must give the same model, method, rules, seed and lengths; one that differs is
    disconnected. Long waits are logged (`logging.getLogger("telegrad")`).

    Raises  PeerError: a server cannot be reached, does not accept the key, has no vacant seat, or has disconnected this worker;
            the text says which, and why. MismatchError: a server has another --shard or mode, or the servers' optimizers differ

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
    for name, p in _trained(model).items():  # before anybody is called
        check_tensor("parameter", name, p)
    wanted = expected_mode(mode, staleness)
    config = _c.tg_session_config(
        struct_size=ctypes.sizeof(_c.tg_session_config), method=own_method, strategy=b"server", seed=seed, steps_per_epoch=steps_per_epoch,
        timeout_ms=max(1, round(timeout * 1000)), driver=_c.TG_DRIVER_INLINE, rules=ctypes.addressof(listed) if texts else None,
        nrules=len(texts), codec_threads=threads, total_steps=total_steps, job=b"telegrad.torch.server", count_anew=int(bool(anew)))
    return Worker(model, Servers(address, server_key, key, insecure, timeout, wanted), rate, config, (texts, listed))
