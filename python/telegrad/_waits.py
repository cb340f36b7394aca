"""Calls of C that wait for other ranks."""
import queue
import threading
import time
from typing import Any, Callable, Optional

from telegrad._errors import StateError
from telegrad._log import log

_SAY_S = 10.0  # of a wait, when it is told first
_END_S = 5.0  # in which a call that is asked to stop returns


class LongWait:
    """Tells of a wait: after 10, 20, 40, ... seconds."""

    def __init__(self) -> None:
        self._begin, self._next = time.monotonic(), _SAY_S

    def tell(self) -> None:
        seconds = time.monotonic() - self._begin
        if seconds >= self._next:
            self._next *= 2
            log.warning("waiting for other ranks for %.0f s", seconds)


class _Call:
    """A call of C, and how it ended. It holds what C uses until then."""

    def __init__(self, body: Callable[[], None], handle: int) -> None:
        self._body: Optional[Callable[[], None]] = body
        self.handle = handle
        self._error: Optional[BaseException] = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            assert self._body is not None
            self._body()
        except BaseException as error:
            self._error = error
        self._body = None
        self.done.set()

    def end(self) -> None:
        """Raise what it has raised. Afterwards nothing holds that, and so the frames that it names."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error


class Calls:
    """A thread for calls that may wait, so that the main thread can take signals meanwhile: it could not inside of C."""

    def __init__(self, stop: Callable[[], None]) -> None:
        """stop: ends waits inside of C"""
        self._stop = stop
        self._given: "queue.SimpleQueue[Optional[_Call]]" = queue.SimpleQueue()
        self._current: Optional[_Call] = None  # the last one, which may be over
        self._lock, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=_run, args=(self._given,), name="telegrad call", daemon=True)
        self._thread.start()

    def call(self, body: Callable[[], None], handle: int, tells: bool) -> None:
        """Run it, in the main thread's place. If a signal's handler raises meanwhile, give the call a second, and then stop it. `body`
        must hold what C uses. handle: of the object of C that it is a call of; tells: of long waits, because it does not do so itself"""
        call, wait = _Call(body, handle), LongWait()
        if self._current is not None and not self._current.done.is_set():
            raise StateError("a call is under way on this network: a signal's handler cannot begin another one")
        with self._lock:
            if self._ended:
                raise StateError("the network is closed")
            self._current = call
            self._given.put(call)
        try:
            while not call.done.wait(0.5):  # a signal that another thread has taken is seen then
                if tells:
                    wait.tell()
        except BaseException:
            if not call.done.wait(1):
                self.finish()
            raise
        call.end()

    def finish(self, handle: Optional[int] = None) -> None:
        """Stop the call under way, if there is one, of this object: what it uses is about to go, because a signal's handler has
        interrupted the wait for it.

        Raises  StateError: it does not end
        """
        if self._current is None or self._current.done.is_set() or handle not in (None, self._current.handle):
            return
        self._stop()
        if not self._current.done.wait(_END_S):
            raise StateError("a call of the network does not end")

    def end(self) -> None:
        with self._lock:
            self._ended = True
        self._given.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(1)


def _run(given: "queue.SimpleQueue[Any]") -> None:
    for call in iter(given.get, None):
        call.run()
        del call  # so that nothing is held while it waits for the next one
