"""Where an array's numbers lie, and of which type they are: NumPy arrays, PyTorch tensors, whatever has the buffer protocol or DLPack."""
import contextlib
import ctypes
import sys
from typing import Any, Callable, Dict, Tuple

from telegrad import _c
from telegrad._errors import ArgumentError, UnsupportedError

_CPU = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost, kDLROCMHost
_CUDA = 2  # kDLCUDA
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
_KINDS = {0: "int", 1: "uint", 2: "float", 3: "opaque", 4: "bfloat", 5: "complex", 6: "bool"}
_TAKEN = {"f": (_c.TG_F32, 4), "e": (_c.TG_F16, 2)}  # tg_dtype and bytes: formats of the buffer protocol ...
_TAKEN_DLPACK = {(2, 32): _c.TG_F32, (2, 16): _c.TG_F16, (4, 16): _c.TG_BF16}  # ... and DLPack's codes and bits
_FORMATS: Dict[str, str] = {"d": "float64", "g": "long double", "Zf": "complex64", "Zd": "complex128", "i": "int32",
                            "l": "int64", "q": "int64", "B": "uint8", "b": "int8", "h": "int16", "?": "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _wrong_type(what: str, found: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: elements are {found}: allowed: float32, float16, bfloat16 (convert the array first)", "TG_E_UNSUPPORTED")


def _scattered(what: str) -> ArgumentError:
    return ArgumentError(f"{what}: its elements do not lie side by side: allowed: a C-contiguous array (make a copy first)")


def _by_buffer(what: str, array: Any) -> Tuple[int, int, int, Any]:
    view = memoryview(array)
    dtype, size = _TAKEN.get(view.format.lstrip("<=@"), (-1, 0))
    if dtype < 0:
        raise _wrong_type(what, _FORMATS.get(view.format.lstrip("<=@"), f'of the format "{view.format}"'))
    if view.readonly:
        raise ArgumentError(f"{what}: it is read-only: allowed: an array that may be overwritten with the mean")
    if not view.c_contiguous:
        raise _scattered(what)
    count = view.nbytes // size
    if count == 0:
        return 0, 0, dtype, view
    memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(memory), count, dtype, memory


def _asked(what: str, question: Callable[[], Any]) -> Any:
    """What an array answers by DLPack. PyTorch refuses sparse tensors there, and those without memory."""
    try:
        return question()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"{what}: it cannot be used by DLPack: {error}", "TG_E_UNSUPPORTED") from error


def _check_place(what: str, array: Any, gpu: int) -> None:
    """gpu  -1: it must be in host memory"""
    device = getattr(array, "__dlpack_device__", None)
    kind, number = (int(v) for v in _asked(what, device)) if device is not None else (1, 0)
    if gpu < 0 and kind not in _CPU:
        raise UnsupportedError(f"{what}: it is in the memory of a device ({_DEVICES.get(kind, kind)}): allowed: host memory "
                               f"({'create the reducer with device=' + str(number) if kind == _CUDA else 'copy the array there first'})",
                               "TG_E_UNSUPPORTED")
    if gpu >= 0 and (kind != _CUDA or number != gpu):
        place = "host memory" if kind in _CPU else f"{_DEVICES.get(kind, kind)} device {number}"
        raise ArgumentError(f"{what}: it is in {place}: allowed: the memory of CUDA device {gpu}, as the reducer was created for")


def stream_of(array: Any, gpu: int) -> int:
    """The cudaStream_t on which the caller works with the array: PyTorch's current stream, else the default one."""
    torch = _torch_of(array)
    return 0 if torch is None else int(torch.cuda.current_stream(gpu).cuda_stream)


def _torch_of(array: Any) -> Any:
    """PyTorch, if the array is a tensor of it."""
    torch: Any = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


def _by_dlpack(what: str, array: Any, gpu: int) -> Tuple[int, int, int, Any]:
    _check_place(what, array, gpu)

    def export() -> Any:
        if gpu < 0:
            return array.__dlpack__()
        torch = _torch_of(array)
        with contextlib.nullcontext() if torch is None else torch.cuda.device(gpu):  # PyTorch exports from the current device
            return array.__dlpack__(stream=stream_of(array, gpu) or 1)  # DLPack's number of the default stream is 1
    if getattr(array, "requires_grad", False):
        raise ArgumentError(f"{what}: it requires a gradient: allowed: its detached values (array.detach())")
    capsule = _asked(what, export)
    tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    dtype = _TAKEN_DLPACK.get((tensor.code, tensor.bits), -1)
    if dtype < 0 or tensor.lanes != 1:
        raise _wrong_type(what, f"{_KINDS.get(tensor.code, '?')}{tensor.bits}")
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] != 1 and tensor.strides[axis] != count:
            raise _scattered(what)
        count *= tensor.shape[axis]
    return (tensor.data or 0) + tensor.byte_offset, count, dtype, capsule


def address(what: str, array: Any, n: int, gpu: int = -1) -> Tuple[int, int, Any]:
    """Address of an array of n elements, their tg_dtype, and what must be kept as long as the address is used.

    what  names the array in errors
    gpu   the CUDA device that it must be on; -1: host memory
    """
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array_interface__"):
        where, count, dtype, keep = _by_dlpack(what, array, gpu)
    elif gpu >= 0:
        raise ArgumentError(f"{what}: a {type(array).__name__} in host memory: allowed: an array in the memory of CUDA device {gpu} "
                            "that has DLPack (PyTorch, CuPy, JAX)")
    else:
        try:
            memoryview(array)
        except TypeError:
            raise ArgumentError(f"{what}: a {type(array).__name__}: allowed: a NumPy array, a PyTorch tensor, or what has the buffer "
                                "protocol or DLPack") from None
        where, count, dtype, keep = _by_buffer(what, array)
    if count != n:
        raise ArgumentError(f"{what}: it has {count} elements: allowed: {n}, as the reducer was created for")
    return where, dtype, keep
