"""How ranks find each other by a store of torch.distributed."""
import ctypes
import os
import time
from typing import Any, Callable, List, Optional

from telegrad import _c
from telegrad._errors import Error, PeerError
from telegrad._network import _join_with


class Store:
    """The store of torch.distributed as the one by which ranks find each other (tg_net_config)."""

    def __init__(self, store: Any, prefix: str, rank: int, size: int, timeout: float) -> None:
        self._store, self._prefix, self._rank, self._size, self._timeout = store, prefix, rank, size, timeout
        self._error: Optional[BaseException] = None

    def set(self, name: str, value: str) -> None:
        self._store.set(self._prefix + name, value)
        self._store.add(self._prefix + name + "?", 1)

    def get(self, name: str) -> str:
        """"": nobody has set it. Stores themselves wait until somebody does."""
        if self._store.add(self._prefix + name + "?", 0) == 0:
            return ""
        return str(self._store.get(self._prefix + name).decode())

    def agree(self) -> str:
        """A name for this job, the same on all ranks and no other's: the store may hold what ranks of an earlier start of the
        program have left there. Each rank sets a word of its own, rank 0 answers with a name and the words that it has seen, and
        the others accept an answer to their own word."""
        own, until = os.urandom(8).hex(), time.monotonic() + self._timeout
        others = range(1, self._size)
        if self._rank > 0:
            self.set(f"word/{self._rank}", own)
        while self._rank > 0:
            name, *words = self.get("name").split() or [""]
            if len(words) == self._size - 1 and words[self._rank - 1] == own:
                self.set(f"name/{self._rank}", name)
                return name
            self._pause("rank 0 has", until)
        said: List[str] = []
        while True:
            words = [self.get(f"word/{r}") or "-" for r in others]
            if words != said:
                self.set("name", " ".join([own, *words]))
                said = words
            missing = [r for r in others if self.get(f"name/{r}") != own]
            if not missing:
                return own
            self._pause(f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))} have", until)

    def _pause(self, who: str, until: float) -> None:
        if time.monotonic() > until:
            raise PeerError(f"telegrad.torch.Network: {who} not called it within {self._timeout:g} s")
        time.sleep(0.02)

    def join(self, listen: Optional[str], advertise: Optional[str]) -> int:
        """Returns the transport."""
        begun = time.monotonic()
        try:
            job = self.agree()
        except RuntimeError as error:
            raise PeerError(f"telegrad.torch.Network: the store of torch.distributed: {error}") from error
        functions = (_set_function(self._guarded(lambda name, value: self.set(name.decode(), value.decode()))),
                     _get_function(self._guarded(self._get)))
        config = _c.tg_net_config()
        config.set, config.get = (ctypes.cast(f, ctypes.c_void_p).value for f in functions)
        try:
            return _join_with(config, functions, listen=listen, advertise=advertise, size=self._size, rank=self._rank, job=job,
                              timeout=max(self._timeout - (time.monotonic() - begun), 1))
        except Error:
            if self._error is None:
                raise
            raise PeerError(f"telegrad.torch.Network: the store of torch.distributed: {self._error}") from self._error

    def _get(self, name: bytes, value: int, room: int) -> None:
        text = self.get(name.decode()).encode()
        if len(text) >= room:
            raise ValueError(f"{name.decode()} has {len(text)} bytes: allowed: less than {room}")
        ctypes.memmove(value, text + b"\0", len(text) + 1)

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        def call(_: Optional[int], *arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException as error:
                self._error = error
                return int(_c.TG_E_PEER)
            return int(_c.TG_OK)
        return call


_set_function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_get_function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
