"""A vector of gradients in parts: the parameters that share a method, a reducer for each. Used by the hooks of telegrad.torch."""
import fnmatch
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
import telegrad
from telegrad import _c
from telegrad._errors import ArgumentError, MismatchError, UnsupportedError, check

Memory = Dict[str, Dict[str, torch.Tensor]]  # of parameters, by name: bytes by role and name
DTYPES = {torch.float32: _c.TG_F32, torch.float16: _c.TG_F16, torch.bfloat16: _c.TG_BF16}


class Methods:
    """Which method a parameter has."""

    def __init__(self, spec: str, rules: Optional[Mapping[str, str]], names: Sequence[str], **settings: Any) -> None:
        self.spec, self.rules = spec, dict(rules or {})
        for pattern in self.rules:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                raise ArgumentError(f"rules: {pattern!r} matches no parameter: allowed: patterns of names as in "
                                    f"model.named_parameters(), such as {names[0]!r}" if names else "rules: there are no parameters")
        with telegrad.Network.local(1)[0] as alone:  # a wrong spec is refused now, not in the first backward pass
            for text in (spec, *self.rules.values()):
                telegrad.Reducer(text, 1, alone, **settings)

    def of(self, name: str) -> str:
        """The first rule that matches applies."""
        return next((spec for pattern, spec in self.rules.items() if fnmatch.fnmatchcase(name, pattern)), self.spec)

    def check_optimizer(self, optimizer: Any) -> None:
        for spec in (self.spec, *self.rules.values()):
            method = spec.partition(":")[0]
            if optimizer is None or method not in ("dgc", "csc"):
                continue
            for group in optimizer.param_groups:
                if group.get("momentum", 0) != 0:
                    raise ArgumentError(f"optimizer: its momentum={group['momentum']}, but {method} applies momentum itself: allowed: 0 "
                                        f"(give it to the method: {method}:momentum={group['momentum']})")


class Part:
    """What of a vector has one method."""

    def __init__(self, spec: str, names: List[str], shapes: List[Tuple[int, ...]], ranges: List[Tuple[int, int]]) -> None:
        self.spec, self.names, self.shapes = spec, names, shapes
        self.runs: List[Tuple[int, int]] = []  # where it lies: begin and end
        for begin, end in ranges:
            if self.runs and self.runs[-1][1] == begin:
                self.runs[-1] = (self.runs[-1][0], end)
            else:
                self.runs.append((begin, end))
        self.n = sum(end - begin for begin, end in self.runs)
        self.reducer: Optional[telegrad.Reducer] = None
        self.used = False  # in this step, with success: so it can be taken back
        self._scratch: Optional[torch.Tensor] = None

    def start(self, vector: torch.Tensor) -> None:
        assert self.reducer is not None
        if len(self.runs) > 1:  # side by side, for one exchange
            pieces = [vector[begin:end] for begin, end in self.runs]
            self._scratch = torch.cat(pieces)
            where = self._scratch.data_ptr()
        else:
            where = vector.data_ptr() + self.runs[0][0] * vector.element_size()
        check(_c.tg_reducer_start_as(self.reducer.handle(), DTYPES[vector.dtype], where, where, None, None))

    def wait(self, vector: torch.Tensor) -> None:
        assert self.reducer is not None
        check(_c.tg_reducer_wait(self.reducer.handle()))
        if self._scratch is not None:
            at = 0
            for begin, end in self.runs:
                vector[begin:end] = self._scratch[at:at + end - begin]
                at += end - begin
            self._scratch = None
        self.used = True

    def memory(self, segments: Optional[Set[int]] = None) -> Memory:
        """A copy of the memory, or of that of some of the parameters."""
        memory: Memory = {}
        if self.reducer is not None:
            for slot, data in self.reducer.slots():
                if len(data) > 0 and (segments is None or slot.segment in segments):
                    copy = torch.frombuffer(bytearray(data), dtype=torch.uint8)
                    memory.setdefault(self.names[slot.segment], {})[slot_name(slot)] = copy
        return memory

    def make_reducer(self, net: telegrad.Network, memory: Memory, factor: float, step: int, seed: int, settings: Dict[str, Any]) -> None:
        """Create it, with what is remembered of its parameters, which is taken out of `memory` and multiplied by a factor."""
        reducer = telegrad.Reducer(self.spec, self.n, net, segments=[shape or (1,) for shape in self.shapes], seed=seed, **settings)
        for slot, data in reducer.slots():
            name = self.names[slot.segment]
            kept = memory.get(name, {}).pop(slot_name(slot), None)
            if kept is None:
                continue
            if len(data) != kept.numel():
                raise MismatchError(f"load_state_dict: the memory of the parameter {name!r} has {kept.numel()} bytes of "
                                    f"{slot_name(slot)}, but this model's has {len(data)}")
            data[:] = kept.numpy().data
        if factor != 1:
            check(_c.tg_reducer_scale(reducer.handle(), factor))
        check(_c.tg_reducer_set_step(reducer.handle(), step))
        self.reducer = reducer

    def close(self) -> None:
        if self.reducer is not None:
            self.reducer.close()


def slot_name(slot: _c.tg_reducer_slot) -> str:
    return f"{slot.role.decode()}/{slot.name.decode()}/{slot.at}"


def cut(methods: Methods, names: Sequence[str], shapes: Sequence[Tuple[int, ...]], sizes: Sequence[int]) -> List[Part]:
    """The parts of a vector in which these parameters lie side by side, in order of their first parameter."""
    found: Dict[str, List[Tuple[str, Tuple[int, ...], Tuple[int, int]]]] = {}
    begin = 0
    for name, shape, size in zip(names, shapes, sizes):
        if size > 0:
            found.setdefault(methods.of(name), []).append((name, shape, (begin, begin + size)))
        begin += size
    return [Part(spec, [m[0] for m in members], [m[1] for m in members], [m[2] for m in members])
            for spec, members in found.items()]


def figures(parts: Sequence[Part]) -> Dict[str, float]:
    """Bytes sent so far, and the ratio of the gradient's size to that of its coded form in the last step."""
    reducers = [p.reducer for p in parts if p.reducer is not None]
    coded = sum(r.n / r.ratio for r in reducers if r.ratio > 0)
    return {"bytes_sent": sum(r.bytes_sent for r in reducers), "ratio": sum(r.n for r in reducers) / coded if coded else 0.0}


def check_parameter(name: str, p: torch.Tensor) -> None:
    if p.requires_grad and p.dtype not in DTYPES:
        raise UnsupportedError(f"parameter {name}: its gradient is {str(p.dtype)[6:]}: allowed: float32, bfloat16, float16",
                               "TG_E_UNSUPPORTED")
    if p.requires_grad and p.device.type != "cpu":
        raise UnsupportedError(f"parameter {name}: it is on {p.device}: allowed so far: host memory", "TG_E_UNSUPPORTED")
