"""Launch operators on the device."""

import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.driver.status import read_counters
from echo_npu.errors import NpuProgramMemoryError
from echo_npu.torch.devices import OpenDevice, opened
from echo_npu.torch.overlaps import OverlapError, overlapping, refuse_partial
from echo_npu.torch.placement import mixed
from echo_npu.torch.plan import Build, Computed, Plan, Spec

_U32: Final = struct.Struct("<I")
_F32: Final = struct.Struct("<f")
_BY_SIZE: Final = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64, 16: np.complex128}
_NUMPY: Final[dict[torch.dtype, np.dtype[Any]]] = {
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(np.uint16),
    torch.int32: np.dtype(np.int32),
    torch.int16: np.dtype(np.int16),
    torch.int8: np.dtype(np.int8),
    torch.uint8: np.dtype(np.uint8),
    torch.bool: np.dtype(np.bool_),
    torch.int64: np.dtype(np.int64),
    torch.float64: np.dtype(np.float64),
}
"""bfloat16 is its bits in uint16, as in `echo_npu.ops`. Others are plain bytes."""


def launch(
    name: str,
    build: Build,
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    static: tuple[Any, ...] = (),
    params: Sequence[float] | Computed = (),
) -> None:
    """Run an operator on the device of its outputs, in order behind everything launched before.

    Args:
        name: for the debug trace and the profile.
        build: makes the commands, see `plan.Build`; with `static` it decides which.
        outputs, inputs: tensors, none of them empty.
        params: numbers, or how to compute them; a float becomes float32, an int 32 bits.

    Raises:
        MixedDevicesError: a tensor of another device.
        OverlapError: an output of which elements share memory, as those of `expand` do, or that overlaps an
            input which lies otherwise.
        NpuDeviceError: an earlier command failed.
    """
    device = opened(outputs[0].device.index)
    numbers = params.values() if isinstance(params, Computed) else params
    key: list[Any] = [build, static, len(outputs), len(numbers)]
    pointers: list[int] = []
    for tensor in (*outputs, *inputs):
        if tensor.is_cpu or tensor.device != device.device:
            raise mixed(name, (*outputs, *inputs))
        key += (tensor.dtype, tensor.shape, tensor.stride())
        pointers.append(tensor.data_ptr())
    if len(set(pointers)) != len(pointers):
        key.append(tuple(pointers.index(pointer) for pointer in pointers))
    whole = tuple(key)
    with device.lock:
        plan = device.plans.get(whole)
        if plan is None:
            plan = device.plans[whole] = _planned(
                device, name, build, outputs, inputs, pointers, len(numbers), static
            )
        for number in range(len(outputs)):
            for other in range(len(pointers)):
                if _meet(plan, pointers, number, other):
                    refuse_partial(name, outputs, inputs)
                    inputs = _apart(plan, pointers, outputs, inputs)
                    launch(name, build, outputs, inputs, static, params)
                    return
        if device.recorder is not None:
            device.recorder.take(name, plan, pointers, params)
        submit(device, name, plan, pointers, numbers)
    if debug.level():
        shapes = " ".join(str(tuple(tensor.shape)) for tensor in inputs)
        debug.npu(f"{name} {shapes} -> {tuple(outputs[0].shape)} {str(outputs[0].dtype)[6:]}")


def _planned(
    device: OpenDevice,
    name: str,
    build: Build,
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    pointers: list[int],
    params: int,
    static: tuple[Any, ...],
) -> Plan:
    specs = []
    for tensor, pointer in zip((*outputs, *inputs), pointers, strict=True):
        size = tensor.dtype.itemsize
        dtype = _NUMPY.get(tensor.dtype) or np.dtype(_BY_SIZE[size])
        strides = tuple(stride * size for stride in tensor.stride())
        specs.append(Spec(tuple(tensor.shape), strides, dtype, pointers.index(pointer)))
    if any(overlapping(each) for each in outputs):
        raise OverlapError(f"{name}: elements of the output share memory")
    if len(set(pointers)) != len(pointers):
        refuse_partial(name, outputs, inputs)
    return device.planner.plan(build, len(outputs), specs, params, static)


def _meet(plan: Plan, pointers: list[int], a: int, b: int) -> bool:
    """Return whether two operands share bytes although they start at different addresses."""
    first, second = pointers[a], pointers[b]
    return first != second and first < second + plan.extents[b] and second < first + plan.extents[a]


def _apart(
    plan: Plan, pointers: list[int], outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return the inputs, copies of those that share bytes with an output but start elsewhere."""
    count = len(outputs)
    return [
        tensor.clone(memory_format=torch.contiguous_format)
        if any(_meet(plan, pointers, number, count + i) for number in range(count))
        else tensor
        for i, tensor in enumerate(inputs)
    ]


def submit(device: OpenDevice, name: str, plan: Plan, pointers: list[int], params: Sequence[float]) -> None:
    """Launch a plan, and measure it if a profile is asked for. The caller holds the device's lock."""
    if device.profile.enabled:
        _measured(device, name, plan, pointers, params)
    else:
        _submit(device, plan, pointers, params)


def _submit(device: OpenDevice, plan: Plan, pointers: list[int], params: Sequence[float]) -> None:
    data = bytearray(plan.data)
    put = _U32.pack_into
    if plan.programs:
        try:
            entries = device.npu.driver.entries(plan.programs)
        except NpuProgramMemoryError:
            device.stream.synchronize()
            entries = device.npu.driver.entries(plan.programs)
        for byte, program in plan.entries:
            put(data, byte, entries[program])
    if plan.temporaries:
        temporaries = [device.allocator.allocate(nbytes) for nbytes in plan.temporaries]
        pointers = [*pointers, *temporaries]
        for address in temporaries:
            device.allocator.free(address)  # later commands may use it: they run later
    for byte, operand, offset in plan.addresses:
        put(data, byte, (pointers[operand] + offset) & 0xFFFF_FFFF)
    for byte, operand, offset in plan.high_words:
        put(data, byte, (pointers[operand] + offset) >> 32)
    for byte, number in plan.params:
        put(data, byte, bits(params[number]))
    commands: list[Command] = []
    at = 0
    for slots in plan.slots:
        end = at + slots * PACKET_BYTES
        commands.append(
            Command(tuple(bytes(data[i : i + PACKET_BYTES]) for i in range(at, end, PACKET_BYTES)))
        )
        at = end
    device.stream.add(commands, plan.slot_count)


def _measured(
    device: OpenDevice, name: str, plan: Plan, pointers: list[int], params: Sequence[float]
) -> None:
    device.stream.synchronize()
    before, start = read_counters(device.npu.backend)["cycles"], time.perf_counter()
    _submit(device, plan, pointers, params)
    device.stream.synchronize()
    seconds = time.perf_counter() - start
    cycles = read_counters(device.npu.backend)["cycles"] - before
    device.profile.add(name, cycles, sum(plan.extents), seconds)


def bits(value: float) -> int:
    """Return the 32 bits of a number: an int as it is, a float rounded to float32."""
    if isinstance(value, int):
        return value & 0xFFFF_FFFF
    try:
        return int(_U32.unpack(_F32.pack(value))[0])
    except OverflowError:
        return 0x7F80_0000 if value > 0 else 0xFF80_0000
