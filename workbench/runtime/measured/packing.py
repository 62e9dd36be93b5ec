"""Objects as bytes: protocol 5 of pickle, with the data of arrays and tensors beside the pickle."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class Packed(NamedTuple):
    """A pickle, and the buffers that belong to it, in order."""

    pieces: tuple[memoryview, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.nbytes for piece in self.pieces)


def pack(value: Any) -> Packed:
    """Pickle a value; its arrays and tensors are not copied, so they must not change until sent."""
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return Packed((file.getbuffer(), *(buffer.raw() for buffer in buffers)))


def unpack(pieces: Sequence[memoryview | bytearray]) -> Any:
    """Make the value again; its arrays and tensors use the memory of the pieces."""
    return pickle.loads(pieces[0], buffers=pieces[1:])


def dumps(value: Any) -> bytes:
    """Pickle in one piece; tensors that share memory still share it when they are loaded."""
    file = io.BytesIO()
    _SharingPickler(file, protocol=5).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Load what `dumps` made."""
    return pickle.loads(data)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles classes of a notebook by value, and of a tensor the elements that it shows.

    Arrays and tensors keep their strides, even those of axes of length 1, which pickle would
    change: kernels choose their way by them, and so round otherwise.
    """

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            return _reduce_array(obj)
        if isinstance(obj, BaseException) and type(obj).__reduce__ is BaseException.__reduce__:
            return _exception, (type(obj), obj.args, vars(obj))
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor and _is_plain(obj):
            return self.reduce_tensor(obj)
        return super().reducer_override(obj)

    def reduce_tensor(self, tensor: torch.Tensor) -> Any:
        import torch

        gaps = _span(tensor.shape, tensor.stride()) > tensor.numel()
        dense = tensor.contiguous() if gaps else tensor
        flat = dense.as_strided((_span(dense.shape, dense.stride()),), (1,)).view(torch.uint8)
        buffer = _buffer(flat.numpy())
        return _tensor, (buffer, dense.dtype, tuple(dense.shape), dense.stride())


class _SharingPickler(_Pickler):
    """Pickles the memory behind tensors once, however many are views of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._memories: dict[int, torch.Tensor] = {}  # by address

    def reduce_tensor(self, tensor: torch.Tensor) -> Any:
        import torch

        storage, layout = tensor.untyped_storage(), (tuple(tensor.shape), tensor.stride())
        memory = self._memories.get(storage.data_ptr())
        if memory is tensor:
            return _memory, (_buffer(tensor.numpy()),)
        if memory is None:
            memory = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._memories[storage.data_ptr()] = memory
        return _view, (memory, tensor.dtype, tensor.storage_offset(), *layout)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and str(tensor.layout) == "torch.strided"
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not (tensor.is_conj() or tensor.is_neg())
        and bool(tensor.numel())
    )


def _span(shape: Sequence[int], strides: Sequence[int], item: int = 1) -> int:
    """Elements from the first to the last in memory; strides are in units of 1 / `item`."""
    steps = zip(shape, strides, strict=True)
    return 1 + sum((length - 1) * (int(stride) // item) for length, stride in steps)


def _reduce_array(array: NDArray[Any]) -> Any:
    """How to pickle an array with its strides, or a copy of it where it has gaps."""
    if not array.nbytes:
        return np.zeros, (array.shape, array.dtype)
    item, dense = array.itemsize, array
    if any(stride < 0 or stride % item for stride in array.strides):
        dense = array.copy()
    elif _span(array.shape, array.strides, item) > array.size:
        dense = array.copy(order="K")
    dense.flags.writeable = array.flags.writeable
    flat = as_strided(dense, (_span(dense.shape, dense.strides, item),), (item,))
    buffer = _buffer(flat.view(np.uint8))
    return np.ndarray, (dense.shape, dense.dtype, buffer, 0, dense.strides)


def _buffer(array: Any) -> pickle.PickleBuffer:
    return pickle.PickleBuffer(array)


def _exception(kind: type[BaseException], args: Any, attributes: Any) -> BaseException:
    """An exception without its constructor, which may take something else than its `args`."""
    made = kind.__new__(kind, *args)
    vars(made).update(attributes)
    return made


def _tensor(
    data: Any, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    import torch

    return torch.frombuffer(data, dtype=dtype).as_strided(shape, stride)


def _memory(data: Any) -> torch.Tensor:
    import torch

    # A copy, in memory that PyTorch aligns as it always does: kernels round by alignment, too.
    return torch.frombuffer(data, dtype=torch.uint8).clone()


def _view(
    memory: torch.Tensor, dtype: torch.dtype, offset: int, *layout: tuple[int, ...]
) -> torch.Tensor:
    import torch

    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset, *layout)
