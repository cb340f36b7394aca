"""Two levels: the ranks of a node sum their gradients over its fast network, and the first of them exchanges the sum."""
import contextlib
from typing import Any, Iterator, Optional

import torch
import torch.distributed
import telegrad
from telegrad._errors import ArgumentError, MismatchError, NonFiniteError, StateError


class Node:
    """The process group of a node's ranks. Its calls are collective: all ranks of the node make them in the same order."""

    def __init__(self, group: Any) -> None:
        if not isinstance(group, torch.distributed.ProcessGroup):
            raise ArgumentError(f"node: a {type(group).__name__}: allowed: the process group of this node's ranks, or None")
        self._group = group
        self.size = torch.distributed.get_world_size(group)
        self.rank = torch.distributed.get_rank(group)
        self.first = torch.distributed.get_global_rank(group, 0)  # the rank that exchanges

    def check(self, net: telegrad.Network, ranks: int, device: torch.device) -> None:
        """Whether `net` has one rank of each node, and they are all of this job's ranks.

        device  one with which the group works
        """
        most = torch.tensor([net.size, -net.size, net.rank, -net.rank, self.size, -self.size], device=device)
        torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=self._group)
        alike = all(int(most[i]) == -int(most[i + 1]) for i in (0, 2, 4))
        if not alike or net.size * self.size != ranks:
            raise MismatchError(f"net: rank {net.rank} of {net.size}, in a node of {self.size} ranks, but the model's process group has "
                                f"{ranks}: allowed: nodes of equally many ranks, and a network of the ranks with the same place in "
                                'their nodes, such as Network(group=mesh["nodes"].get_group())')

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise StateError(f"node: its process group has failed: {error}") from error

    def mean(self, vector: torch.Tensor) -> None:
        """In place, for the first rank; what the others have afterwards means nothing."""
        with self._failing():
            vector.div_(self.size)
            torch.distributed.reduce(vector, self.first, group=self._group)

    def share(self, vector: torch.Tensor, error: Optional[BaseException]) -> None:
        """Give the first rank's vector to the others. If there is an error, they raise one, too."""
        with self._failing():
            if error is not None and self.rank == 0:
                vector.fill_(float("inf" if isinstance(error, NonFiniteError) else "nan"))
            torch.distributed.broadcast(vector, self.first, group=self._group)
            if self.rank == 0:
                return
            first = float(vector[0])  # finite, unless there was an error
        if first == float("inf"):
            raise NonFiniteError(f"a gradient is not finite: the error of rank {self.first} says of which node")
        if first != first:
            raise StateError(f"the exchange of rank {self.first}, the first of this node, has failed: see its error")
