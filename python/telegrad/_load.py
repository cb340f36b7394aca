"""Finding and loading the shared libraries.

The wheel puts them into the package (`telegrad/lib`). TELEGRAD_LIBRARY_DIR names another folder, such as a build folder of the
sources. If neither has them, the dynamic loader searches for them.
"""
import ctypes
import os
import pathlib
from typing import Any, Callable, Optional, Sequence, Tuple

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


def _apart(name: str) -> Tuple[Optional[ctypes.CDLL], str]:
    """A library that may be missing: it needs others, or was not built. With the loader's reason."""
    try:
        return _load(name), ""
    except OSError as error:
        return None, str(error)


_net, _net_missing = _apart("libtelegrad-net.so")  # needs OpenSSL 3
_cuda, _cuda_missing = _apart("libtelegrad-cuda.so")  # needs no driver: without one it finds no GPU


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
    return _function_of("libtelegrad-net", _net, _net_missing, name, returns, arguments)


def cuda(name: str, returns: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of libtelegrad-cuda; where that cannot be loaded, one that says so."""
    return _function_of("libtelegrad-cuda", _cuda, _cuda_missing, name, returns, arguments)


def _function_of(whose: str, library: Optional[ctypes.CDLL], reason: str, name: str, returns: Any,
                 arguments: Sequence[Any]) -> Callable[..., Any]:
    if library is not None:
        return _function(library, name, returns, arguments)

    def missing(*_: Any) -> Any:
        from telegrad._errors import UnsupportedError
        raise UnsupportedError(f"{name}: {whose} cannot be loaded: {reason}", "TG_E_UNSUPPORTED")
    return missing
