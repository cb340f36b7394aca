"""python -m telegrad.doctor: whether telegrad works here, and how fast the ranks reach each other.

    python -m telegrad.doctor                                     this machine
    torchrun --nnodes 2 ... -m telegrad.doctor                    the ranks of a job, with what torchrun is always given

Ends with status 0 if everything works, else with 1: each line that begins with "bad" says what to do.
"""
import array
import ctypes
import functools
import os
import platform
import sys
import threading
import time
from typing import Any, Callable, List, Optional

import telegrad
from telegrad import _load

__all__ = ["main"]
_LARGE = 1 << 20  # elements, 4 MiB


class _Bad(Exception):
    """The text says what is wrong and what to do."""


def _libraries() -> str:
    if _load._net is None:
        raise _Bad(f"libtelegrad-net cannot be loaded ({_load._net_missing}): install OpenSSL 3 (Debian: libssl3)")
    return f"telegrad {telegrad.__version__}, {_load._core._name}"


def _local() -> str:
    """Compressed means between two threads."""
    found: List[List[float]] = [[], []]

    def run(net: telegrad.Network) -> None:
        reducer = telegrad.Reducer("topk:density=0.5", 4, net)
        found[net.rank] = list(reducer.mean_(array.array("f", [4 * net.rank, 1, 0, -8])))
    _threads([functools.partial(run, net) for net in telegrad.Network.local(2)])
    if found != [[2.0, 0.5, 0.0, -8.0]] * 2:
        raise _Bad(f"a mean is {found}: this is an error of telegrad; please report it with this output")
    return "a compressed mean of two ranks"


def _tcp() -> str:
    """Two ranks of this process with keys over 127.0.0.1."""
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{s.getsockname()[1]}"
    keys = [telegrad.Key(), telegrad.Key()]
    times: List[float] = [0, 0]

    def run(rank: int) -> None:
        net = (telegrad.Network.join(address, rank=1, key=keys[1], peer_key=keys[0].public, timeout=20) if rank else
               telegrad.Network.meet(address, 2, key=keys[0], allow=[keys[1].public], timeout=20))
        with net:
            times[rank] = _seconds(net, "dense", 1, 20)
    _threads([lambda: run(0), lambda: run(1)])
    return f"encrypted TCP over 127.0.0.1, {1e6 * max(times):.0f} us for a mean of one number"


def _torch() -> str:
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        return f"no PyTorch in this Python ({error}): telegrad.Reducer works with NumPy arrays all the same"
    if not torch.distributed.is_available():
        raise _Bad(f"PyTorch {torch.__version__} was built without torch.distributed: install another build")
    import telegrad.torch  # noqa: F401
    return f"PyTorch {torch.__version__}: telegrad.torch.ddp{' and fsdp' if _has_fsdp() else ''}"


def _has_fsdp() -> bool:
    """PyTorch 2.6 and newer."""
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
        return True
    except Exception:  # PyTorch 1.13 has an FSDP that Python 3.11 cannot import
        return False


def _seconds(net: telegrad.Network, spec: str, n: int, count: int) -> float:
    """How long a mean takes."""
    reducer, x = telegrad.Reducer(spec, n, net), array.array("f", [1.0]) * n
    reducer.mean_(x)
    begun = time.monotonic()
    for _ in range(count):
        reducer.mean_(x)
    return (time.monotonic() - begun) / count


def _threads(runs: List[Callable[[], Any]]) -> None:
    failed: List[BaseException] = []

    def guarded(run: Callable[[], Any]) -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _job(net: telegrad.Network) -> str:
    """What the slowest link of a job can do. All ranks call it; the text is the same on each."""
    small = _seconds(net, "dense", 1, 5)
    large = _seconds(net, "dense", _LARGE, 2)
    figures = array.array("f", [small, large])
    telegrad.Reducer("dense", 2, net).mean_(figures)
    small, large = figures
    bits = 8 * 4 * _LARGE * 2 * (net.size - 1) / net.size  # a rank sends this much in a mean
    rate = bits / max(large - small, 1e-6)
    return (f"{net.size} ranks: {1000 * small:.2f} ms for a mean of one number, {1000 * large:.0f} ms for one of 4 MiB: about "
            f"{rate / 1e6:.0f} Mbit/s; begin with {_advice(rate, net.size)}")


def _advice(rate: float, size: int) -> str:
    if rate > 5e9:
        return "dense"
    if rate > 3e8:
        # with the default, allgather, what a rank sends grows with the number of ranks
        more = ("", "") if size <= 2 else (":exchange=reducescatter", ",exchange=reducescatter")
        return f"fp16{more[0]}, qsgd:bits=4{more[1]} or powersgd:rank=4"
    return "topk:density=0.01 or dgc:density=0.001"


def _checked(name: str, check: Callable[[], str], say: bool = True) -> bool:
    try:
        text = check()
    except _Bad as error:
        print(f"bad  {name}: {error}", flush=True)
        return False
    except Exception as error:
        print(f"bad  {name}: {type(error).__name__}: {error}", flush=True)
        return False
    if say:
        print(f"ok   {name}: {text}", flush=True)
    return True


def main(arguments: Optional[List[str]] = None) -> int:
    """Check this machine and, if torchrun has started it, the links between the ranks. Prints a line for each check, and returns
    the status to exit with: 0 if everything works.

    >>> import telegrad.doctor
    >>> telegrad.doctor.main([])                              # doctest: +ELLIPSIS
         Python ..., ... bits
    ok   libraries: telegrad ...
    ok   means: a compressed mean of two ranks
    ok   tcp: encrypted TCP over 127.0.0.1, ... us for a mean of one number
    ok   torch: ...
    0
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments:
        wanted = arguments in (["-h"], ["--help"])
        print((__doc__ or "").strip() if wanted else f"telegrad.doctor: {arguments[0]!r}: allowed: no arguments",
              file=sys.stdout if wanted else sys.stderr)
        return 0 if wanted else 2
    rank = int(os.environ.get("RANK", "0"))
    if rank == 0:
        print(f"     Python {platform.python_version()}, {platform.machine()}, {ctypes.sizeof(ctypes.c_void_p) * 8} bits", flush=True)
    checks = [("libraries", _libraries), ("means", _local), ("tcp", _tcp), ("torch", _torch)]
    good = all([_checked(name, check, rank == 0) for name, check in checks])
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and good:
        import torch.distributed
        import telegrad.torch
        torch.distributed.init_process_group("gloo")
        good = _checked("job", lambda: _job(telegrad.torch.Network()), rank == 0)
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
