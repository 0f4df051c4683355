"""Tensors that live on the device."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import EllipsisType
from typing import Any, Final, Protocol, SupportsIndex, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import DTypeLike, NDArray

from echo_npu import debug
from echo_npu.commands.integers import integer
from echo_npu.commands.strided import overlaps

IndexItem: TypeAlias = int | slice | EllipsisType | None


class TensorDevice(Protocol):
    """The methods of a device that tensors use. `Device` describes them."""

    @property
    def closed(self) -> bool: ...

    def malloc(self, nbytes: SupportsIndex, region: str = ...) -> int: ...

    def free(self, ptr: SupportsIndex) -> None: ...

    def free_later(self, address: int) -> None: ...

    def memcpy(
        self,
        dst: SupportsIndex | DeviceTensor | NDArray[Any] | bytes | bytearray | memoryview,
        src: SupportsIndex | DeviceTensor | NDArray[Any] | bytes | bytearray | memoryview,
        nbytes: SupportsIndex,
    ) -> None: ...

    def copy(self, src: Any, *, out: DeviceTensor | None = ...) -> Any: ...

    def tensor(self, values: Any) -> DeviceTensor: ...


class _Allocation:
    """An allocation that several views share; it is freed with the last of them."""

    def __init__(self, device: TensorDevice, ptr: int) -> None:
        self._device = weakref.ref(device)
        self._finalizer = weakref.finalize(self, _drop, self._device, ptr)
        self._finalizer.atexit = False
        self.ptr = ptr

    def free(self) -> None:
        device = self._device()
        if self._finalizer.detach() and device is not None and not device.closed:
            device.free(self.ptr)

    @property
    def alive(self) -> bool:
        return self._finalizer.alive


class _Borrowed:
    """Memory that belongs to somebody else, who keeps it allocated while views of it are used."""

    alive = True

    def free(self) -> None:
        pass


def _drop(device: weakref.ref[TensorDevice], ptr: int) -> None:
    target = device()
    if target is not None:
        target.free_later(ptr)


class DeviceTensor:
    """A strided array in device memory. Views share its bytes, which are freed with the last view.

    Attributes: device, ptr (physical address of the first element), shape, strides (bytes, none negative),
        dtype.
    """

    def __init__(
        self,
        device: TensorDevice,
        block: _Allocation | _Borrowed,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.device = device
        self._block = block
        self._ptr = ptr
        self.shape = shape
        self.strides = strides
        self.dtype = dtype

    @classmethod
    def allocate(
        cls, device: TensorDevice, shape: int | Sequence[int], dtype: np.dtype[Any], region: str
    ) -> DeviceTensor:
        """Return a new contiguous tensor with undefined content.

        Raises:
            ValueError: a dimension below 1.
            TypeError: a dimension that is no integer, or a dtype without a fixed size, e.g. objects.
            NpuOutOfMemoryError: the region has no room.
        """
        dims = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        sizes = tuple(integer("every size in shape", size) for size in dims)
        if any(size < 1 for size in sizes):
            raise ValueError(f"shape is {sizes}; every dimension of a device tensor is at least 1")
        if dtype.hasobject or not dtype.itemsize:
            raise TypeError(f"dtype is {dtype}; a device tensor holds plain numbers")
        strides = tuple(dtype.itemsize * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        ptr = device.malloc(dtype.itemsize * math.prod(sizes), region=region)
        return cls(device, _Allocation(device, ptr), ptr, sizes, strides, dtype)

    @classmethod
    def borrow(
        cls,
        device: TensorDevice,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> DeviceTensor:
        """Return a tensor over memory that belongs to the caller, who keeps it allocated; `free()` has no
        effect.

        Args:
            ptr: physical address of the first element.  strides: bytes, none negative.
        """
        return cls(device, _Borrowed(), ptr, shape, strides, dtype)

    @property
    def ptr(self) -> int:
        """Physical address of the first element; ValueError after `free()`."""
        if not self._block.alive:
            raise ValueError(f"a DeviceTensor of shape {self.shape} was used after free()")
        return self._ptr

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        step = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements share bytes: a broadcast, or windows that overlap.

        Also True of axes that interlace without sharing bytes, which views of one allocation never have.
        """
        return overlaps(self.dtype.itemsize, zip(self.strides, self.shape, strict=True))

    def __repr__(self) -> str:
        layout = f"shape={self.shape}, strides={self.strides}, dtype={self.dtype}"
        return f"DeviceTensor({layout}, ptr=0x{self._ptr:08x})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a DeviceTensor with no dimensions has no length")
        return self.shape[0]

    def free(self) -> None:
        """Give the memory back now; every view of it becomes unusable. Idempotent."""
        self._block.free()

    # --- views ----------------------------------------------------------------------------------------------

    def _view(self, what: str, *arguments: Any) -> DeviceTensor:
        offset, shape, strides = _changed(self.shape, self.strides, self.dtype, what, arguments)
        made = DeviceTensor(self.device, self._block, self.ptr + offset, shape, strides, self.dtype)
        debug.view(f"{what}: {self.shape} -> {shape}")
        return made

    def __getitem__(self, index: IndexItem | tuple[IndexItem, ...]) -> DeviceTensor:
        """Return a view, with numpy's rules for integers, slices, `...` and None; TypeError for others."""
        items = index if isinstance(index, tuple) else (index,)
        for item in items:
            known = item is None or item is Ellipsis or isinstance(item, (slice, int, np.integer))
            if not known or isinstance(item, bool):  # numpy takes a bool for a mask, which copies
                raise TypeError(
                    f"a DeviceTensor is indexed with integers, slices, ... and None, not {item!r}"
                )
        return self._view("index", *(_index_key(item) for item in items))

    def reshape(self, *shape: int) -> DeviceTensor:
        """Return a view of another shape; ValueError if the strides do not allow one (`contiguous()`
        first)."""
        try:
            return self._view("reshape", *shape)
        except ValueError as error:
            raise ValueError(
                f"cannot view shape {self.shape}, strides {self.strides} as {shape}: {error}"
            ) from None

    def transpose(self, *axes: int) -> DeviceTensor:
        """Return a view with permuted axes (none given: reversed)."""
        return self._view("transpose", *axes)

    def swapaxes(self, first: int, second: int) -> DeviceTensor:
        """Return a view with two axes exchanged."""
        return self._view("swapaxes", first, second)

    def unfold(self, axis: int, size: int, step: int = 1) -> DeviceTensor:
        """Return a view of windows: `axis` (not negative) counts them, and a new last axis has their
        elements.

        They have `size` elements and start `step` elements apart. ValueError if there is no whole window. The
        name is PyTorch's.
        """
        return self._view("unfold", axis, size, step)

    def broadcast_to(self, *shape: int) -> DeviceTensor:
        """Return a read-only view of a larger shape, with numpy's rules; repeated axes have stride 0."""
        return self._view("broadcast_to", *shape)

    def view(self, dtype: DTypeLike) -> DeviceTensor:
        """Return the same bytes as elements of another type, as numpy's `view`.

        With a size of elements that differs, the last axis is dense and has elements for as many bytes.

        Raises: TypeError, ValueError: numpy has no such view.
        """
        made = np.dtype(dtype)
        changed = as_strided(np.empty(1, self.dtype), self.shape, self.strides).view(made)
        debug.view(f"view: {self.shape} of {self.dtype} -> {changed.shape} of {made}")
        return DeviceTensor(self.device, self._block, self.ptr, changed.shape, changed.strides, made)

    @property
    def T(self) -> DeviceTensor:  # noqa: N802  (numpy's name)
        return self.transpose()

    # --- content --------------------------------------------------------------------------------------------

    def contiguous(self) -> DeviceTensor:
        """Return this tensor if it is contiguous, else a contiguous copy that the device makes."""
        if self.is_contiguous:
            return self
        copied = self.device.copy(self)
        assert isinstance(copied, DeviceTensor)
        return copied

    def to_numpy(self) -> NDArray[Any]:
        """Return the content as a new contiguous numpy array."""
        extent = self.dtype.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        raw = np.empty(extent, dtype=np.uint8)
        self.device.memcpy(raw, self.ptr, extent)
        window = np.ndarray(self.shape, self.dtype, raw, strides=self.strides)
        return np.ascontiguousarray(window).reshape(self.shape)

    def to(self, device: TensorDevice) -> DeviceTensor:
        """Return this tensor if it is on `device`, else a contiguous copy there, with the same bits.

        The bytes go through the host. NpuOutOfMemoryError: the activation region there has no room.
        """
        return self if device is self.device else device.tensor(self.to_numpy())

    def copy_from(self, values: NDArray[Any]) -> None:
        """Write a numpy array into this tensor; ValueError or TypeError for another shape or dtype."""
        if values.shape != self.shape:
            raise ValueError(f"values have shape {values.shape}, the tensor has {self.shape}")
        if values.dtype != self.dtype:
            raise TypeError(f"values are {values.dtype}, the tensor is {self.dtype}")
        if self.is_contiguous:
            self.device.memcpy(self, np.ascontiguousarray(values), self.nbytes)
        else:
            self.device.copy(self.device.tensor(values), out=self)


# --- the shapes and strides of views ------------------------------------------------------------------------


def _index_key(item: IndexItem) -> Any:
    """Return an index item as something that has a hash, which slices have not."""
    return (item.start, item.stop, item.step) if isinstance(item, slice) else item


def _index(shadow: NDArray[Any], *keys: Any) -> NDArray[Any]:
    items = [slice(*key) if isinstance(key, tuple) else key for key in keys]
    return shadow[tuple(items) if Ellipsis in items else (*items, Ellipsis)]


def _unfold(shadow: NDArray[Any], axis: int, size: int, step: int) -> NDArray[Any]:
    return sliding_window_view(shadow, size, axis)[(*(slice(None),) * axis, slice(None, None, step))]


_CHANGES: Final[dict[str, Callable[..., NDArray[Any]]]] = {
    "index": _index,
    "reshape": lambda shadow, *shape: np.reshape(shadow, shape, copy=False),
    "transpose": lambda shadow, *axes: shadow.transpose(*axes),
    "swapaxes": lambda shadow, first, second: shadow.swapaxes(first, second),
    "unfold": _unfold,
    "broadcast_to": lambda shadow, *shape: np.broadcast_to(shadow, shape),
}


@lru_cache(maxsize=1 << 14)
def _changed(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    what: str,
    arguments: tuple[Any, ...],
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the offset (bytes), the shape and the strides of a view."""
    # numpy works them out, on an array over a single element that is never read.
    shadow = as_strided(np.empty(1, dtype), shape, strides)
    changed = _CHANGES[what](shadow, *arguments)
    offset = changed.__array_interface__["data"][0] - shadow.__array_interface__["data"][0]
    if any(stride < 0 for stride in changed.strides) or 0 in changed.shape:
        raise ValueError(f"{what} of shape {shape}: a device view has no negative strides and is not empty")
    return offset, changed.shape, changed.strides
