"""Finding and loading the shared libraries.

The wheel puts them into the package (`telegrad/lib`). TELEGRAD_LIBRARY_DIR names another folder, such as a build folder of the
sources. If neither has them, the dynamic loader searches for them.
"""
import ctypes
import os
import pathlib
from typing import Any, Callable, Optional, Sequence

_INSIDE = pathlib.Path(__file__).resolve().parent / "lib"


def _load(name: str) -> ctypes.CDLL:
    # Global, because libtelegrad-net uses libtelegrad's symbols.
    wanted = os.environ.get("TELEGRAD_LIBRARY_DIR")
    if wanted:
        return ctypes.CDLL(str(pathlib.Path(wanted) / name), mode=ctypes.RTLD_GLOBAL)
    for path in sorted(_INSIDE.glob(name + "*"), key=lambda p: len(p.name)):
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


_core = _load("libtelegrad.so")
_net: Optional[ctypes.CDLL] = None
_net_missing = ""
try:
    _net = _load("libtelegrad-net.so")
except OSError as error:  # no OpenSSL 3 on this machine, or the library was built without it
    _net_missing = str(error)


def _function(library: ctypes.CDLL, name: str, returns: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
    function = getattr(library, name)
    function.restype = returns
    function.argtypes = arguments
    return function  # type: ignore[no-any-return]


def core(name: str, returns: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of libtelegrad. Calls release the interpreter lock."""
    return _function(_core, name, returns, arguments)


def net(name: str, returns: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of libtelegrad-net; where that cannot be loaded, one that says so."""
    if _net is not None:
        return _function(_net, name, returns, arguments)

    def missing(*_: Any) -> Any:
        from telegrad._errors import UnsupportedError
        raise UnsupportedError(f"{name}: libtelegrad-net cannot be loaded: {_net_missing}")
    return missing
