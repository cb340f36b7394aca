"""Compressed averaging of one array."""
import ctypes
import os
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from telegrad import _c
from telegrad._arrays import address, stream_of
from telegrad._checks import check_settings, check_text, check_whole
from telegrad._errors import ArgumentError, Error, MismatchError, StateError, check
from telegrad._network import Network, check_network
from telegrad._takeover import memory_of, piece

Shape = Sequence[int]
_SHORT_S = 1e-4  # a wait that is over sooner is not worth a thread


class Operation:
    """A mean under way (`Reducer.start_`).

    >>> import array, telegrad
    >>> reducer = telegrad.Reducer("dense", 2, telegrad.Network.local(1)[0])
    >>> operation = reducer.start_(array.array("f", [1, 2]))
    >>> operation.wait(), operation.done()
    (array('f', [1.0, 2.0]), True)
    """

    def __init__(self, reducer: "Reducer", array: Any, keep: Any) -> None:
        self._reducer: Optional[Reducer] = reducer
        self._array, self._keep = array, keep

    def done(self) -> bool:
        """Whether it is finished, without waiting for it. Raises what `wait` would raise."""
        reducer = self._reducer
        if reducer is not None:
            with reducer._lock:
                finished = ctypes.c_bool(False)
                status = _c.tg_reducer_test(reducer.handle(), ctypes.byref(finished))
                if status != _c.TG_OK or finished.value:
                    self._end(reducer, status)
        return self._reducer is None

    def wait(self) -> Any:
        """Wait until the array holds the mean, and return the array. Raises what `Reducer.mean_` raises."""
        reducer = self._reducer
        if reducer is not None:
            with reducer._lock:
                try:
                    reducer._wait()
                except Error:
                    self._end(reducer, _c.TG_OK)
                    raise
                self._end(reducer, _c.TG_OK)
        return self._array

    def _end(self, reducer: "Reducer", status: int) -> None:
        reducer._operation = None
        self._reducer = self._keep = None
        check(status)


class Reducer:
    """The mean over ranks of an array, sent in compressed form. What a rank does not send it remembers, and sends later.

    spec             a method with its settings: "topk:density=0.01", "dgc:density=0.001", "qsgd:bits=4", "powersgd:rank=2",
                     "dense", ...; docs/methods.md lists them
    n                elements of the array
    net              the ranks. All create their reducers alike, and in the same order
    segments         shapes of the tensors that lie side by side in the array, for methods that work on matrices or single
                     tensors (powersgd, terngrad, ...); None: one vector
    seed             of random numbers; the same on all ranks
    total_steps      planned length of the run, which limits default warm-ups; 0: unknown
    steps_per_epoch  for settings in epochs ("warmup=4ep"); 0: unknown
    timeout          seconds to wait for a message of another rank. A rank that dies is noticed at once, so this is for ranks that
                     are slow, or cannot be reached any more. In the main thread, waits of 10 s and more are logged
                     (`logging.getLogger("telegrad")`)
    threads          cores for encoding and decoding
    device           the number of the CUDA device in whose memory the arrays are; None: host memory. Ranks may differ in it: the bits
                     are the same

    Arrays are NumPy arrays, PyTorch tensors in host memory, and whatever has the buffer protocol or DLPack: C-contiguous, of
    float32, float16 or bfloat16. No call copies one of float32; those of 16 bits are widened, and their mean is rounded. What
    is sent depends on the method alone. While C works, other Python threads run. One thread at a time may use a reducer.

    >>> import array, telegrad
    >>> net = telegrad.Network.local(1)[0]
    >>> reducer = telegrad.Reducer("topk:density=0.5", 4, net)
    >>> reducer.mean_(array.array("f", [1, -4, 3, 2]))  # the largest two; the others are sent later
    array('f', [0.0, -4.0, 3.0, 0.0])
    >>> reducer.mean_(array.array("f", [0, 0, 0, 0]))
    array('f', [1.0, 0.0, 0.0, 2.0])
    """

    def __init__(self, spec: str, n: int, net: Network, *, segments: Optional[Sequence[Shape]] = None, seed: int = 0,
                 total_steps: int = 0, steps_per_epoch: int = 0, timeout: float = 600, threads: int = 1,
                 device: Optional[int] = None) -> None:
        self._handle: Optional[int] = None
        self._operation: Optional[Operation] = None
        self._uses: object = None  # what C reads and writes in the operation under way
        self._last = (0, 0.0)  # bytes_sent and ratio when it was closed
        self._pid = os.getpid()
        self._lock = threading.RLock()  # so that no thread frees what another one waits for
        text = check_text("spec", spec)
        check_whole("n", n, 1)
        check_network(net)
        check_settings(seed, total_steps, steps_per_epoch, timeout, threads)
        self.spec, self.n, self.net = spec, n, net
        if device is not None:
            check_whole("device", device, 0)
            check(_c.tg_cuda_attach())
        self._gpu = -1 if device is None else device
        cut = _segments(segments) if segments is not None else None
        config = _c.tg_reducer_config(struct_size=ctypes.sizeof(_c.tg_reducer_config), seed=seed, steps_per_epoch=steps_per_epoch,
                                      timeout_ms=max(1, round(timeout * 1000)), codec_threads=threads, total_steps=total_steps,
                                      stop=ctypes.addressof(net._stop), memory=_c.TG_HOST if device is None else _c.TG_CUDA,
                                      device=device or 0)
        if cut is not None:
            config.segments, config.nsegments = ctypes.addressof(cut), len(cut)
        handle = ctypes.c_void_p()
        where = net.handle()
        net._wait(lambda uses=cut: check(  # type: ignore[misc]
            _c.tg_reducer_create(text, where, n, ctypes.byref(config), ctypes.byref(handle))))
        assert handle.value is not None
        self._handle = handle.value
        net._handles[handle.value] = _c.tg_reducer_destroy
        net._reducers.add(self)

    def handle(self) -> int:
        """The `tg_reducer *`, for calls of `telegrad._c`."""
        if self._handle is None:
            raise StateError("the reducer is closed")
        return self._handle

    def mean_(self, array: Any) -> Any:
        """Replace the array's values by their mean over all ranks, the same bits on each. Returns the array.

        Raises  NonFiniteError: on all ranks, if a value on any of them is not finite. The array and the memory are as they
                were, and the next call may follow. PeerError, CorruptError, StoppedError: final. ArgumentError,
                UnsupportedError: nothing was sent
        """
        where, dtype, keep = address("array", array, self.n, self._gpu)
        with self._lock:
            check(self._start(where, dtype, stream_of(array, self._gpu) if self._gpu >= 0 else 0))
            self._uses = array, keep
            self._wait()
        return array

    def _wait(self) -> None:
        """Until the operation under way is finished. If a signal's handler raises meanwhile, this rank's part in the job ends."""
        handle, finished, uses = self.handle(), ctypes.c_bool(False), self._uses
        in_main = threading.current_thread() is threading.main_thread()  # others wait inside of C
        until = time.perf_counter() + _SHORT_S
        try:
            try:
                while in_main and not finished.value and time.perf_counter() < until:
                    check(_c.tg_reducer_test(handle, ctypes.byref(finished)))
            except BaseException as error:
                if not isinstance(error, Error):  # of a signal's handler: C is still at work
                    self.net.stop()
                raise
            if not finished.value:
                self.net._wait(lambda uses=uses: check(_c.tg_reducer_wait(handle)), handle)  # type: ignore[misc]
        except Error:  # C is done with them, or the call holds them
            self._uses = None
            raise
        self._uses = None

    def _start(self, where: int, dtype: int, stream: int) -> int:
        """Begin the mean of what lies there. stream: on a GPU, by which it is valid, and by which the mean will be."""
        x = _c.tg_array(struct_size=ctypes.sizeof(_c.tg_array), data=where, n=self.n, dtype=dtype,
                        memory=_c.TG_HOST if self._gpu < 0 else _c.TG_CUDA, device=max(self._gpu, 0), stream=stream or None)
        return int(_c.tg_reducer_start_array(self.handle(), ctypes.byref(x), ctypes.byref(x), None, None))

    def start_(self, array: Any) -> Operation:
        """Begin the same, and return while it is under way. Do not touch the array until the operation is done. A reducer
        has one operation at a time."""
        where, dtype, keep = address("array", array, self.n, self._gpu)
        with self._lock:
            check(self._start(where, dtype, stream_of(array, self._gpu) if self._gpu >= 0 else 0))
            self._uses = array, keep
            self._operation = Operation(self, array, keep)
            return self._operation

    def undo(self) -> None:
        """Take back the last mean, because it was not used: what this rank sent of it returns to its memory. All ranks do
        so, or none."""
        check(_c.tg_reducer_undo(self.handle()))

    @property
    def step(self) -> int:
        """Means begun so far; warm-ups depend on it."""
        return int(_c.tg_reducer_step(self._handle))

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has handed to the network since the reducer was created."""
        return self._last[0] if self._handle is None else int(_c.tg_reducer_bytes_sent(self._handle))

    @property
    def ratio(self) -> float:
        """Size of the array over that of what was last sent of it."""
        return self._last[1] if self._handle is None else float(_c.tg_reducer_ratio(self._handle))

    def slots(self) -> Iterator[Tuple[_c.tg_reducer_slot, memoryview]]:
        """The memory, part by part: a description (telegrad/reducer.h) and the bytes, which may be read and written until
        the next mean begins."""
        for i in range(int(_c.tg_reducer_slot_count(self.handle()))):
            slot = _c.tg_reducer_slot(struct_size=ctypes.sizeof(_c.tg_reducer_slot))
            check(_c.tg_reducer_slot_get(self.handle(), i, ctypes.byref(slot)))
            memory: Any = bytearray()
            if slot.bytes:
                memory = (ctypes.c_char * slot.bytes).from_address(slot.data or 0)
                memory.owner = self  # the bytes live as long as the reducer
            yield slot, memoryview(memory).cast("B")

    def state_dict(self) -> Dict[str, Any]:
        """A copy of the memory of this rank: strings, numbers and bytes. A reducer that is created with the same arguments
        and loads it continues with the same bits. Each rank saves its own."""
        memory: Dict[int, Dict[str, bytes]] = {}
        for slot, data in self.slots():
            memory.setdefault(slot.segment, {})[_slot_name(slot)] = bytes(data)
        return {**self._own(), "rank": self.net.rank, "size": self.net.size, "step": self.step, "memory": memory}

    def load_state_dict(self, state: Any) -> None:
        """Continue from the `state_dict` of this rank: with the same bits. In a job with another number of ranks, give each rank a
        list (or another iterable) of what all old ranks saved, in order of ranks: what was not yet sent is divided anew, so that its
        mean over the ranks stays.

        Raises  MismatchError: it is of another rank, method or size, or some of the old ranks' are missing. Nothing has changed then
        """
        slots = list(self.slots())
        vectors = {(slot.segment, _slot_name(slot)) for slot, _ in slots if slot.rule == b"sum"}
        state = memory_of(state, self.net, self._own(), ("step",), lambda segment, name, data: (segment, name) in vectors, memoryview)
        memory = state["memory"]
        taken: List[Tuple[memoryview, Optional[bytes]]] = []
        for slot, data in slots:
            own = memory.get(slot.segment, {})
            taken.append((data, piece(own, slot.name.decode(), 4 * slot.at, slot.bytes, memoryview) if slot.role == b"owner"
                          else own.pop(_slot_name(slot), None)))
        if (any(kept is None or len(kept) != len(data) for data, kept in taken) or
                any(not name.startswith("owner/") for own in memory.values() for name in own)):
            raise MismatchError("load_state_dict: the memory in the state has other parts than this reducer's: allowed: the state "
                                "of a reducer that was created with the same arguments")
        for data, kept in taken:
            data[:] = kept or b""
        check(_c.tg_reducer_set_step(self.handle(), int(state["step"])))

    def _own(self) -> Dict[str, Any]:
        return {"version": 2, "spec": self.spec, "n": self.n}

    def close(self) -> None:
        """Free the reducer. An operation under way is lost, and ends the network for all ranks. If another thread waits for
        it, this waits for that thread (see `Network.stop`)."""
        if self._handle is None or os.getpid() != self._pid:
            return
        with self._lock:
            if self._handle in self.net._handles:
                self._last = (self.bytes_sent, self.ratio)
            handle, self._handle = self._handle, None
            self._operation = None
            self.net._free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def _segments(shapes: Sequence[Shape]) -> "ctypes.Array[_c.tg_segment]":
    cut: List[_c.tg_segment] = []
    begin = 0
    if not isinstance(shapes, Sequence):
        raise ArgumentError(f"segments: a {type(shapes).__name__}: allowed: a list of shapes, such as [(512, 256), (512,)]")
    for i, shape in enumerate(shapes):
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise ArgumentError(f"segments[{i}]: a {type(shape).__name__}: allowed: a shape, such as (512, 256)")
        count = 1
        for side in shape:
            check_whole(f"segments[{i}]: a side", side, 1)
            count *= side
        rows = shape[0] if len(shape) > 1 else count
        cut.append(_c.tg_segment(begin=begin, n=count, rows=rows, cols=count // rows if rows else 0, dims=len(shape)))
        begin += count
    return (_c.tg_segment * len(cut))(*cut)


def _slot_name(slot: _c.tg_reducer_slot) -> str:
    return f"{slot.role.decode()}/{slot.name.decode()}/{slot.at}"
