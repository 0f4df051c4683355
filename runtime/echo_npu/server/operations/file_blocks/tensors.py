"""Tensors of blocks as a file has them: their values, and blocks made of floats."""

import math
from typing import Final

import numpy as np

from echo_npu.device import Device
from echo_npu.server.operations.base import FLOATS, NAMES, Emitter, most_bytes, require
from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS, FileFormat
from echo_npu.server.operations.file_blocks.grids import has_grids
from echo_npu.server.protocol import GraphTensor
from echo_npu.tensor import DeviceTensor

_AT_A_TIME: Final = 1 << 20
"""Elements that are converted together: a search has some thirty float32 numbers for each."""


def changes_blocks(source: GraphTensor, target: GraphTensor) -> bool:
    """Return whether a copy changes blocks as a file has them to floats, or floats to such blocks."""
    return source.type != target.type and bool({source.type, target.type} & FILE_FORMATS.keys())


def check_blocks(device: Device, blocks: GraphTensor, floats: GraphTensor, *, written: bool) -> FileFormat:
    """Return the format of blocks, some of which are changed from or to all floats of a tensor.

    Raises: UnsupportedError for what the device does not change.
    """
    form = FILE_FORMATS.get(blocks.type)
    require(form is not None and floats.type in FLOATS, f"{blocks.type} and {floats.type}")
    assert form is not None
    require(blocks.item == form.size, f"blocks of {blocks.item} bytes in {blocks.type}")
    require(not written or form.quantise is not None, f"{floats.type} to {blocks.type}")
    require(written or not form.grid or has_grids(), f"{blocks.type} without the package gguf")
    size = math.prod(floats.elements) * np.dtype(np.float32).itemsize
    require(size < most_bytes(device), "more elements than fit into memory")
    return form


def check_file_copy(device: Device, source: GraphTensor, target: GraphTensor) -> None:
    """Take as many elements, in the order of both."""
    written = target.type in FILE_FORMATS
    blocks, floats = (target, source) if written else (source, target)
    form = check_blocks(device, blocks, floats, written=written)
    count = math.prod(blocks.elements) * form.elements
    require(math.prod(floats.elements) == count, "other numbers of elements")


def raw_blocks(emitter: Emitter, tensor: GraphTensor) -> DeviceTensor:
    """Return the bytes of all blocks in their order, uint8 [blocks, bytes]; a copy if they have gaps."""
    dense = emitter.view(tensor).contiguous()
    return dense.reshape(dense.size, 1).view(np.uint8)


def write_values(
    emitter: Emitter, blocks: DeviceTensor, form: FileFormat, target: DeviceTensor, name: str
) -> None:
    """Write the values of blocks, uint8 [blocks, bytes], to a tensor of floats of a type."""
    direct = name == "f32" and target.is_contiguous
    values = target if direct else emitter.device.empty(target.shape)
    out = values.reshape(-1, form.elements)
    for some in _parts(blocks.shape[0], form):
        emitter.check_size()
        emitter.device.copy(form.values(FileBlocks(emitter, blocks[some])).tensor, out=out[some])
    if not direct:
        emitter.device.cast(values, NAMES[name], out=target)


def quantised_blocks(emitter: Emitter, values: DeviceTensor, form: FileFormat) -> DeviceTensor:
    """Make blocks of float32 [blocks, elements]: uint8 [blocks, bytes]."""
    assert form.quantise is not None
    made = emitter.device.empty((values.shape[0], form.size), np.uint8)
    for some in _parts(values.shape[0], form):
        emitter.check_size()
        form.quantise(DeviceNumbers(emitter, values[some]), FileBlocks(emitter, made[some]))
    return made


def _parts(count: int, form: FileFormat) -> list[slice]:
    step = _AT_A_TIME // form.elements
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]
