"""telegrad in PyTorch: a network between the ranks of torch.distributed, communication hooks for DistributedDataParallel and
FSDP2, local methods (`Local`) with any optimizer, and workers of parameter servers (`server`).

    import telegrad.torch
    net = telegrad.torch.Network()
    model = DistributedDataParallel(model)
    hook = telegrad.torch.ddp(model, "dgc:density=0.001", net)
"""
import os
import socket
from typing import Any, Optional, Tuple

import torch
import torch.distributed
import telegrad
from telegrad._checks import check_seconds, text_of
from telegrad._ddp import DdpHook, ddp
from telegrad._errors import ArgumentError, StateError
from telegrad._fsdp import FsdpHook, fsdp
from telegrad._local import Local
from telegrad._server import server, Worker
from telegrad._store import Store

__all__ = ["DdpHook", "FsdpHook", "Local", "Network", "Worker", "ddp", "fsdp", "server"]

_networks = 0  # made so far, the same number on all ranks


class Network(telegrad.Network):
    """TCP between the ranks of a process group of torch.distributed. All ranks of the job call it.

    Addresses and public keys travel by the group's store, and each rank makes a new key for this job. So connections are
    encrypted, but no more trustworthy than the store, to which anybody who reaches its port can write. The system chooses the
    ports. Ctrl-C ends joining.

    group     the process group, of which all ranks of the job have one each; None: the default group
    host      the address of rank 0 for the others; None: MASTER_ADDR, if that is the machine of rank 0, else the addresses of
              all its interfaces, tried in turn
    timeout   seconds until all ranks are there

    >>> import telegrad.torch                                 # a job of one rank; torch.distributed is initialized
    >>> with telegrad.torch.Network() as net:
    ...     print(net)
    <telegrad.Network: rank 0 of 1>
    """

    def __init__(self, *, group: Any = None, host: Optional[str] = None, timeout: float = 60) -> None:
        if not torch.distributed.is_initialized():
            raise StateError("telegrad.torch.Network: torch.distributed is not initialized: call "
                             "torch.distributed.init_process_group first")
        global _networks
        c10d: Any = torch.distributed.distributed_c10d
        if group is not None and not isinstance(group, c10d.ProcessGroup):
            raise ArgumentError(f"group: a {type(group).__name__}: allowed: a process group that this rank is in, or None")
        text_of("host", host)
        check_seconds("timeout", timeout)
        store = c10d._get_default_store()
        rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        first = 0 if group is None else torch.distributed.get_global_rank(group, 0)
        prefix, _networks = f"telegrad/{_networks}/{first}/", _networks + 1
        super().__init__(Store(store, prefix, rank, size, timeout).join(*_place_of_rank_0(host) if rank == 0 else (None, None)))


def _is_here(host: str) -> bool:
    """Whether this machine has the address."""
    try:
        family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as s:
            s.bind(where)
        return True
    except OSError:
        return False


def _place_of_rank_0(host: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """Where rank 0 listens, and where the others reach it; None: at each address of this machine."""
    master = os.environ.get("MASTER_ADDR", "")
    if host is None and master and _is_here(master):
        host = master
    if host is None:
        return None, None
    address = f"tcp://[{host}]:0" if ":" in host else f"tcp://{host}:0"
    return (address, None) if host in ("localhost", "127.0.0.1", "::1") else (None, address)


for _name in __all__:
    globals()[_name].__module__ = "telegrad.torch"  # where users find it
