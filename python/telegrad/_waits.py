"""Calls of C that wait for other ranks."""
import queue
import threading
import time
from typing import Any, Callable, List

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


class Calls:
    """A thread for calls that may wait, so that the main thread can take signals meanwhile: it could not inside of C."""

    def __init__(self) -> None:
        self._given: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name="telegrad call", daemon=True).start()

    def _run(self) -> None:
        for body, done, errors in iter(self._given.get, None):
            try:
                body()
            except BaseException as error:
                errors.append(error)
            done.set()

    def call(self, body: Callable[[], None], stop: Callable[[], None], tells: bool) -> None:
        """Run it. If a signal's handler raises meanwhile, give the call a second, and then end it by `stop`. What the call uses must
        be held by `body`. tells: of long waits, because the call does not do so itself"""
        errors: List[BaseException] = []
        done, wait = threading.Event(), LongWait()
        self._given.put((body, done, errors))
        try:
            while not done.wait(0.5):  # a signal that another thread has taken is seen then
                if tells:
                    wait.tell()
        except BaseException:
            if not done.wait(1):
                stop()
                done.wait(_END_S)
            raise
        if errors:
            raise errors[0]

    def end(self) -> None:
        self._given.put(None)
