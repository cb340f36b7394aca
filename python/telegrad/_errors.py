"""Exceptions: one class for each kind of failure, with the library's text."""
from typing import Dict, Type

from telegrad import _c


class Error(Exception):
    """What telegrad raises. The text says what was wrong, with which value, and what is allowed.

    `status` is the name of the library's status, such as "TG_E_PEER".

    >>> import telegrad
    >>> try:
    ...     telegrad.Reducer("topk:density=2", 100, telegrad.Network.local(1)[0])
    ... except telegrad.Error as error:
    ...     print(error.status, type(error).__name__)
    TG_E_SPEC SpecError
    """
    status = "TG_E_?"

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        if status:
            self.status = status


class ArgumentError(Error, ValueError):
    """An argument is outside what is allowed (TG_E_ARG, TG_E_SPACE)."""
    status = "TG_E_ARG"


class SpecError(ArgumentError):
    """A spec string has a syntax error, an unknown name or key, or a value out of range (TG_E_SPEC)."""
    status = "TG_E_SPEC"


class OutOfMemoryError(Error, MemoryError):
    """TG_E_NOMEM."""
    status = "TG_E_NOMEM"


class CorruptError(Error):
    """Bytes from a network or a file are damaged, foreign or of another version (TG_E_CORRUPT, TG_E_VERSION)."""
    status = "TG_E_CORRUPT"


class MismatchError(Error):
    """Ranks, or a checkpoint and a job, are set up differently; the text names what differs (TG_E_MISMATCH)."""
    status = "TG_E_MISMATCH"


class PeerError(Error, ConnectionError):
    """A rank is dead, stalled or misbehaves; the text names it (TG_E_PEER)."""
    status = "TG_E_PEER"


class NonFiniteError(Error, ArithmeticError):
    """A gradient, or a sum of gradients, is not finite. It is raised on every rank; the rank whose value it is names
    the element. The memory is as it was, and the next call may follow (TG_E_NONFINITE)."""
    status = "TG_E_NONFINITE"


class StateError(Error, RuntimeError):
    """Calls in the wrong order, or an object that failed before (TG_E_STATE)."""
    status = "TG_E_STATE"


class FileError(Error, OSError):
    """A file, a port or an address cannot be used (TG_E_IO)."""
    status = "TG_E_IO"


class UnsupportedError(Error, NotImplementedError):
    """This build, machine or combination cannot do it; the text says why (TG_E_UNSUPPORTED)."""
    status = "TG_E_UNSUPPORTED"


class StoppedError(Error):
    """The wait was ended by `Network.stop`, or by the interpreter's exit (TG_E_STOPPED)."""
    status = "TG_E_STOPPED"


_CLASSES: Dict[int, Type[Error]] = {
    _c.TG_E_ARG: ArgumentError, _c.TG_E_SPEC: SpecError, _c.TG_E_NOMEM: OutOfMemoryError, _c.TG_E_SPACE: ArgumentError,
    _c.TG_E_CORRUPT: CorruptError, _c.TG_E_VERSION: CorruptError, _c.TG_E_MISMATCH: MismatchError,
    _c.TG_E_PEER: PeerError, _c.TG_E_NONFINITE: NonFiniteError, _c.TG_E_STATE: StateError, _c.TG_E_IO: FileError,
    _c.TG_E_UNSUPPORTED: UnsupportedError, _c.TG_E_STOPPED: StoppedError,
}


def failure(status: int) -> Error:
    """The exception for a call that has just failed on this thread."""
    text = _c.tg_error() or b""
    name = _c.tg_status_name(status) or b""
    return _CLASSES.get(status, Error)(text.decode("utf-8", "replace"), name.decode())


def check(status: int) -> None:
    """Raise what a status stands for."""
    if status != _c.TG_OK:
        raise failure(status)
