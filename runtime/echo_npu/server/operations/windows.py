"""PAD, IM2COL, POOL_2D."""

import math
from dataclasses import dataclass

from echo_npu.device import Device
from echo_npu.ops.shape import fill_commands
from echo_npu.server.operations.base import (
    FLOATS,
    NAMES,
    Emitter,
    contiguous,
    first,
    require,
)
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor

MAXIMUM, AVERAGE = 0, 1
"""Kinds of pooling, as ggml numbers them."""

MOST_TAPS = 1 << 12
"""POOL_2D takes a command for each element of its window, IM2COL for each row of it."""

LEAST = -3.4028234663852886e38
"""The least finite float32, which ggml's maximum starts from."""


def _padded(
    device: Device, x: DeviceTensor, before: tuple[int, ...], after: tuple[int, ...], value: float
) -> DeviceTensor:
    """Return a copy of x inside a border of one value."""
    if not any((*before, *after)):
        return x
    shape = tuple(n + low + high for n, low, high in zip(x.shape, before, after, strict=True))
    made = device.full(shape, value)
    inner = made[tuple(slice(low, low + n) for n, low in zip(x.shape, before, strict=True))]
    device.copy(x, out=inner)
    return made


def check_pad(device: Device, node: GraphNode) -> None:
    """Take float32 and add zeros on all sides."""
    source, target = first(node), node.destination
    require(source.type == target.type == "f32", "a type that is not float32")
    require(not node.integer(8), "a border that repeats the tensor")
    sides = [node.integer(index) for index in range(8)]
    require(min(sides) >= 0 and all(source.elements), "a negative border")
    wanted = tuple(n + sides[2 * axis] + sides[2 * axis + 1] for axis, n in enumerate(source.elements))
    require(wanted == target.elements and contiguous(target), "a result of another form")


def emit_pad(emitter: Emitter, node: GraphNode) -> None:
    """Fill with zeros and copy the tensor inside."""
    source, target = emitter.view(first(node)), emitter.view(node.destination)
    emitter.device.execute(fill_commands(emitter.device, target, 0.0))
    before = [node.integer(2 * axis) for axis in range(3, -1, -1)]
    places = tuple(slice(low, low + n) for n, low in zip(source.shape, before, strict=True))
    emitter.device.copy(source, out=target[places])


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """How windows lie in an image; down, then across."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    step: tuple[int, int]

    @classmethod
    def of(cls, node: GraphNode) -> "ImageWindows":
        """Read them from an IM2COL; in one dimension images have a height of 1."""
        across = [node.integer(index) for index in (0, 2, 4)]
        down = [node.integer(index) for index in (1, 3, 5)] if node.integer(6) else [1, 0, 1]
        width, height = first(node).elements[:2]
        stride, pad, step = zip(down, across, strict=True)
        return cls((height if node.integer(6) else 1, width), stride, pad, step)

    def count(self, axis: int, size: int) -> int:
        """Return the number of windows along an axis of so many elements."""
        reach = self.step[axis] * (self.kernel[axis] - 1) + 1
        return (size + 2 * self.pad[axis] - reach) // self.stride[axis] + 1


def _images(tensor: GraphTensor, node: GraphNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of the images, [count, channels, height, width]."""
    shape, strides = tensor.elements[::-1], tensor.steps[::-1]
    if node.integer(6):
        return shape, strides
    return (shape[1], shape[2], 1, shape[3]), (strides[1], strides[2], 0, strides[3])


def check_im2col(device: Device, node: GraphNode) -> None:
    """Take images [width, height, channels, count], or rows [width, channels, count]."""
    images, target = first(node, 1), node.destination
    require(images.type in FLOATS and target.type in FLOATS, "a type that is no float")
    require(contiguous(target) and all((*first(node).elements, *images.elements)), "a result with gaps")
    windows = ImageWindows.of(node)
    require(min(windows.stride) > 0 and min(windows.pad) >= 0 and min(windows.step) > 0, "such a window")
    require(bool(node.integer(6)) or images.elements[3] == 1, "more than rows")
    require(windows.kernel[0] <= MOST_TAPS, "a large window")
    (count, channels, height, width), _ = _images(images, node)
    rows, columns = windows.count(0, height), windows.count(1, width)
    wanted = (channels * math.prod(windows.kernel), columns, rows, count)
    if not node.integer(6):
        wanted = (wanted[0], columns, count, 1)
    require(target.elements == wanted, "a result of another shape")


def emit_im2col(emitter: Emitter, node: GraphNode) -> None:
    """Copy the windows of all places, a row of the kernel at a time."""
    device, images, target = emitter.device, first(node, 1), node.destination
    windows = ImageWindows.of(node)
    value = emitter.strided(images, *_images(images, node))
    if images.type != target.type:
        value = device.cast(value, NAMES[target.type])
    count, channels, height, width = value.shape
    rows, columns = windows.count(0, height), windows.count(1, width)
    (up, left), (stride_down, stride_right) = windows.pad, windows.stride
    if up or left:
        filled = _zeros(device, (count, channels, height + 2 * up, width + 2 * left), target.type)
        device.copy(value, out=filled[:, :, up : up + height, left : left + width])
        value = filled
    shape = (count, rows, columns, channels, *windows.kernel)
    out = emitter.strided(target, shape, _dense(value.dtype.itemsize, shape))
    n, c, y, x = value.strides
    for down in range(windows.kernel[0]):
        window = DeviceTensor.borrow(
            device,
            value.ptr + down * windows.step[0] * y,
            (count, rows, columns, channels, windows.kernel[1]),
            (n, stride_down * y, stride_right * x, c, windows.step[1] * x),
            value.dtype,
        )
        device.copy(window, out=out[:, :, :, :, down])


def _dense(item: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [item]
    for count in shape[:0:-1]:
        strides.append(strides[-1] * count)
    return tuple(strides[::-1])


def _zeros(device: Device, shape: tuple[int, ...], name: str) -> DeviceTensor:
    """Return zeros of a float type."""
    zeros: DeviceTensor = device.full(shape, 0.0)
    if name != "f32":
        narrow: DeviceTensor = device.cast(zeros, NAMES[name])
        return narrow
    return zeros


def check_pool(device: Device, node: GraphNode) -> None:
    """Take images of floats [width, height, ...] and leave float32."""
    source, target = first(node), node.destination
    require(source.type in ("f32", "f16") and target.type == "f32", "another type")
    require(node.integer(0) in (MAXIMUM, AVERAGE) and contiguous(target), "another kind of pooling")
    require(all(source.elements), "an empty image")
    kernel, strides, pads = ([node.integer(1 + 2 * i), node.integer(2 + 2 * i)] for i in range(3))
    require(min(kernel) > 0 and min(strides) > 0 and min(pads) >= 0, "such a window")
    require(kernel[0] * kernel[1] <= MOST_TAPS, "a large window")
    require(all(pad < size for pad, size in zip(pads, kernel, strict=True)), "windows in the border")
    for axis in range(2):
        last = (target.elements[axis] - 1) * strides[axis] - pads[axis]
        require(last < source.elements[axis], "windows in the border")
    require(target.elements[2:] == source.elements[2:], "a result of another shape")


def emit_pool(emitter: Emitter, node: GraphNode) -> None:
    """Combine the elements of each window, the borders being nothing."""
    device, target = emitter.device, node.destination
    kernel, stride, pad = ((node.integer(2 + 2 * i), node.integer(1 + 2 * i)) for i in range(3))
    largest = node.integer(0) == MAXIMUM
    value = emitter.floats(first(node))
    height, width = target.elements[1], target.elements[0]
    after = tuple(
        max(0, (count - 1) * stride[axis] + kernel[axis] - pad[axis] - value.shape[2 + axis])
        for axis, count in enumerate((height, width))
    )
    value = _padded(device, value, (0, 0, *pad), (0, 0, *after), LEAST if largest else 0.0)
    n, c, y, x = value.strides
    out = emitter.view(target)
    for index in range(kernel[0] * kernel[1]):
        down, right = divmod(index, kernel[1])
        taken = DeviceTensor.borrow(
            device,
            value.ptr + down * y + right * x,
            (*value.shape[:2], height, width),
            (n, c, stride[0] * y, stride[1] * x),
            value.dtype,
        )
        if not index:
            device.copy(taken, out=out)
        elif largest:
            device.maximum(out, taken, out=out)
        else:
            device.add(out, taken, out=out)
    if not largest:
        device.mul(out, 1 / (kernel[0] * kernel[1]), out=out)


OPERATIONS = {
    "PAD": GraphOperation(check_pad, emit_pad),
    "IM2COL": GraphOperation(check_im2col, emit_im2col),
    "POOL_2D": GraphOperation(check_pool, emit_pool),
}
