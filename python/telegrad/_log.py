"""The library's messages, by Python's logging: logging.getLogger("telegrad")."""
import atexit
import contextlib
import ctypes
import logging

from telegrad import _c

log = logging.getLogger("telegrad")
_LEVELS = {_c.TG_LOG_ERROR: logging.ERROR, _c.TG_LOG_WARN: logging.WARNING, _c.TG_LOG_INFO: logging.INFO}


def _receive(_: object, level: int, message: bytes) -> None:
    with contextlib.suppress(Exception):  # nobody could take it
        log.log(_LEVELS.get(level, logging.WARNING), "%s", message.decode("utf-8", "replace"))


_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(_receive)
_c.tg_log_set(ctypes.cast(_function, ctypes.c_void_p), None)


@atexit.register
def _end() -> None:
    """The networks are closed before (they register later): the library's threads must not call Python any more."""
    _c.tg_log_set(None, None)
