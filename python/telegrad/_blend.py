"""The state of an optimizer of PyTorch's, for another number of ranks."""
from typing import Any, Dict, List, Tuple

import torch


def mean_of(states: List[Tuple[int, Dict[str, Any]]]) -> Dict[str, Any]:
    """Of the optimizer states of some ranks, each with a weight: vectors (momentum, moments) are their mean over the ranks that have
    them; numbers, such as the count of steps, and groups are the first rank's."""
    if len(states) == 1:
        return states[0][1]
    first = states[0][1]
    merged: Dict[Any, Dict[str, Any]] = {}
    for parameter in {key for _, state in states for key in state["state"]}:
        having = [(share, state["state"][parameter]) for share, state in states if parameter in state["state"]]
        merged[parameter] = {name: _mean([(share, own[name]) for share, own in having if isinstance(own.get(name), torch.Tensor)])
                             if _is_vector(value) else value for name, value in having[0][1].items()}
    return {**first, "state": merged}


def _is_vector(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0


def _mean(values: List[Tuple[int, torch.Tensor]]) -> torch.Tensor:
    """Summed in float64, and rounded once."""
    whole = sum(share for share, _ in values)
    device = values[0][1].device
    found = sum((share * value.to(device).double() for share, value in values), torch.zeros((), dtype=torch.float64, device=device)) / whole
    return found.to(values[0][1].dtype)
