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
    """An argument is outside what is allowed (TG_E_ARG, TG_E_SPACE).

    >>> import telegrad
    >>> telegrad.Reducer("dense", 0, telegrad.Network.local(1)[0])
    Traceback (most recent call last):
    telegrad.ArgumentError: n=0: allowed: 1 or more
    """
    status = "TG_E_ARG"


class SpecError(ArgumentError):
    """A spec string has a syntax error, an unknown name or key, or a value out of range (TG_E_SPEC).

    >>> import telegrad
    >>> telegrad.Reducer("topk:densty=0.01", 100, telegrad.Network.local(1)[0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.SpecError: ...densty...
    """
    status = "TG_E_SPEC"


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory (TG_E_NOMEM).

    >>> import telegrad
    >>> issubclass(telegrad.OutOfMemoryError, MemoryError)    # so `except MemoryError` catches it
    True
    """
    status = "TG_E_NOMEM"


class CorruptError(Error):
    """Bytes from a network or a file are damaged, foreign or of another version (TG_E_CORRUPT, TG_E_VERSION).

    >>> import os, tempfile, telegrad
    >>> path = os.path.join(tempfile.mkdtemp(), "key")
    >>> with open(path, "w") as file:
    ...     count = file.write("not a key")
    >>> os.chmod(path, 0o600)
    >>> telegrad.Key.load(path)                               # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.CorruptError: ...
    """
    status = "TG_E_CORRUPT"


class MismatchError(Error):
    """Ranks, or a checkpoint and a job, are set up differently; the text names what differs (TG_E_MISMATCH).

    >>> import telegrad
    >>> net = telegrad.Network.local(1)[0]
    >>> state = telegrad.Reducer("fp16", 4, net).state_dict()
    >>> telegrad.Reducer("dense", 4, net).load_state_dict(state)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.MismatchError: load_state_dict: the state has spec='fp16', but this rank has spec='dense': allowed: ...
    """
    status = "TG_E_MISMATCH"


class PeerError(Error, ConnectionError):
    """A rank is dead, stalled or misbehaves; the text names it (TG_E_PEER).

    >>> import telegrad
    >>> here, gone = telegrad.Network.local(2)
    >>> gone.close()
    >>> telegrad.Reducer("dense", 4, here)                    # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.PeerError: ...rank 1...
    """
    status = "TG_E_PEER"


class NonFiniteError(Error, ArithmeticError):
    """A gradient, or a sum of gradients, is not finite. It is raised on every rank; the rank whose value it is names
    the element. The memory is as it was, and the next call may follow (TG_E_NONFINITE).

    >>> import array, telegrad
    >>> reducer = telegrad.Reducer("topk:density=0.5", 2, telegrad.Network.local(1)[0])
    >>> try:
    ...     mean = reducer.mean_(array.array("f", [1, float("nan")]))
    ... except telegrad.NonFiniteError:
    ...     mean = reducer.mean_(array.array("f", [1, 2]))
    >>> mean
    array('f', [0.0, 2.0])
    """
    status = "TG_E_NONFINITE"


class StateError(Error, RuntimeError):
    """Calls in the wrong order, or an object that failed before (TG_E_STATE).

    >>> import telegrad
    >>> net = telegrad.Network.local(1)[0]
    >>> net.close()
    >>> telegrad.Reducer("dense", 4, net)
    Traceback (most recent call last):
    telegrad.StateError: the network is closed
    """
    status = "TG_E_STATE"


class FileError(Error, OSError):
    """A file, a port or an address cannot be used (TG_E_IO).

    >>> import telegrad
    >>> telegrad.Key.load("/nowhere/key")                     # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.FileError: ...nowhere...
    """
    status = "TG_E_IO"


class UnsupportedError(Error, NotImplementedError):
    """This build, machine or combination cannot do it; the text says why (TG_E_UNSUPPORTED).

    >>> import array, telegrad
    >>> reducer = telegrad.Reducer("dense", 2, telegrad.Network.local(1)[0])
    >>> reducer.mean_(array.array("d", [1, 2]))
    Traceback (most recent call last):
    telegrad.UnsupportedError: array: elements are float64: allowed: float32, float16, bfloat16 (convert the array first)
    """
    status = "TG_E_UNSUPPORTED"


class StoppedError(Error):
    """The wait was ended by `Network.stop`, or by the interpreter's exit (TG_E_STOPPED).

    >>> import telegrad
    >>> here, late = telegrad.Network.local(2)
    >>> here.stop()                                           # here it comes first; else from another thread, or a signal's handler
    >>> telegrad.Reducer("dense", 4, here)                    # doctest: +ELLIPSIS
    Traceback (most recent call last):
    telegrad.StoppedError: ...
    """
    status = "TG_E_STOPPED"


_CLASSES: Dict[int, Type[Error]] = {
    _c.TG_E_ARG: ArgumentError, _c.TG_E_SPEC: SpecError, _c.TG_E_NOMEM: OutOfMemoryError, _c.TG_E_SPACE: ArgumentError,
    _c.TG_E_CORRUPT: CorruptError, _c.TG_E_VERSION: CorruptError, _c.TG_E_MISMATCH: MismatchError,
    _c.TG_E_PEER: PeerError, _c.TG_E_NONFINITE: NonFiniteError, _c.TG_E_STATE: StateError, _c.TG_E_IO: FileError,
    _c.TG_E_UNSUPPORTED: UnsupportedError, _c.TG_E_STOPPED: StoppedError,
}


def failure(status: int) -> Error:
    """The exception for a call that has just failed on this thread."""
    text = (_c.tg_error() or b"").decode("utf-8", "replace")
    name = _c.tg_status_name(status) or b""
    if "the number of steps in an epoch is not known here" in text:
        text += ", or the argument steps_per_epoch="
    if " sent nothing for " in text:
        text += ": allow more time with timeout="
    return _CLASSES.get(status, Error)(text, name.decode())


def check(status: int) -> None:
    """Raise what a status stands for."""
    if status != _c.TG_OK:
        raise failure(status)
