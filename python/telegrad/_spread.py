"""Tensors of a session, and those that are only given to all ranks."""
import ctypes
from typing import Any, Dict, Iterator, Optional, Sequence, Set

import torch

from telegrad import _c
from telegrad._errors import check
from telegrad._network import Network

_GROUP = 1 << 26  # bytes that are copied at once, to be given to all ranks


def others_of(taken: Set[str], model: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """The parameters, and buffers, but those taken."""
    every = [*model.named_parameters(), *model.named_buffers()]
    return {name: t.detach() for name, t in every if name not in taken and t.numel() > 0 and t.layout == torch.strided and not t.is_meta}


def groups(others: Dict[str, torch.Tensor]) -> Iterator[Dict[str, torch.Tensor]]:
    """Of about as many bytes each."""
    group: Dict[str, torch.Tensor] = {}
    for name, t in others.items():
        group[name] = t
        if sum(x.numel() * x.element_size() for x in group.values()) >= _GROUP:
            yield group
            group = {}
    if group:
        yield group


def spread(config: Any, net: Network, others: Dict[str, torch.Tensor]) -> None:
    """All ranks get rank 0's bytes: by a session that only begins."""
    own = _c.tg_session_config(struct_size=ctypes.sizeof(_c.tg_session_config), strategy=b"local", optimizer=b"external",
                               timeout_ms=config.timeout_ms, stop=config.stop)
    handle = ctypes.c_void_p()
    check(_c.tg_session_create(ctypes.byref(own), net.handle(), ctypes.byref(handle)))
    assert handle.value is not None
    try:
        trained, copies = torch.zeros(1, dtype=torch.float32, device="cpu"), {}
        add(handle.value, "(none)", trained, _c.TG_TENSOR_TRAINED)
        for name, t in others.items():
            values = t.to("cpu").contiguous().reshape(-1).view(torch.uint8)
            copies[name] = torch.zeros((values.numel() + 3) // 4, dtype=torch.float32, device="cpu")
            copies[name].view(torch.uint8)[:values.numel()].copy_(values)
            add(handle.value, f"{name} ({str(t.dtype)[6:]})", copies[name], _c.TG_TENSOR_RANK0)
        uses = trained, copies
        net._wait(lambda uses=uses: check(_c.tg_session_begin(handle)), handle.value or 0, tells=False)  # type: ignore[misc]
    finally:
        if net._calls is not None:
            net._calls.finish(handle.value)
        _c.tg_session_destroy(handle)
    for name, t in others.items():
        found = copies[name].view(torch.uint8)[:t.numel() * t.element_size()].view(t.dtype).view(t.shape)
        if net.rank != 0:
            t.copy_(found)


def add(session: int, name: str, memory: torch.Tensor, kind: int, gradient: Optional[torch.Tensor] = None) -> int:
    """Give a tensor to a session. Returns its number. gradient: its memory; None: there is none, or the session's"""
    shape: Sequence[int] = tuple(memory.shape)
    sides = (ctypes.c_size_t * max(1, len(shape)))(*shape)
    array, of_gradient = (_c.tg_array() if t is None else
                          _c.tg_array(struct_size=ctypes.sizeof(_c.tg_array), data=t.data_ptr(), n=t.numel(), dtype=_c.TG_F32,
                                      memory=_c.TG_HOST) for t in (memory, gradient))
    given = _c.tg_tensor(struct_size=ctypes.sizeof(_c.tg_tensor), name=name.encode(), shape=ctypes.addressof(sides), ndim=len(shape),
                         kind=kind, param=array, grad=of_gradient)
    number = ctypes.c_uint32()
    check(_c.tg_session_add(session, ctypes.byref(given), ctypes.byref(number)))
    return number.value
