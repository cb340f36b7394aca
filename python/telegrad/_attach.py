"""Connections with parameter servers (telegrad serve)."""
import ctypes
import operator
import time
from typing import Any, List, Optional, Sequence, Union

from telegrad import _c
from telegrad._checks import check_text
from telegrad._errors import ArgumentError, Error, MismatchError, check
from telegrad._network import Key, Network, _check_key, _check_public, _Joining, _stop_function
from telegrad._log import log

_AGAIN_S = 60.0  # until the same words are said again

Texts = Union[str, Sequence[str]]

_text_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class _Says:
    """Logs what is waited for while no server has answered."""

    def __init__(self) -> None:
        self._said, self._when = b"", 0.0

    def __call__(self, _: Optional[int], text: bytes) -> None:
        now = time.monotonic()
        if text != self._said or now - self._when >= _AGAIN_S:
            self._said, self._when = text, now
            log.warning("waiting for %s", text.decode("utf-8", "replace"))


class _Attached:
    """What the transport uses and says."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.ended = ctypes.c_int(0)
        self.abouts: List[str] = []
        self.seat = self.seats = 0
        self._says = _text_function(_Says())
        self._stop: Any = None

    def call(self, joining: _Joining, config: _c.tg_net_attach_config) -> int:
        """Call the servers. Returns the transport."""
        self._stop = _stop_function(lambda _: joining.asked or self.ended.value != 0)
        config.stop, config.on_wait = (ctypes.cast(f, ctypes.c_void_p).value for f in (self._stop, self._says))
        membership, transport = ctypes.c_void_p(), ctypes.c_void_p()
        check(_c.tg_net_attach(ctypes.byref(config), ctypes.byref(membership)))
        self.abouts = [(_c.tg_net_about(membership, 1 + q) or b"").decode() for q in range(self._count)]
        status = _c.tg_transport_tcp(membership, ctypes.byref(transport))
        if status != _c.TG_OK:
            _c.tg_net_destroy(membership)
            check(status)
        head = _c.tg_transport.from_address(transport.value or 0)
        self.seat, self.seats = int(head.seat), int(head.seats)
        status = _c.tg_transport_worker(transport, self._count, ctypes.byref(transport))
        if status != _c.TG_OK:
            _c.tg_transport_destroy(transport)
            check(status)
        assert transport.value is not None
        return transport.value


def _texts(name: str, value: Texts) -> List[str]:
    """One text or several."""
    every = [value] if isinstance(value, str) else value
    if isinstance(every, bytes) or not isinstance(every, Sequence) or not every:
        raise ArgumentError(f"{name}: a {type(value).__name__}{' without an entry' if value == [] else ''}: allowed: a str, or a list of "
                            "them, one for each server")
    for i, text in enumerate(every):
        check_text(name if every is not value else f"{name}[{i}]", text)
    return list(every)


def _normal(mode: str) -> str:
    """Two modes mean the same if their normal forms are equal."""
    text = ctypes.create_string_buffer(400)
    check(_c.tg_server_mode_normal(mode.encode(), text, len(text)))
    return text.value.decode()


def expected_mode(mode: Optional[str], staleness: Optional[int]) -> Optional[str]:
    """What a caller expects of the servers, as their --mode; None: anything."""
    if mode is not None:
        check_text("mode", mode)
        if mode.partition(":")[0] not in ("async", "sync", "dist_async", "dist_sync"):  # MXNet's names, too
            raise ArgumentError(f"mode={mode!r}: allowed: async, sync, or the --mode of the servers, such as 'async:staleness=4'")
        _normal(mode)
    if staleness is None:
        return mode
    if isinstance(staleness, bool) or not hasattr(staleness, "__index__") or operator.index(staleness) < 0:
        raise ArgumentError(f"staleness={staleness!r}: allowed: a whole number, 0 or more")
    name, _, keys = ("async" if mode is None else mode).partition(":")
    if name in ("sync", "dist_sync") or "staleness=" in keys:
        raise ArgumentError(f"staleness={staleness} and mode={mode!r}: allowed: staleness with mode='async', and once")
    return f"{name}:{keys}{',' if keys else ''}staleness={staleness}"


class Servers(Network):
    """The servers, of which each has a shard of the parameters. It is a network of this worker alone."""

    def __init__(self, address: Texts, server_key: Optional[Texts], key: Optional[Key], insecure: bool, timeout: float,
                 mode: Optional[str] = None) -> None:
        """mode: what theirs must be; None: any."""
        self.addresses = _texts("address", address)
        count = len(self.addresses)
        if insecure and (key is not None or server_key is not None):
            raise ArgumentError(f"insecure=True: allowed: without {'key' if key is not None else 'server_key'}")
        if not insecure and (key is None or server_key is None):
            raise ArgumentError(f"{'key' if key is None else 'server_key'}: None: allowed: "
                                + ("a telegrad.Key" if key is None else "the servers' public keys, as telegrad key show prints them")
                                + "; or insecure=True for a network that you trust")
        keys: List[bytes] = []
        if key is not None and server_key is not None:
            _check_key("key", key)
            keys = [_check_public("server_key", text) for text in _texts("server_key", server_key)]
            if len(keys) != count:
                raise ArgumentError(f"server_key: {len(keys)} keys for {count} addresses: allowed: that of each server, in the same order")
        where = (ctypes.c_char_p * count)(*(a.encode() for a in self.addresses))
        who = (ctypes.c_char_p * count)(*keys) if keys else None
        attached = _Attached(count)
        joining = _Joining(lambda asked: attached.call(asked, config), (where, who, key))
        config = _c.tg_net_attach_config(
            struct_size=ctypes.sizeof(_c.tg_net_attach_config), count=count, servers=ctypes.addressof(where),
            server_keys=None if who is None else ctypes.addressof(who), job=b"serve", key=None if key is None else key._handle,
            insecure=insecure, timeout_s=timeout, again_s=timeout)
        super().__init__(joining.wait())
        self._attached, self._stop = attached, attached.ended
        self.seat, self.seats = attached.seat, attached.seats
        try:
            self._check_optimizers()
            self._check_mode(mode)
        except Error:
            self.close()
            raise

    @property
    def optimizer(self) -> str:
        """That of the servers, which make the steps."""
        return self._attached.abouts[0].partition(" --mode ")[0]

    @property
    def mode(self) -> str:
        """When the servers make steps: their --mode."""
        return self._attached.abouts[0].partition(" --mode ")[2].partition(" ")[0]

    def _check_mode(self, expected: Optional[str]) -> None:
        if expected is not None and _normal(expected) != _normal(self.mode):
            raise MismatchError(f"server 0 at {self.addresses[0]} has --mode {self.mode}, expected {expected}: allowed: mode and staleness "
                                "that are the server's own, which telegrad serve --mode sets, or neither")

    def _check_optimizers(self) -> None:
        for q, about in enumerate(self._attached.abouts):
            if not about:
                raise MismatchError(f"server {q} at {self.addresses[q]} does not say with which optimizer it makes steps: allowed: "
                                    "telegrad serve")
            if about != self._attached.abouts[0]:
                raise MismatchError(f"server {q} at {self.addresses[q]} has --optimizer {about}, and server 0 --optimizer "
                                    f"{self._attached.abouts[0]}: allowed: the same for all servers of a job")

    def __repr__(self) -> str:
        return f"<telegrad.Network: worker {self.seat} of at most {self.seats}{', closed' if self.closed else ''}>"
