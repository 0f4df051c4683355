"""What the operations of graphs share: views, types, conditions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.strided import overlaps
from echo_npu.device import Device
from echo_npu.formats import FORMATS, named_format
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor

TYPES: Final[dict[str, np.dtype[Any]]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
}
"""The element types of a graph. bfloat16 is the bits, which the runtime takes for that type."""

FLOATS: Final = ("f32", "f16", "bf16")
NAMES: Final = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32"}
"""The runtime's names of the types that it converts."""


MOST_ITEM: Final = 1 << 16
"""Bytes of an element of a type that the device only moves."""


class UnsupportedError(Exception):
    """The device does not compute a node."""


class Emitter(ABC):
    """Where operations leave their commands.

    Attributes:
        device: it is recording.
        shared: what several nodes of a graph use, by a key of their choice.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.shared: dict[Any, Any] = {}

    @abstractmethod
    def content(self, tensor: GraphTensor) -> NDArray[np.uint8]:
        """Return the bytes that an input of the graph has now, from its first to its last one."""

    @abstractmethod
    def holds_while(self, condition: Callable[[Emitter], bool]) -> None:
        """Have the graph recorded again when the condition is false before a later run.

        It is given the emitter, and must not keep one: device memory would be freed only when Python collects
        the cycle.
        """

    @abstractmethod
    def moving(self, build: Callable[[Emitter], None], index: GraphTensor) -> None:
        """Build commands whose addresses follow from an index; they are built again when it changes.

        `build` is given the emitter, and must not keep one, as in `holds_while`.
        """

    @abstractmethod
    def check_size(self) -> None:
        """Raise ValueError once the graph has too many commands; operations with many of them ask between."""

    # --- views ----------------------------------------------------------------------------------------------

    def view(self, tensor: GraphTensor) -> DeviceTensor:
        """Return the tensor as four axes, the innermost last."""
        return self.strided(tensor, tensor.elements[::-1], tensor.steps[::-1])

    def strided(self, tensor: GraphTensor, shape: Sequence[int], strides: Sequence[int]) -> DeviceTensor:
        """Return other axes of the tensor's memory."""
        return DeviceTensor.borrow(
            self.device, tensor.address, tuple(shape), tuple(strides), dtype_of(tensor)
        )

    def single(self, value: DeviceTensor, name: str = "f32") -> DeviceTensor:
        """Return a value of type `name` as float32."""
        return value if name == "f32" else self.device.cast(value, "float32")

    def floats(self, tensor: GraphTensor) -> DeviceTensor:
        """Return the tensor as float32, converted if it has another type."""
        return self.single(self.view(tensor), tensor.type)

    def target(self, tensor: GraphTensor) -> DeviceTensor | None:
        """Return the tensor where an operation can write float32 directly, else None."""
        return self.view(tensor) if tensor.type == "f32" else None

    def finish(self, value: DeviceTensor, tensor: GraphTensor) -> None:
        """Convert a float32 result that was not written directly."""
        if tensor.type != "f32":
            self.device.cast(value, NAMES[tensor.type], out=self.view(tensor))


def dtype_of(tensor: GraphTensor) -> np.dtype[Any]:
    """Return the type of an element; of one that the device only moves, its bytes without a meaning."""
    return np.dtype((np.void, tensor.item)) if tensor.item else TYPES[tensor.type]


def whole_elements(tensor: GraphTensor) -> tuple[int, ...]:
    """Return the elements of the tensor that a tensor in blocks is a part of, or of that one itself."""
    return tensor.whole if any(tensor.whole) else tensor.elements


def extent(tensor: GraphTensor) -> int:
    """Return the bytes from the first to the last one of a tensor; in blocks, of the whole one."""
    if tensor.type in FORMATS:
        k, n, *more = whole_elements(tensor)
        return named_format(tensor.type).packed_bytes(n, k) * math.prod(more)
    size = dtype_of(tensor).itemsize
    return size + sum((n - 1) * s for n, s in zip(tensor.elements, tensor.steps, strict=True))


def start_of(tensor: GraphTensor) -> int:
    """Return where `extent` begins."""
    return tensor.address - tensor.offset if tensor.type in FORMATS else tensor.address


def require(condition: bool, message: str) -> None:
    """Raise UnsupportedError with a message unless the condition holds."""
    if not condition:
        raise UnsupportedError(message)


def first(node: GraphNode, index: int = 0) -> GraphTensor:
    """Return a source that must be there."""
    source = node.source(index)
    if source is None:
        raise UnsupportedError(f"{node.op} without its source {index}")
    return source


def same_shape(*tensors: GraphTensor) -> bool:
    """Return whether all have the same elements in each dimension."""
    return len({each.elements for each in tensors}) == 1


def contiguous(tensor: GraphTensor) -> bool:
    """Return whether the elements lie one after another, the innermost dimension first."""
    step = dtype_of(tensor).itemsize
    for count, stride in zip(tensor.elements, tensor.steps, strict=True):
        if count != 1 and stride != step:
            return False
        step *= count
    return True


def dense_rows(tensor: GraphTensor) -> bool:
    """Return whether the innermost dimension has no gaps."""
    return tensor.elements[0] == 1 or tensor.steps[0] == dtype_of(tensor).itemsize


def most_bytes(device: Device) -> int:
    """Return what the bytes of a tensor stay below: a region holds them, and strides have 32 bits."""
    return min(*(region.size for region in device.capabilities.memory.regions.values()), 1 << 32)


def check_tensors(device: Device, node: GraphNode) -> None:
    """Raise UnsupportedError for a tensor that no operation takes."""
    most = most_bytes(device)
    items: dict[str, int] = {}
    for tensor in (node.destination, *node.sources):
        if tensor is None or not all(tensor.elements):
            continue
        known = tensor.type in FORMATS or tensor.type in TYPES
        require(known == (tensor.item == 0) and tensor.item <= MOST_ITEM, f"the type {tensor.type}")
        require(items.setdefault(tensor.type, tensor.item) == tensor.item, "one type in two sizes")
        if tensor.type not in FORMATS:
            item = dtype_of(tensor).itemsize
            require(all(not step % item for step in tensor.steps), "a step of no whole elements")
            # Even if they repeat in memory: some operations make them dense.
            require(math.prod(tensor.elements) * item < most, "more elements than fit into memory")
        require(extent(tensor) < most, "a tensor larger than memory")
    if all(node.destination.elements):
        target = node.destination
        steps = list(zip(target.steps, target.elements, strict=True))
        if target.type in FORMATS:
            shared = any(count > 1 and not step for step, count in steps)
        else:
            shared = overlaps(dtype_of(target).itemsize, steps)
        require(not shared, "a result whose elements share bytes")


def check_places(device: Device, node: GraphNode) -> None:
    """Raise ValueError for a tensor that does not lie in a region of memory."""
    for tensor in (node.destination, *node.sources):
        if tensor is None or not all(tensor.elements):
            continue
        start = start_of(tensor)
        end = start + extent(tensor)
        regions = device.capabilities.memory.regions.values()
        if not any(each.base <= start and end <= each.base + each.size for each in regions):
            raise ValueError(f"{node.op}: a tensor from 0x{start:x} to 0x{end:x} does not lie in memory")
