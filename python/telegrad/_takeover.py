"""What P ranks saved, for any number of ranks. Lay the old ranks side by side and cut them into equal stretches: each rank takes
one. Its vectors (residuals, velocities) become the mean over the stretch, so means over all ranks stay, and the sum becomes P'/P
times the old one, which is what a mean over P' ranks needs. docs/checkpoints.md says the same of the command's checkpoints."""
import array
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from telegrad._errors import ArgumentError, MismatchError
from telegrad._network import Network

State = Mapping[str, Any]
_RETURNED = "what state_dict has returned on a rank"


def weight(rank: int, size: int, old_rank: int, old: int) -> int:
    """The share of an old rank in a new one's stretch; the shares in a stretch add up to `old`."""
    return max(0, min((old_rank + 1) * size, (rank + 1) * old) - max(old_rank * size, rank * old))


class Mean:
    """A weighted mean of vectors of float32: summed in float64 and rounded once."""

    def __init__(self) -> None:
        self._sum: Any = None
        self._alone: Optional[bytes] = None
        self._bytes = -1

    def add(self, what: str, data: memoryview, own: int, whole: int) -> None:
        if self._bytes not in (-1, data.nbytes):
            raise MismatchError(f"load_state_dict: {what} has {data.nbytes} bytes in one of the states and {self._bytes} in another: "
                                "allowed: states of the same model")
        self._bytes = data.nbytes
        if own == whole:
            self._alone = bytes(data)
            return
        values = _float64(data)
        if self._sum is None:
            self._sum = _float64(memoryview(bytes(self._bytes)))
        if isinstance(values, array.array):
            self._sum = array.array("d", (s + own * v for s, v in zip(self._sum, values)))
        else:
            self._sum += own * values

    def value(self, whole: int) -> bytes:
        if self._alone is not None:
            return self._alone
        if isinstance(self._sum, array.array):
            return array.array("f", (s / whole for s in self._sum)).tobytes()
        found: bytes = (self._sum / whole).astype("f4").tobytes()
        return found


def _float64(data: memoryview) -> Any:
    """Of NumPy, if it is there."""
    try:
        import numpy
    except ImportError:
        return array.array("d", data.cast("B").cast("f"))
    return numpy.frombuffer(data, "f4").astype("f8")


def states_of(states: Any, net: Network, own: State, needed: Sequence[str], alike: Sequence[str] = ()) -> Iterator[Tuple[int, int, State]]:
    """(its weight, the sum of all weights, the state of an old rank) in order of ranks: of this rank alone if there are as many
    as before, else of all; the weight may be 0.

    states  the state of this rank, in a job with as many ranks; or those of all old ranks, in order of ranks
    own     what all must have, as this rank has it
    needed  what else all must have ...
    alike   ... and have in common
    """
    if isinstance(states, Mapping):
        _check(states, own, "the state", needed)
        _check(states, {"size": net.size, "rank": net.rank}, "the state", (), "this rank has",
               "the state of the same rank in a job with as many ranks, or a list of the states of all old ranks")
        yield 1, 1, states
        return
    if isinstance(states, (str, bytes)) or not isinstance(states, Iterable):
        raise ArgumentError(f"load_state_dict: a {type(states).__name__}: allowed: {_RETURNED}, or a list of the states of all old ranks")
    first: Optional[State] = None
    count = 0
    for state in states:
        if not isinstance(state, Mapping):
            raise ArgumentError(f"load_state_dict: a {type(state).__name__} in the list: allowed: {_RETURNED}")
        first = state if first is None else first
        old = int(first.get("size", 0))
        _check(state, own, f"state {count} of the list", needed)
        _check(state, {"rank": count, "size": old, **{key: first.get(key) for key in alike}}, f"state {count} of the list", (),
               "it needs", "the states of all old ranks, in order of ranks, saved after the same step")
        share = weight(net.rank, net.size, count, old)
        if share > 0 or old != net.size:
            yield share, old, state
        count += 1
    if first is None or count != int(first["size"]):
        found = f"the list has {count} state{'s' * (count != 1)}, but {first['size']} ranks have saved" if first else "the list is empty"
        raise MismatchError(f"load_state_dict: {found}: allowed: the states of all old ranks, in order of ranks")


def _check(state: State, wanted: State, what: str, needed: Sequence[str], whose: str = "this rank has", allowed: str = "") -> None:
    if "version" not in state:
        raise MismatchError(f"load_state_dict: {what} has no version: allowed: {_RETURNED}")
    for key, value in wanted.items():
        if state.get(key) != value:
            raise MismatchError(f"load_state_dict: {what} has {key}={state.get(key)!r}, but {whose} {key}={value!r}: allowed: "
                                f"{allowed or f'a state that was saved with {key}={value!r}'}")
    for key in needed:
        if key not in state:
            raise ArgumentError(f"load_state_dict: {what} has no {key!r}: allowed: {_RETURNED}")


def memory_of(states: Any, net: Network, own: State, alike: Sequence[str], is_vector: Callable[[Any, str, Any], bool],
              view: Callable[[Any], memoryview]) -> Dict[str, Any]:
    """The state that this rank goes on from. Its "memory" is {a segment: {"ROLE/NAME/AT": data}}, with means as bytes; pieces that
    owners had are all there, to be cut anew.

    is_vector  (segment, key, data): whether it is of float32, with a mean
    view       the bytes of data
    """
    means: Dict[Tuple[Any, str], Mean] = {}
    memory: Dict[Any, Dict[str, Any]] = {}
    result: Dict[str, Any] = {}
    whole = 1
    for share, whole, state in states_of(states, net, own, ("memory", *alike), alike):
        if share > 0 and not result:
            result = dict(state)
        for segment, slots in state["memory"].items():
            kept = memory.setdefault(segment, {})
            for key, data in slots.items():
                role = key.partition("/")[0]
                if role == "owner" or role == "replicated":
                    kept.setdefault(key, data)
                elif share > 0 and is_vector(segment, key, data):
                    means.setdefault((segment, key), Mean()).add(f"{key} of {segment!r}", view(data), share, whole)
                elif share > 0:
                    kept.setdefault(key, data)
    for (segment, key), mean in means.items():
        memory[segment][key] = mean.value(whole)
    return {**result, "memory": {segment: slots for segment, slots in memory.items() if slots}}


def piece(slots: Mapping[str, Any], name: str, at: int, length: int, view: Callable[[Any], memoryview]) -> Optional[bytes]:
    """Bytes [at, at + length) of a vector of which `slots` has pieces, "owner/NAME/AT" with AT in elements of four bytes; zeros where
    it has none. None: it has none at all."""
    found: Optional[bytearray] = None
    for key, data in slots.items():
        role, own_name, begin_text = key.split("/")
        if role != "owner" or own_name != name:
            continue
        found = bytearray(length) if found is None else found
        bytes_ = view(data).cast("B")
        begin = 4 * int(begin_text)
        low, high = max(at, begin), min(at + length, begin + len(bytes_))
        if low < high:
            found[low - at:high - at] = bytes_[low - begin:high - begin]
    return None if found is None else bytes(found)
