# SPDX-License-Identifier: MIT
"""Owns arrays on their way in and out: the mapping between NumPy's types and the library's, which arrays are used directly
and which are converted, and memory of other libraries through DLPack. Values that would change are refused: fractions and
numbers out of range for integers. bfloat16, which NumPy lacks, is represented by its 16 bits (or by ml_dtypes' type)."""
from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ._propane import lib
from .error import invalid

_CODES = {
    np.dtype(np.float16): lib.PROPANE_FP16,
    np.dtype(np.float32): lib.PROPANE_FP32,
    np.dtype(np.int32): lib.PROPANE_INT32,
    np.dtype(np.bool_): lib.PROPANE_BOOL,
    np.dtype(np.int8): lib.PROPANE_INT8,
    np.dtype(np.uint8): lib.PROPANE_UINT8,
    np.dtype(np.int16): lib.PROPANE_INT16,
    np.dtype(np.uint16): lib.PROPANE_UINT16,
}
_TYPES = {code: dtype for dtype, code in _CODES.items()}
_FLOATS = (lib.PROPANE_FP16, lib.PROPANE_FP32, lib.PROPANE_BF16)
NAMES = {lib.PROPANE_FP16: "float16", lib.PROPANE_FP32: "float32", lib.PROPANE_INT32: "int32", lib.PROPANE_BOOL: "bool",
         lib.PROPANE_INT8: "int8", lib.PROPANE_UINT8: "uint8", lib.PROPANE_INT16: "int16", lib.PROPANE_UINT16: "uint16",
         lib.PROPANE_BF16: "bfloat16", lib.PROPANE_DTYPE_NONE: "none"}

Array = Any  # np.ndarray of any type


def dtype_of(code: int) -> Any:
    """Returns the NumPy type of an element type; for bfloat16, ml_dtypes' type if that package is installed, otherwise its
    bits."""
    if code == lib.PROPANE_BF16:
        try:
            import ml_dtypes
            return np.dtype(ml_dtypes.bfloat16)
        except ImportError:
            return np.dtype(np.uint16)
    return _TYPES[code]


def empty(shape: Tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Returns an uninitialized array aligned to 64 bytes. Any dense NumPy array of 1 MB or more with the input's type is
    read in place if it is aligned; this one always is."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size].view(dtype).reshape(shape)


# ---- DLPack ------------------------------------------------------------------------------------------------------------------

def _bfloat16_bits(value: Any) -> Any:
    """Returns the bits of a bfloat16 array from another library without a copy, or None for any other array. NumPy's own
    from_dlpack does not support the type."""
    import ctypes

    class Tensor(ctypes.Structure):  # DLPack's DLTensor
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                    ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                    ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]

    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(pointer(capsule, b"dltensor"))
    if (tensor.code, tensor.bits, tensor.lanes, tensor.device_type) != (4, 16, 1, 1):
        return None
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    strides = tuple(2 * tensor.strides[d] for d in range(tensor.ndim)) if tensor.strides else None

    class Owner:  # the capsule is not consumed: it frees the tensor when the array is gone
        __array_interface__ = {"version": 3, "typestr": "<u2", "shape": shape, "strides": strides,
                               "data": (tensor.data + tensor.byte_offset, True)}
        keep = capsule
    return np.asarray(Owner())


def take(value: Any) -> Tuple[Array, int]:
    """Returns anything array-like as a NumPy array, which shares its memory if possible, and its element type (negative if
    the library does not support it)."""
    if not isinstance(value, np.ndarray):
        if hasattr(value, "detach"):
            value = value.detach()
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            try:
                value = np.from_dlpack(value)
            except (BufferError, RuntimeError, TypeError, ValueError):
                bits = _bfloat16_bits(value)
                if bits is None:
                    raise
                return bits, lib.PROPANE_BF16
        else:
            value = np.asarray(value)
    code = _CODES.get(value.dtype)
    if code is None:
        if value.dtype.name == "bfloat16":
            return value.view(np.uint16), lib.PROPANE_BF16
        return value, lib.PROPANE_DTYPE_NONE
    return value, code


def fit(value: Any, name: str, shape: Tuple[int, ...], code: int) -> Tuple[Array, int]:
    """Returns the array in the form that an input of this shape and element type needs: dense, and of a type that the
    library converts. A single number fits any input with one element."""
    array, given = take(value)
    if array.shape != shape:
        if array.size != 1 or int(np.prod(shape)) != 1:
            raise invalid(f"'{name}' has the shape {list(array.shape)}; the input takes {list(shape)}")
        array = array.reshape(shape)
    if given != code and (given < 0 or code not in _FLOATS or given not in _FLOATS):
        array, given = _convert(array, given, name, code)
    return np.ascontiguousarray(array).reshape(shape), given


def _convert(array: Array, given: int, name: str, code: int) -> Tuple[Array, int]:
    if given == lib.PROPANE_BF16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    if array.dtype.kind not in "biuf":
        raise invalid(f"'{name}' has element type {array.dtype}, but the input needs {NAMES[code]}")
    if code == lib.PROPANE_BF16:
        return array.astype(np.float32), lib.PROPANE_FP32
    to: Any = _TYPES[code]
    if to.kind in "iub" and array.dtype.kind != "b" and array.size:
        low, high = (0, 1) if to.kind == "b" else (np.iinfo(to).min, np.iinfo(to).max)
        if array.dtype.kind == "f" and not bool((array == np.floor(array)).all()):
            raise invalid(f"'{name}' has fractions or NaN, but the input needs integers ({NAMES[code]})")
        if array.min() < low or array.max() > high:
            raise invalid(f"'{name}' has values in {array.min()}..{array.max()}; {NAMES[code]} holds {low}..{high}")
    with np.errstate(over="ignore"):
        return array.astype(to), code
