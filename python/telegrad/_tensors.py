"""Tensors of a model in a session's memory, and their gradients."""
import ctypes
from typing import Optional, Tuple

import torch

from telegrad._errors import StateError, UnsupportedError

TAKEN = (torch.float32, torch.bfloat16, torch.float16)


class Tensor:
    """A tensor of the model, and the float32 memory that the session works on: its own, or a copy of it."""

    def __init__(self, model: torch.nn.Module, name: str, tensor: torch.Tensor, trained: bool) -> None:
        what = "parameter" if trained else "buffer"
        if tensor.dtype not in TAKEN:
            raise UnsupportedError(f"{what} {name}: it is {str(tensor.dtype)[6:]}: allowed: float32, bfloat16, float16", "TG_E_UNSUPPORTED")
        if tensor.device.type != "cpu":
            raise UnsupportedError(f"{what} {name}: it is on {tensor.device}: allowed so far: tensors in host memory (cpu)",
                                   "TG_E_UNSUPPORTED")
        if tensor.layout != torch.strided:
            raise UnsupportedError(f"{what} {name}: its layout is {tensor.layout}: allowed: a dense tensor", "TG_E_UNSUPPORTED")
        self.name, self.tensor, self.trained = name, tensor, trained
        module, _, self.attribute = name.rpartition(".")
        self.owner = model.get_submodule(module)
        self.id = -1
        self.copied = tensor.dtype != torch.float32 or not tensor.is_contiguous()
        # The session writes there as long as it lives, whatever happens to the tensor.
        self.memory = (tensor.detach().to(torch.float32, memory_format=torch.contiguous_format, copy=True) if self.copied
                       else tensor.detach())
        self._gradient: Tuple[int, Optional[torch.Tensor]] = (0, None)

    def pull(self) -> None:
        """Give the tensor's values to the session."""
        if self.copied:
            self.memory.copy_(self.tensor.detach())

    def check(self, who: str) -> None:
        """Refuse a tensor that is another one than when `who` was created."""
        replaced = getattr(self.owner, self.attribute, None) is not self.tensor
        if replaced or not self.copied and self.tensor.data_ptr() != self.memory.data_ptr():
            raise StateError(f"{self.name} was moved or replaced after {who} was created: call model.to() before, and "
                             "load_state_dict without assign=True")

    def push(self) -> None:
        """Take the session's values."""
        if self.copied:
            self.tensor.detach().copy_(self.memory)

    def gradient(self, where: int) -> torch.Tensor:
        """The session's memory for the gradient as a tensor."""
        if self._gradient[0] != where or self._gradient[1] is None:
            memory = (ctypes.c_float * self.memory.numel()).from_address(where)
            self._gradient = where, torch.frombuffer(memory, dtype=torch.float32).view(self.memory.shape)
        assert self._gradient[1] is not None
        return self._gradient[1]


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
    return all(bool(torch.isfinite(v.sum())) or bool(torch.isfinite(v).all()) for v in values)
