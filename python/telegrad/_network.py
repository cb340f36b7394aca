"""Networks: the ranks of a job, connected to each other."""
import atexit
import ctypes
import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from telegrad import _c
from telegrad._checks import check_seconds, check_whole, text_of
from telegrad._errors import ArgumentError, StateError, StoppedError, check
from telegrad._waits import Calls


def check_network(value: object) -> None:
    if not isinstance(value, Network):
        raise ArgumentError(f"net: a {type(value).__name__}: allowed: a telegrad.Network, connected by meet, join or local")
    value.handle()  # refuses one that is closed


def _check_key(name: str, value: object) -> None:
    if not isinstance(value, Key):
        raise ArgumentError(f"{name}: a {type(value).__name__}: allowed: a telegrad.Key (telegrad.Key.load(path) reads one from a file)")


def _check_public(name: str, value: object) -> bytes:
    """A public key as text."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: a {type(value).__name__}: allowed: a public key as text, as Key.public gives it")
    text = value.strip().encode()
    if _c.tg_key_fingerprint(text, ctypes.create_string_buffer(_c.TG_KEY_TEXT)) != _c.TG_OK:
        raise ArgumentError(f"{name}: {value[:64]!r} is not a public key: allowed: tgk1: and 43 characters, as Key.public gives them")
    return text


class Key:
    """A pair of Ed25519 keys, by which ranks know each other. `Key()` makes a new pair.

    >>> import telegrad
    >>> telegrad.Key().public[:5]
    'tgk1:'
    """

    def __init__(self) -> None:
        self._handle: Optional[int] = None
        handle = ctypes.c_void_p()
        check(_c.tg_key_create(ctypes.byref(handle)))
        self._handle = handle.value

    @classmethod
    def load(cls, path: str) -> "Key":
        """Read a pair from a file that `save` or `telegrad key` wrote."""
        key = cls.__new__(cls)
        key._handle = None
        handle = ctypes.c_void_p()
        check(_c.tg_key_load(text_of("path", path), ctypes.byref(handle)))
        key._handle = handle.value
        return key

    def save(self, path: str) -> None:
        """Write the pair to a new file that only its owner may read."""
        check(_c.tg_key_save(self._handle, text_of("path", path)))

    @property
    def public(self) -> str:
        """The public key as text, to be given to other ranks."""
        text = ctypes.create_string_buffer(_c.TG_KEY_TEXT)
        _c.tg_key_text(self._handle, text)
        return text.value.decode()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            _c.tg_key_destroy(self._handle)


class Network:
    """The ranks of a job, each connected to all others. Make one by `Network.meet` on rank 0 and `Network.join` on the
    others, by `telegrad.torch.Network()` between the ranks of torch.distributed, or by `Network.local` in one process.

    Several reducers share a network; all ranks create them in the same order. Leave it by `close`, or use it in a `with`
    statement: the other ranks then learn at once that this one has gone, and those that still wait for it get a
    `PeerError`. Different threads may use different reducers of a network at the same time. Ctrl-C ends `meet` and `join`.

    >>> import telegrad
    >>> with telegrad.Network.local(1)[0] as net:
    ...     print(net.rank, net.size)
    0 1
    """

    def __init__(self, transport: int) -> None:
        """Use a `tg_transport *` of your own, which the network then owns. Otherwise see the class."""
        self._transport: Optional[int] = transport
        self._pid = os.getpid()
        self._stop = ctypes.c_int(0)
        self._reducers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        # Their handles, and how to destroy these: garbage is finalized in any order, but they use the transport.
        self._handles: Dict[int, Callable[[int], None]] = {}
        self._before_close: List[Callable[[], None]] = []
        self._hook_threads: Any = None  # of hooks for DistributedDataParallel
        self._calls: Optional[Calls] = None
        head = _c.tg_transport.from_address(transport)
        self.rank: int = head.rank
        self.size: int = head.size
        _open.add(self)

    @classmethod
    def local(cls, size: int) -> "List[Network]":
        """Connect `size` ranks of this process through memory, one for each thread: for tests and experiments."""
        check_whole("size", size, 1, _c.TG_RANKS_MAX)
        handles = (ctypes.c_void_p * size)()
        check(_c.tg_transport_inproc(size, handles))
        return [Network(handle) for handle in handles if handle is not None]

    @classmethod
    def meet(cls, listen: str, size: int, *, key: Optional[Key] = None, allow: Sequence[str] = (), insecure: bool = False,
             job: str = "", advertise: Optional[str] = None, timeout: float = 60) -> "Network":
        """Be rank 0, which the other ranks call. Returns when all are connected.

        listen    address, "tcp://HOST:PORT"
        size      ranks of the job
        key       this rank's; `allow`: public keys of the others, as text
        insecure  neither keys nor encryption: whoever reaches the port can join, read and change everything
        job       a name that all ranks give alike
        timeout   seconds until all ranks are there
        """
        check_whole("size", size, 1, _c.TG_RANKS_MAX)
        return cls(_join(listen=listen, advertise=advertise, size=size, key=key, allow=allow, insecure=insecure, job=job,
                         timeout=timeout))

    @classmethod
    def join(cls, address: str, *, rank: int = 0, key: Optional[Key] = None, peer_key: Optional[str] = None,
             insecure: bool = False, job: str = "", listen: Optional[str] = None, advertise: Optional[str] = None,
             timeout: float = 60) -> "Network":
        """Join the job whose rank 0 is at an address. Returns when all ranks are connected.

        rank       the rank to be; 0: any
        key        this rank's; `peer_key`: the public key of rank 0, as text
        listen     where this rank listens; None: any port of every interface
        advertise  where others reach it, if that differs (port forwarding)
        """
        return cls(_join(join=address, rank=rank, key=key, peer_key=peer_key, insecure=insecure, job=job, listen=listen,
                         advertise=advertise, timeout=timeout))

    @property
    def closed(self) -> bool:
        """Whether this rank has left."""
        return self._transport is None

    def handle(self) -> int:
        """The `tg_transport *`, for calls of `telegrad._c`."""
        if self._transport is None:
            raise StateError("the network is closed")
        return self._transport

    def _wait(self, body: Callable[[], None], handle: int = 0, tells: bool = True) -> None:
        """Run a call of C that may wait for other ranks. In the main thread an exception of a signal's handler, such as
        KeyboardInterrupt, ends it. handle, tells: see Calls.call"""
        transport = _c.tg_transport.from_address(self.handle())
        main = threading.current_thread() is threading.main_thread() and os.getpid() == self._pid and not exiting
        if not main or not transport.any_thread:
            body()
            return
        if self._calls is None:
            stopped = self._stop  # the thread must not hold the network
            self._calls = Calls(lambda: setattr(stopped, "value", 1))
        self._calls.call(body, handle, tells)

    def stop(self) -> None:
        """End all waits, from any thread: a call that still waits a second later raises `StoppedError`, and this rank
        leaves the job."""
        self._stop.value = 1

    def close(self) -> None:
        """Leave the job, and end its reducers. Does nothing the second time."""
        if self._transport is None or os.getpid() != self._pid:  # a forked process must not say goodbye for its parent
            return
        if self._calls is not None:
            self._calls.finish()
        for action in self._before_close:
            action()
        self._before_close.clear()
        for reducer in list(self._reducers):
            reducer.close()
        for handle in list(self._handles):
            self._free(handle)
        transport, self._transport = self._transport, None
        _c.tg_transport_destroy(transport)
        if self._calls is not None:
            self._calls.end()

    def _free(self, handle: int) -> None:
        """Destroy what has this handle, once."""
        if self._calls is not None and threading.current_thread() is threading.main_thread():
            self._calls.finish(handle)
        destroy = self._handles.pop(handle, None)
        if destroy is not None:
            destroy(handle)

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_transport", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<telegrad.Network: rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"


_open: "weakref.WeakSet[Network]" = weakref.WeakSet()
_joining: "Set[_Joining]" = set()  # joins that are under way
_STOP_S = 5.0  # to wait for a join that is asked to stop: what it calls may not return


class _Joining:
    """tg_net_join in a thread of its own, because a thread inside the library cannot take a signal: whoever waits for it here
    can be interrupted, which ends it. The thread may be inside the library for longer, so it holds what the call uses."""

    def __init__(self, call: Callable[["_Joining"], int], uses: object) -> None:
        self._call, self._uses = call, uses
        self.asked = False  # to stop
        self._transport: Optional[int] = None
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telegrad join", daemon=True)

    def _run(self) -> None:
        transport: Optional[int] = None
        try:
            transport = self._call(self)
            with self._lock:
                if self.asked:
                    raise StoppedError("joining was stopped")
                self._transport, transport = transport, None
        except BaseException as error:
            self._error = error
        finally:
            if transport is not None:
                _c.tg_transport_destroy(transport)
            self.done.set()

    def stop(self) -> None:
        """End the wait, within a second."""
        with self._lock:
            self.asked = True
            transport, self._transport = self._transport, None
        if transport is not None:
            _c.tg_transport_destroy(transport)
        self.done.wait(_STOP_S)

    def wait(self) -> int:
        """Returns the transport."""
        _joining.add(self)
        try:
            self._thread.start()
            while not self.done.wait(0.5):  # a signal that another thread has taken is seen then
                pass
        except BaseException:
            self.stop()
            raise
        finally:
            _joining.discard(self)
        if self._error is not None:
            raise self._error
        assert self._transport is not None
        return self._transport


class _Keys:
    """A tg_keys."""

    def __init__(self, lines: bytes) -> None:
        self.handle = ctypes.c_void_p()
        check(_c.tg_keys_parse(lines, ctypes.byref(self.handle)))

    def __del__(self) -> None:
        _c.tg_keys_destroy(self.handle)


_stop_function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)


def _join(*, key: Optional[Key] = None, allow: Sequence[str] = (), peer_key: Optional[str] = None, insecure: bool = False,
          **more: Any) -> int:
    """Join with keys, and return the transport. more: see _join_with."""
    if key is None and not insecure:
        raise ArgumentError("key: None: allowed: a telegrad.Key; or insecure=True for a network that you trust")
    if key is not None:
        _check_key("key", key)
    if isinstance(allow, (str, bytes)) or not isinstance(allow, Sequence):
        raise ArgumentError(f"allow: a {type(allow).__name__}: allowed: a list of public keys as text, as Key.public gives them")
    lines = [_check_public(f"allow[{i}]", k) + f" rank{i + 1}\n".encode() for i, k in enumerate(allow)]
    if not lines and not insecure and more.get("size", 0) > 1:
        raise ArgumentError("allow: no keys: allowed: the public keys of the other ranks, as Key.public gives them")
    config = _c.tg_net_config(insecure=insecure, key=None if key is None else key._handle,
                              peer_key=None if peer_key is None else _check_public("peer_key", peer_key))
    keys = _Keys(b"".join(lines)) if lines else None
    if keys is not None:
        config.allow = keys.handle.value
    return _join_with(config, (key, keys), **more)


def _join_with(config: _c.tg_net_config, uses: object, *, listen: Optional[str] = None, join: Optional[str] = None,
               advertise: Optional[str] = None, size: int = 0, rank: int = 0, job: str = "", timeout: float = 60) -> int:
    """Fill in the rest of the config, join, and return the transport. uses: what the config points to, which lives as long as
    the call."""
    check_whole("rank", rank, 0, _c.TG_RANKS_MAX - 1)
    check_seconds("timeout", timeout)
    config.struct_size = ctypes.sizeof(_c.tg_net_config)
    config.listen, config.join, config.advertise = text_of("listen", listen), text_of("address", join), text_of("advertise", advertise)
    config.size, config.rank, config.job, config.timeout_s = size, rank, text_of("job", job), timeout

    def call(joining: _Joining) -> int:
        membership, transport = ctypes.c_void_p(), ctypes.c_void_p()
        stop = _stop_function(lambda _: joining.asked)  # lives until tg_net_join has returned
        config.stop = ctypes.cast(stop, ctypes.c_void_p).value
        check(_c.tg_net_join(ctypes.byref(config), ctypes.byref(membership)))
        status = _c.tg_transport_tcp(membership, ctypes.byref(transport))
        if status != _c.TG_OK:
            _c.tg_net_destroy(membership)
            check(status)
        assert transport.value is not None
        return transport.value
    return _Joining(call, uses).wait()


exiting = False  # the interpreter exits


@atexit.register
def _leave() -> None:
    """The interpreter exits: end what still waits, so that no thread is left inside the library."""
    global exiting
    exiting = True
    for joining in list(_joining):
        joining.stop()
    left = list(_open)
    for net in left:
        net.stop()
    for net in left:
        net.close()
    if left and threading.active_count() > 1:  # Python would crash if it ended them inside PyTorch
        time.sleep(0.2)
