"""Tensors of a model in a session's memory, and their gradients."""
import ctypes
from typing import Iterable, List, Optional, Tuple

import torch

from telegrad._errors import StateError, UnsupportedError

TAKEN = (torch.float32, torch.bfloat16, torch.float16)


def lies_apart(tensor: torch.Tensor) -> bool:
    """Whether a session, which works on contiguous float32 in host memory, needs a copy of it."""
    return tensor.device.type != "cpu" or tensor.dtype != torch.float32 or not tensor.is_contiguous()


def host_memory(shape: Iterable[int], beside: torch.Tensor) -> torch.Tensor:
    """Zeros of float32; pinned if `beside` is on a GPU."""
    return torch.zeros(tuple(shape), dtype=torch.float32, device="cpu", pin_memory=beside.is_cuda)


def fetch(host: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy the values of a tensor into host memory of its shape. On a GPU: call finish_copies before reading them."""
    if tensor.is_cuda:
        tensor = tensor.to(torch.float32).contiguous()  # so that what crosses the bus is one copy of bytes
    host.copy_(tensor, non_blocking=True)


def give(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy the values of host memory into a tensor of its shape. On a GPU: call finish_copies before changing them."""
    if tensor.is_cuda and (tensor.dtype != torch.float32 or not tensor.is_contiguous()):
        host = host.to(tensor.device, non_blocking=True)
    tensor.copy_(host, non_blocking=True)


def finish_copies(tensors: Iterable[torch.Tensor]) -> None:
    """Wait for the copies of those that are on a GPU."""
    for device in {t.device for t in tensors if t.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


def check_tensor(what: str, name: str, tensor: torch.Tensor) -> None:
    """Refuse one that a session cannot take."""
    if tensor.dtype not in TAKEN:
        raise UnsupportedError(f"{what} {name}: it is {str(tensor.dtype)[6:]}: allowed: float32, bfloat16, float16", "TG_E_UNSUPPORTED")
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"{what} {name}: it is on {tensor.device}: allowed so far: tensors on CUDA devices and in host memory (cpu)",
                               "TG_E_UNSUPPORTED")
    if tensor.layout != torch.strided:
        raise UnsupportedError(f"{what} {name}: its layout is {tensor.layout}: allowed: a dense tensor", "TG_E_UNSUPPORTED")


class Tensor:
    """A tensor of the model, and the float32 memory that the session works on: its own, or a copy of it."""

    def __init__(self, model: torch.nn.Module, name: str, tensor: torch.Tensor, trained: bool) -> None:
        check_tensor("parameter" if trained else "buffer", name, tensor)
        self.name, self.tensor, self.trained = name, tensor, trained
        module, _, self.attribute = name.rpartition(".")
        self.owner = model.get_submodule(module)
        self.id = -1
        self.copied = lies_apart(tensor)
        # The session writes there as long as it lives, whatever happens to the tensor.
        self.memory = host_memory(tensor.shape, tensor) if self.copied else tensor.detach()
        pull([self])
        self._gradient: Tuple[int, Optional[torch.Tensor]] = (0, None)

    def check(self, who: str) -> None:
        """Refuse a tensor that is another one than when `who` was created."""
        replaced = getattr(self.owner, self.attribute, None) is not self.tensor
        if replaced or not self.copied and self.tensor.data_ptr() != self.memory.data_ptr():
            raise StateError(f"{self.name} was moved or replaced after {who} was created: call model.to() before, and "
                             "load_state_dict without assign=True")

    def gradient(self, where: int) -> torch.Tensor:
        """The session's memory for the gradient as a tensor."""
        if self._gradient[0] != where or self._gradient[1] is None:
            memory = (ctypes.c_float * self.memory.numel()).from_address(where)
            self._gradient = where, torch.frombuffer(memory, dtype=torch.float32).view(self.memory.shape)
        assert self._gradient[1] is not None
        return self._gradient[1]


def pull(tensors: List[Tensor]) -> None:
    """Give the session the tensors' values."""
    copied = [t for t in tensors if t.copied]
    for t in copied:
        fetch(t.memory, t.tensor.detach())
    finish_copies(t.tensor for t in copied)


def push(tensors: List[Tensor]) -> None:
    """Give the tensors the session's values."""
    copied = [t for t in tensors if t.copied]
    for t in copied:
        give(t.tensor.detach(), t.memory)
    finish_copies(t.tensor for t in copied)


def are_finite(values: List[torch.Tensor]) -> bool:
    """Sums are checked first, with one wait for each device. A finite sum has finite terms. A sum that is not finite may be an overflow,
    so then the terms are checked."""
    sums = [v.sum().float() for v in values]
    if not values or all(bool(torch.isfinite(torch.stack([s for s in sums if s.device == device])).all())
                         for device in {s.device for s in sums}):
        return True
    return all(bool(torch.isfinite(v).all()) for v in values)


def unscaled(optimizer: torch.optim.Optimizer) -> bool:
    """Divide the gradients by the factor of a GradScaler that calls step, if it has not done so. Are they finite?"""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    values = [g._values() if g.is_sparse else g for g in gradients]
    scale, found = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
    if found is not None and bool(found):
        return False
    if scale is not None:
        for v in values:
            v.mul_(1 / scale.to(v.device))
    if found is not None:
        return True
    return are_finite(values)
