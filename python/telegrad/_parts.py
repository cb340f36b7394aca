"""A vector of gradients in parts: the parameters that share a method, a reducer for each. Used by the hooks of telegrad.torch."""
import ctypes
import fnmatch
import math
import os
import re
import sys
import warnings
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
import telegrad
from telegrad import _c
from telegrad._checks import check_rules
from telegrad._errors import ArgumentError, MismatchError, NonFiniteError, UnsupportedError, check
from telegrad._takeover import memory_of, piece

VERSION = 2  # of a hook's state
# Of parameters, by name: what the slots hold, by role and name; float32 if it is a vector, else bytes.
Memory = Dict[str, Dict[str, torch.Tensor]]
_USUAL_RATE = 0.05  # of dense SGD with momentum 0.9, as in the command
BUCKETS_OWN = "replicated/sketch."  # slots of fetchsgd: memory of a whole bucket, under the name of its first parameter
DTYPES = {torch.float32: _c.TG_F32, torch.float16: _c.TG_F16, torch.bfloat16: _c.TG_BF16}


class Kept:
    """The memory of parameters that have no reducer yet, each in gradients of the loss scale that it was taken at."""

    def __init__(self) -> None:
        self._memory: Memory = {}
        self._scales: Dict[str, float] = {}

    def put(self, memory: Memory, scale: float) -> None:
        for name, slots in memory.items():
            self._memory.setdefault(name, {}).update(slots)
            self._scales[name] = scale

    def of(self, name: str) -> Tuple[Dict[str, torch.Tensor], float]:
        """The memory of a parameter, and its loss scale."""
        return dict(self._memory.get(name, {})), self._scales.get(name, 1.0)

    def take(self, name: str, slot: _c.tg_reducer_slot, scale: float) -> Optional[torch.Tensor]:
        """What belongs into a slot, in gradients of this loss scale."""
        slots = self._memory.get(name, {})
        if slot.role == b"owner":
            bytes_ = piece(slots, slot.name.decode(), 4 * slot.at, slot.bytes, view)
            data = None if bytes_ is None else tensor_of(bytes_)
        else:
            data = slots.pop(slot_name(slot), None)
        return None if data is None else rescaled(data, scale / self._scales[name])

    def drop_pieces(self, name: str) -> None:
        """Owners have taken theirs. What is left of a bucket was another bucket's."""
        slots = self._memory.get(name, {})
        for key in [key for key in slots if key.startswith(("owner/", BUCKETS_OWN))]:
            del slots[key]

    def state(self, parts: "Sequence[Part]", scale: float) -> Dict[str, Any]:
        """This and the memory of the parts' reducers, which is in gradients of this loss scale."""
        memory: Memory = {name: dict(slots) for name, slots in self._memory.items() if slots}
        scales = {name: self._scales[name] for name in memory if self._scales[name] != scale}
        for part in parts:
            for name, slots in part.memory().items():
                memory.setdefault(name, {}).update(slots)
                scales.pop(name, None)
        return {"scale": scale, "scales": scales, "memory": memory}

    def load(self, state: Dict[str, Any]) -> None:
        """Replace it by what `state` has returned."""
        self._memory, self._scales = {}, {}
        for name, slots in state["memory"].items():
            own = float(state.get("scales", {}).get(name, state["scale"]))
            self.put({name: {key: value.clone() for key, value in slots.items()}}, own)


class Methods:
    """Which method a parameter has."""

    def __init__(self, spec: str, rules: Optional[Mapping[str, str]], names: Sequence[str], **settings: Any) -> None:
        """names: of all parameters, also of those without gradients"""
        self._watch: Any = None
        self._watched: List[Any] = []
        self.spec = spec  # in rules the command calls it f32
        self.rules = {pattern: "dense" if text == "f32" else text for pattern, text in check_rules(rules).items()}
        for pattern in self.rules:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                raise ArgumentError(f"rules: {pattern!r} matches no parameter: allowed: patterns of names as in "
                                    f"model.named_parameters(), such as {names[0]!r}" if names else "rules: the model has no parameters")
        with telegrad.Network.local(1)[0] as alone:  # a wrong spec is refused now, not in the first backward pass
            for text in (spec, *self.rules.values()):
                telegrad.Reducer(text, 1, alone, **settings)

    def of(self, name: str) -> str:
        """The first rule that matches applies."""
        return next((spec for pattern, spec in self.rules.items() if fnmatch.fnmatchcase(name, pattern)), self.spec)

    def check_optimizer(self, optimizer: Any, rank: int, parameters: Sequence[torch.Tensor]) -> None:
        """Errors are raised on every rank; rank 0 warns. parameters: the model's"""
        if optimizer is not None and not hasattr(optimizer, "param_groups"):
            raise ArgumentError(f"optimizer: a {type(optimizer).__name__}: allowed: a torch.optim.Optimizer")
        own = {id(p) for p in parameters}
        if optimizer is not None and not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            raise ArgumentError("optimizer: none of its parameters is one of the model's: allowed: the optimizer that updates the model")
        for spec in (self.spec, *self.rules.values()):
            method = spec.partition(":")[0]
            own_momentum = _has_own_momentum(spec)
            text = _doubt(method, own_momentum, optimizer) or _parted(spec, optimizer)
            if text and rank == 0:
                warnings.warn(text, stacklevel=3)
            if optimizer is None or not own_momentum:
                continue
            for i, group in enumerate(optimizer.param_groups):
                if group.get("momentum", 0) != 0:
                    raise ArgumentError(f"optimizer: group {i} has momentum={group['momentum']}, but {method} applies momentum itself: "
                                        f"allowed: momentum=0 in all groups (give it to the method: {method}:momentum={group['momentum']})")
                if "betas" in group or "eps" in group:
                    raise ArgumentError(f"optimizer: a {type(optimizer).__name__} adapts its steps to gradients, but {method} gives it "
                                        "velocities, because it applies momentum itself: allowed: SGD with momentum=0, or a method "
                                        f"without momentum, such as topk or {method}:momentum=0")


    def watch_optimizer(self, rank: int, parameters: Sequence[torch.Tensor]) -> None:
        """If it is not known yet: rank 0 looks at the one that takes the first step of these parameters. PyTorch 2 tells of steps."""
        try:
            from torch.optim.optimizer import register_optimizer_step_pre_hook as register
        except ImportError:
            return
        if rank > 0:
            return
        watched = [weakref.ref(p) for p in parameters]

        def look(optimizer: Any, *_: Any) -> None:
            own = {id(p) for p in (watch() for watch in watched) if p is not None}
            if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
                return  # of another model
            watched.clear()
            level, frame = 2, sys._getframe(1)
            while frame.f_back is not None and f"{os.sep}torch{os.sep}" in frame.f_code.co_filename:
                level, frame = level + 1, frame.f_back
            for text in filter(None, [_parted(spec, optimizer) for spec in (self.spec, *self.rules.values())]):
                warnings.warn(text, stacklevel=level)
        self._watched, self._watch = watched, register(look)

    def end_watch(self, now: bool) -> None:
        """now: or, if not, once it has seen the optimizer. PyTorch does not let a hook remove itself."""
        if self._watch is not None and (now or not self._watched):
            self._watch.remove()
            self._watch = None


def _has_own_momentum(spec: str) -> bool:
    """Whether the method applies momentum itself, in the place of the optimizer."""
    method, _, keys = spec.partition(":")
    return method in ("dgc", "csc", "fetchsgd") and not any(re.fullmatch(r"momentum=0*\.?0*", key.strip()) for key in keys.split(","))


def _doubt(method: str, own_momentum: bool, optimizer: Any) -> str:
    """What to warn of; "": nothing."""
    if own_momentum and optimizer is None:
        return (f"method {method} applies momentum itself, and the optimizer was not checked: give optimizer=, an SGD with momentum=0, "
                "or momentum acts twice")
    where = _c.tg_registry_rate_hint(_c.TG_KIND_METHOD, method.encode())
    hint = _c.tg_rate_hint.from_address(where) if where else None
    if hint is None or not 0 < hint.factor < 1:
        return ""
    most = _USUAL_RATE * hint.high  # of the rate over 1 - momentum
    rates = [group["lr"] / (1 - group["momentum"]) for group in getattr(optimizer, "param_groups", ())
             if group.get("momentum", 1) < 1]  # those of an SGD
    if optimizer is not None and max(rates, default=0) <= most:
        return ""
    return (f"method {method} learns with about {hint.factor:g} times the learning rate of dense SGD"
            f"{', and the optimizer was not checked' if optimizer is None else ''}: usual: lr / (1 - momentum) of at most {most:g}")


_ADAPTIVE = {"betas", "beta2_decay", "centered", "initial_accumulator_value"}  # groups of Adam and the like, Adafactor, RMSprop, Adagrad


def _parted(spec: str, optimizer: Any) -> str:
    """What to warn of if an optimizer with moments gets gradients in parts; "": nothing."""
    if not any(_ADAPTIVE & group.keys() for group in getattr(optimizer, "param_groups", ())):
        return ""
    if _c.tg_registry_default_strategy(spec.encode(), None, 0, b"adamw") == b"ssgd":
        return ""
    return (f"method {spec.partition(':')[0]} sends gradients in parts and late, from which the moments of {type(optimizer).__name__} are "
            "wrong, so the model learns badly: usual: telegrad.torch.Local with strategy \"local:every=1\" and this method, which "
            "exchanges the optimizer's steps; or SGD")


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
        stream = int(torch.cuda.current_stream(vector.device).cuda_stream) if vector.is_cuda else 0
        check(self.reducer._start(where, DTYPES[vector.dtype], stream))

    def wait(self, vector: torch.Tensor) -> None:
        assert self.reducer is not None
        try:
            self.reducer._uses = vector, self._scratch
            self.reducer._wait()
        except NonFiniteError as error:
            raise self._named(error) from None
        if self._scratch is not None:
            at = 0
            for begin, end in self.runs:
                vector[begin:end] = self._scratch[at:at + end - begin]
                at += end - begin
            self._scratch = None
        self.used = True

    def _named(self, error: NonFiniteError) -> NonFiniteError:
        """The same, with the name of the parameter."""
        text = str(error)
        found = re.search(r"element (\d+) of the gradient", text)
        at = int(found[1]) if found else -1
        for name, shape in zip(self.names, self.shapes):
            size = math.prod(shape)
            if found and at < size:
                text = text.replace(found[0], f"element {at} of the gradient of {name}")
                break
            at -= size
        return NonFiniteError(text, error.status)

    def memory(self, segments: Optional[Set[int]] = None) -> Memory:
        """A copy of the memory, or of that of some of the parameters."""
        memory: Memory = {}
        if self.reducer is not None:
            for slot, data in self.reducer.slots():
                if len(data) > 0 and (segments is None or slot.segment in segments):
                    copy = tensor_of(data, torch.float32 if slot.rule == b"sum" or slot.role == b"owner" else torch.uint8)
                    memory.setdefault(self.names[slot.segment], {})[slot_name(slot)] = copy
        return memory

    def make_reducer(self, net: telegrad.Network, memory: Kept, scale: float, step: int, seed: int, settings: Dict[str, Any],
                     device: Optional[torch.device] = None) -> None:
        """Create it, with what is remembered of its parameters, which is taken out of `memory`, at this loss scale."""
        gpu = None if device is None or device.type == "cpu" else device.index
        reducer = telegrad.Reducer(self.spec, self.n, net, segments=[shape or (1,) for shape in self.shapes], seed=seed, device=gpu,
                                   **settings)
        for slot, data in reducer.slots():
            name = self.names[slot.segment]
            kept = memory.take(name, slot, scale)
            if kept is None or (slot_name(slot).startswith(BUCKETS_OWN) and len(data) != view(kept).nbytes):
                continue
            if len(data) != view(kept).nbytes:
                raise MismatchError(f"load_state_dict: the state has {view(kept).nbytes} bytes of {slot_name(slot)} for the parameter "
                                    f"{name!r}, but this model needs {len(data)}: allowed: the state of the same model")
            data[:] = view(kept)
        for name in self.names:
            memory.drop_pieces(name)
        check(_c.tg_reducer_set_step(reducer.handle(), step))
        self.reducer = reducer

    def memory_of_tensors(self) -> Memory:
        """Without that of the whole bucket, which means nothing in another one."""
        return {name: {key: data for key, data in slots.items() if not key.startswith(BUCKETS_OWN)} for name, slots in self.memory().items()}

    def close(self) -> int:
        """Returns how many bytes it has sent."""
        reducer, self.reducer = self.reducer, None
        if reducer is None:
            return 0
        reducer.close()
        return reducer.bytes_sent


def slot_name(slot: _c.tg_reducer_slot) -> str:
    return f"{slot.role.decode()}/{slot.name.decode()}/{slot.at}"


def tensor_of(data: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A copy of bytes."""
    return torch.frombuffer(bytearray(data), dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)


def view(data: torch.Tensor) -> memoryview:
    """Its bytes, also where there is no NumPy."""
    data = data.detach().cpu().contiguous()
    memory: Any = bytearray()
    if data.numel() > 0:
        memory = (ctypes.c_char * (data.numel() * data.element_size())).from_address(data.data_ptr())
        memory.owner = data  # the bytes live as long as the tensor
    return memoryview(memory).cast("B")


def rescaled(data: torch.Tensor, factor: float) -> torch.Tensor:
    """What a slot holds, multiplied as tg_reducer_scale does."""
    return data if factor == 1 or data.dtype != torch.float32 else (data.double() * factor).float()


def inherited(states: Any, net: telegrad.Network, own: Dict[str, Any]) -> Dict[str, Any]:
    """The state of a hook that this rank goes on from: see states_of."""
    state = memory_of(states, net, own, ("step", "scale", "scales"), lambda name, key, data: data.dtype == torch.float32, view)
    return {**state, "memory": {name: {key: tensor_of(data) if isinstance(data, bytes) else data for key, data in slots.items()}
                                for name, slots in state["memory"].items()}}


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


def sent_by(parts: Sequence[Part]) -> int:
    """Bytes that their reducers have sent."""
    return sum(p.reducer.bytes_sent for p in parts if p.reducer is not None)


def ratio_of(parts: Sequence[Part]) -> float:
    """The gradient's size over that of its coded form in the last step."""
    reducers = [p.reducer for p in parts if p.reducer is not None]
    coded = sum(r.n / r.ratio for r in reducers if r.ratio > 0)
    return sum(r.n for r in reducers) / coded if coded else 0.0


def check_parameter(name: str, p: torch.Tensor) -> None:
    if p.requires_grad and p.dtype not in DTYPES:
        raise UnsupportedError(f"parameter {name}: its gradient is {str(p.dtype)[6:]}: allowed: float32, bfloat16, float16",
                               "TG_E_UNSUPPORTED")
    if p.requires_grad and p.device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"parameter {name}: it is on {p.device}: allowed so far: parameters on CUDA devices and in host memory (cpu)",
                               "TG_E_UNSUPPORTED")
