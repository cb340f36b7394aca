"""telegrad in PyTorch: a network between the ranks of torch.distributed, and a communication hook for
DistributedDataParallel.

    import telegrad.torch
    net = telegrad.torch.Network()
    model = DistributedDataParallel(model)
    hook = telegrad.torch.ddp(model, "dgc:density=0.001", net)
"""
import datetime
import os
import socket
from typing import Any, Optional, Tuple

import torch
import torch.distributed
import telegrad
from telegrad._ddp import DdpHook, ddp
from telegrad._errors import PeerError, StateError
from telegrad._fsdp import FsdpHook, fsdp
from telegrad._network import Key, _join

__all__ = ["DdpHook", "FsdpHook", "Network", "ddp", "fsdp"]

_networks = 0  # made so far, the same number on all ranks


class Network(telegrad.Network):
    """TCP between the ranks of a process group of torch.distributed. All ranks of the job call it.

    Addresses and public keys travel by the group's store; each rank makes a key of its own for this job. So the connections
    are encrypted, and as trustworthy as the store, which anybody who reaches its port can write to.

    group     the process group, of which all ranks of the job have one each; None: the default group
    host      the address of rank 0 for the others; None: MASTER_ADDR, if that is the machine of rank 0, else the address of
              its interface
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
        store = c10d._get_default_store()
        rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        first = 0 if group is None else torch.distributed.get_global_rank(group, 0)
        prefix, _networks = f"telegrad/{_networks}/{first}/", _networks + 1
        key = Key()
        if size == 1:
            super().__init__(_join(listen=f"tcp://127.0.0.1:{_free_port('127.0.0.1')}", size=1, key=key, timeout=timeout))
        elif rank == 0:
            host, listen = _place_of_rank_0(host)
            port = _free_port(listen)
            nonce = os.urandom(8).hex()  # a rank of an earlier start of the job does not get in
            store.set(prefix + "meet", f"{_address(host, port)} {key.public} {nonce}")
            allow = [_get(store, f"{prefix}key/{other}", other, timeout) for other in range(1, size)]
            super().__init__(_join(listen=_address(listen, port), size=size, key=key, allow=allow, job=nonce, timeout=timeout))
        else:
            store.set(f"{prefix}key/{rank}", key.public)
            address, peer_key, nonce = _get(store, prefix + "meet", 0, timeout).split()
            super().__init__(_join(join=address, rank=rank, key=key, peer_key=peer_key, job=nonce, timeout=timeout))


def _get(store: Any, key: str, rank: int, timeout: float) -> str:
    """What a rank has set."""
    try:
        store.wait([key], datetime.timedelta(seconds=timeout))
        return str(store.get(key).decode())
    except RuntimeError as error:
        raise PeerError(f"telegrad.torch.Network: rank {rank} has not come in {timeout:g} s") from error


def _address(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])


def _is_here(host: str) -> bool:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as s:
            s.bind(where)
        return True
    except OSError:
        return False


def _place_of_rank_0(host: Optional[str]) -> Tuple[str, str]:
    """Where others reach this rank, and where it listens."""
    master = os.environ.get("MASTER_ADDR", "")
    if host is None and master and _is_here(master):
        host = master
    if host is None:  # the interface that leads away; nothing is sent
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect((master or "192.0.2.1", 9))
                host = str(s.getsockname()[0])
            except OSError:
                host = "127.0.0.1"
    if host in ("localhost", "127.0.0.1", "::1"):
        return host, "127.0.0.1" if host == "localhost" else host
    return host, "::" if ":" in host else "0.0.0.0"


for _name in __all__:
    globals()[_name].__module__ = "telegrad.torch"  # where users find it
