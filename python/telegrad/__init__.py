"""telegrad: gradients over slow links. Compressed averaging for NumPy, PyTorch and what has DLPack.

    import telegrad
    net = telegrad.Network.join("tcp://10.0.0.1:29600", key=key, peer_key=text)   # or telegrad.torch.Network()
    reducer = telegrad.Reducer("topk:density=0.01", gradient.size, net)
    reducer.mean_(gradient)

For PyTorch's DistributedDataParallel see `telegrad.torch`.
"""
import pathlib

from telegrad import _c
from telegrad._errors import (ArgumentError, CorruptError, Error, FileError, MismatchError, NonFiniteError, OutOfMemoryError,
                              PeerError, SpecError, StateError, StoppedError, UnsupportedError)
from telegrad._network import Key, Network
from telegrad._reducer import Operation, Reducer

__all__ = ["ArgumentError", "CorruptError", "Error", "FileError", "Key", "MismatchError", "Network", "NonFiniteError", "Operation",
           "OutOfMemoryError", "PeerError", "Reducer", "SpecError", "StateError", "StoppedError", "UnsupportedError", "__version__",
           "get_include"]

__version__ = f"{_c.TG_VERSION_MAJOR}.{_c.TG_VERSION_MINOR}.{_c.TG_VERSION_PATCH}"
if _c.tg_version().decode() != __version__:
    raise ImportError(f"telegrad {__version__} found a library of version {_c.tg_version().decode()}: allowed: its own "
                      "(is TELEGRAD_LIBRARY_DIR set?)")

def get_include() -> str:
    """The folder of the C headers: `cc -I$(python -c 'import telegrad; print(telegrad.get_include())')`.

    >>> import os, telegrad
    >>> os.path.exists(os.path.join(telegrad.get_include(), "telegrad", "reducer.h"))
    True
    """
    inside = pathlib.Path(__file__).resolve().parent / "include"
    return str(inside if inside.is_dir() else pathlib.Path(__file__).resolve().parents[2] / "include")


for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "telegrad"  # where users find it
