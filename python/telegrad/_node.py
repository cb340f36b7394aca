"""Two levels: the ranks of a node average their gradients over its fast network, and the first of them exchanges the mean."""
import array
import contextlib
from typing import Any, Iterable, Iterator, Optional, Set, Tuple

import torch
import torch.distributed
import telegrad
from telegrad._errors import ArgumentError, MismatchError, NonFiniteError, StateError, UnsupportedError


class Node:
    """The process group of a node's ranks. Its calls are collective: all ranks of the node make them in the same order, in the
    thread in which they do the other operations of process groups."""

    def __init__(self, group: Any) -> None:
        if not isinstance(group, torch.distributed.ProcessGroup):
            raise ArgumentError(f"node: a {type(group).__name__}: allowed: the process group of this node's ranks, or None")
        self._group = group
        self.size = torch.distributed.get_world_size(group)
        self.place = torch.distributed.get_rank(group)
        self.first = torch.distributed.get_global_rank(group, 0)  # the rank that exchanges

    def check(self, net: telegrad.Network, ranks: int, gradients: Iterable[torch.Tensor]) -> None:
        """Whether the group works with such gradients, and `net` has the ranks with this place of all nodes."""
        kinds: Set[Tuple[torch.device, torch.dtype]] = {(g.device, g.dtype) for g in gradients}
        for device, dtype in sorted(kinds, key=str):
            self._try(torch.ones(1, device=device, dtype=dtype))
        device = sorted(kinds, key=str)[0][0] if kinds else torch.device("cpu")
        places = array.array("f", [self.place, self.place ** 2])  # alike in this network, so their means are the same, but for rounding
        with contextlib.closing(telegrad.Reducer("dense", 2, net)) as reducer:
            reducer.mean_(places)
        rounding = 1e-4 * (1 + self.place ** 2)
        wrong = (abs(places[0] - self.place) > rounding or abs(places[1] - self.place ** 2) > rounding or
                 net.size * self.size != ranks)
        most = torch.tensor([wrong, net.size, -net.size, net.rank, -net.rank, self.size, -self.size], dtype=torch.int64, device=device)
        torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=self._group)
        if int(most[0]) > 0 or any(int(most[i]) != -int(most[i + 1]) for i in (1, 3, 5)):
            raise MismatchError(f"net: rank {net.rank} of {net.size}, and rank {self.place} of {self.size} in its node, but the model's process "
                                f"group has {ranks} ranks: allowed: nodes of equally many ranks, and a network of the ranks with the "
                                'same place in their nodes, such as Network(group=mesh["nodes"].get_group())')

    def _try(self, vector: torch.Tensor) -> None:
        try:
            torch.distributed.reduce(vector, self.first, group=self._group)
            torch.distributed.broadcast(vector, self.first, group=self._group)
        except RuntimeError as error:
            raise UnsupportedError(f"node: its process group ({torch.distributed.get_backend(self._group)}) cannot reduce and broadcast "
                                   f"{str(vector.dtype)[6:]} on {vector.device}: {error}: allowed: NCCL for GPUs, Gloo for processors",
                                   "TG_E_UNSUPPORTED") from error

    def begin_mean(self, vector: torch.Tensor) -> Any:
        """In place, for the first rank; what the others have afterwards means nothing. Returns what end_mean waits for."""
        if vector.numel() == 0:
            return None
        with self._failing():
            vector.div_(self.size)
            return torch.distributed.reduce(vector, self.first, group=self._group, async_op=True)

    def end_mean(self, work: Any) -> None:
        if work is not None:
            with self._failing():
                work.wait()

    def share(self, vector: torch.Tensor, error: Optional[BaseException]) -> None:
        """Give the first rank's vector to the others. If it has an error, they raise one, too."""
        if vector.numel() == 0:
            return
        with self._failing():
            if error is not None and self.place == 0:
                vector.fill_(float("inf" if isinstance(error, NonFiniteError) else "nan"))
            torch.distributed.broadcast(vector, self.first, group=self._group)
            if self.place == 0:
                return
            first = float(vector[0])  # finite, unless there was an error
        if first == float("inf"):
            raise NonFiniteError(f"a gradient is not finite: the error of global rank {self.first} says of which node")
        if first != first:
            raise StateError(f"the exchange of global rank {self.first}, the first of this node, has failed: see its error")

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise StateError(f"node: its process group has failed: {error}") from error
