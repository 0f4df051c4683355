"""Launch plans: the packets of an operator for one set of shapes, with gaps for addresses and numbers.

A plan is made once: the operator's function is called with tensors at stand-in addresses on a device that
only collects commands. Every launch then copies the packets and writes the true addresses into them.
"""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES, Flags, Opcode
from echo_npu.device import Device
from echo_npu.driver.base import STAND_IN_ENTRY, DeviceDriver
from echo_npu.driver.hardware import HardwareDriver
from echo_npu.ops.methods import OpMethods
from echo_npu.spec.contract import COMMAND_OFFSETS, EXTENSION_OFFSETS, VECTOR_EXTENSION_WORDS
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.program import Program

Parameter: TypeAlias = float | np.uint32
Build: TypeAlias = Callable[..., None]
"""`build(npu, outputs, inputs, params, *static)` executes the commands of an operator on `npu`.

outputs and inputs are lists of DeviceTensors. The elements of params stand in for numbers of 32 bits that
each launch chooses: they can only be parameters of vector programs. What is static may choose the commands.
"""

_FIRST_ADDRESS: Final = 0x1000_0000
_LAST_ADDRESS: Final = 0xFFFF_0000
_LAST_LARGE_ADDRESS: Final = 1 << 48
_WORD: Final = 4
_GAP: Final = 1 << 12
_FIRST_PARAMETER: Final = 0xEC70_A500


def _vector_bytes(name: str) -> tuple[int, ...]:
    """Return the bytes from the start of a VECTOR to the words of a field of its extension."""
    words = VECTOR_EXTENSION_WORDS[name]
    return tuple(PACKET_BYTES + 4 * word for word in range(words.start, words.stop))


# Bytes from the start of a command to its fields; of an address, to its low and its high word. An extension
# follows the packet.
_ADDRESSES: Final = tuple(
    (COMMAND_OFFSETS[f"{name}_addr"], COMMAND_OFFSETS[f"{name}_addr"] + _WORD)
    for name in ("src1", "src2", "dst")
)
_ALPHA: Final = COMMAND_OFFSETS["alpha"]
(_VECTOR_ENTRY,) = _vector_bytes("entry")
_VECTOR_ADDRESSES: Final = tuple(
    (_vector_bytes(name)[0], _vector_bytes(f"{name}_high")[0]) for name in ("s2_addr", "s3_addr")
)
_VECTOR_PARAMETERS: Final = (_ALPHA, *_vector_bytes("params"))
_MATMUL_ADDRESSES: Final = tuple(
    (PACKET_BYTES + EXTENSION_OFFSETS[low], PACKET_BYTES + EXTENSION_OFFSETS[high])
    for low, high in (("column_vectors", "rows"), ("row_scales", "row_scales_high"))
)


@dataclass(frozen=True, slots=True)
class Spec:
    """An operand as a plan knows it: `place` is the number of the first operand at the same address."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    place: int

    @property
    def extent(self) -> int:
        """Bytes from the first to the last that it may touch."""
        steps = zip(self.shape, self.strides, strict=True)
        return self.dtype.itemsize + sum((size - 1) * stride for size, stride in steps)


@dataclass(frozen=True, slots=True)
class Plan:
    """Packets with gaps.

    Attributes:
        data: all slots, one after another.
        slots: of each command.
        addresses: (byte, operand, offset): the low word of an operand's address plus the offset belongs
            there. Numbers behind those of the operands are temporaries.
        high_words: likewise the high word; none on a device whose memory lies below 4 GiB.
        entries: (byte, program).  params: (byte, parameter).
        programs: vector programs that must be loaded.
        temporaries: bytes of each.
        extents: of each operand.
    """

    data: bytes
    slots: tuple[int, ...]
    addresses: tuple[tuple[int, int, int], ...]
    high_words: tuple[tuple[int, int, int], ...]
    entries: tuple[tuple[int, int], ...]
    params: tuple[tuple[int, int], ...]
    programs: tuple[Program, ...]
    temporaries: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def slot_count(self) -> int:
        return len(self.data) // PACKET_BYTES


@dataclass(frozen=True, slots=True)
class Computed:
    """Numbers of a launch that follow from others, which a recorded graph reads again in every run.

    Attributes:
        function: makes the numbers of the values of the arguments.
        arguments: numbers, and tensors of one element.
    """

    function: Callable[..., Sequence[float]]
    arguments: tuple[float | torch.Tensor, ...]

    def values(self) -> Sequence[float]:
        """Return the numbers, from what the tensors hold now."""
        return self.function(
            *(each.item() if isinstance(each, torch.Tensor) else each for each in self.arguments)
        )


class _CollectingDriver(DeviceDriver):
    """Collects commands; memory is addresses that nothing is at.

    Args:
        large: the device's memory lies above 4 GiB.
    """

    def __init__(self, *, large: bool) -> None:
        self.large = large
        self._last = _LAST_LARGE_ADDRESS if large else _LAST_ADDRESS
        self.commands: list[Command] = []
        self.programs: list[Program] = []
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self._numbers: dict[bytes, int] = {}
        self._next = _FIRST_ADDRESS

    @property
    def epoch(self) -> int:
        return 0

    def malloc(self, region: str, nbytes: int) -> int:
        address = self._next
        self._next = -(-(address + nbytes + _GAP) // _GAP) * _GAP
        if self._next > self._last:
            raise MemoryError(f"an operator of more than {self._last - _FIRST_ADDRESS} bytes")
        self.starts.append(address)
        self.sizes.append(nbytes)
        return address

    def free(self, address: int) -> None:
        pass

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        raise RuntimeError("an operator of PyTorch brings no data from the host")

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        raise RuntimeError("an operator of PyTorch brings no data to the host")

    def submit(self, commands: Sequence[Command]) -> None:
        self.commands += commands

    def submit_batch(self, commands: Sequence[Command]) -> None:
        self.commands += commands

    def wait(self, timeout_cycles: int | None) -> None:
        pass

    def settle(self) -> None:
        pass

    def limit(self, watchdog_cycles: int, *, protect_ring: bool) -> None:
        raise RuntimeError("an operator of PyTorch limits nothing")

    def reset(self) -> None:
        raise RuntimeError("an operator of PyTorch resets nothing")

    def entries(self, programs: Sequence[Program]) -> list[int]:
        for program in programs:
            if program.code not in self._numbers:
                self._numbers[program.code] = len(self.programs)
                self.programs.append(program)
        return [STAND_IN_ENTRY + self._numbers[program.code] for program in programs]

    def entries_for_run(self, programs: Sequence[Program]) -> list[int]:
        return self.entries(programs)

    def forget_programs(self) -> None:
        pass


class PlanningDevice(OpMethods):
    """A device with all operations that only collects their commands."""

    def __init__(self, hardware: HardwareDriver) -> None:
        super().__init__(hardware)
        self.collected = _CollectingDriver(large=hardware.memory.is_large)
        self.driver = self.collected


class Planner:
    """Makes plans for a device."""

    def __init__(self, npu: Device) -> None:
        self._hardware = npu.hardware

    def plan(
        self, build: Build, outputs: int, specs: Sequence[Spec], params: int, static: tuple[Any, ...]
    ) -> Plan:
        """Call `build` on stand-ins and return its commands as a plan.

        Args:
            outputs: how many of the operands are outputs, which come first.
            params: how many numbers a launch gives.
        """
        device = PlanningDevice(self._hardware)
        driver = device.collected
        places: list[int] = []
        for number, spec in enumerate(specs):
            shared = [each.extent for each in specs if each.place == spec.place]
            places.append(places[spec.place] if spec.place < number else driver.malloc("", max(shared)))
        operands = [
            DeviceTensor.borrow(device, place, spec.shape, spec.strides, spec.dtype)
            for place, spec in zip(places, specs, strict=True)
        ]
        stand_ins = [np.uint32(_FIRST_PARAMETER + i) for i in range(params)]
        with debug.silenced():
            build(device, operands[:outputs], operands[outputs:], stand_ins, *static)
        owners = [specs[i].place for i in range(len(specs)) if specs[i].place == i]
        return _plan(driver, owners, len(specs), specs)


def _plan(driver: _CollectingDriver, owners: list[int], count: int, specs: Sequence[Spec]) -> Plan:
    """Find the gaps of the collected commands. Blocks of operands come first, then temporaries."""
    numbers = [*owners, *range(count, count + len(driver.starts) - len(owners))]
    addresses: list[tuple[int, int, int]] = []
    high_words: list[tuple[int, int, int]] = []
    entries: list[tuple[int, int]] = []
    params: list[tuple[int, int]] = []
    at = 0
    for command in driver.commands:
        packet = command.packet
        data = b"".join(command.slots)
        fields = [*_ADDRESSES]
        if packet.opcode == Opcode.VECTOR:
            fields += _VECTOR_ADDRESSES
            entries.append((at + _VECTOR_ENTRY, _word(data, _VECTOR_ENTRY) - STAND_IN_ENTRY))
            for byte in _VECTOR_PARAMETERS:
                number = _word(data, byte) - _FIRST_PARAMETER
                if 0 <= number < PACKET_BYTES:
                    params.append((at + byte, number))
        elif packet.opcode == Opcode.MATMUL and packet.flags & Flags.EXT:
            fields += _MATMUL_ADDRESSES
        for low, high in fields:
            address = _word(data, high) << 32 | _word(data, low)
            if address:
                block = bisect.bisect(driver.starts, address) - 1
                place = (numbers[block], address - driver.starts[block])
                addresses.append((at + low, *place))
                if driver.large:
                    high_words.append((at + high, *place))
        at += len(data)
    return Plan(
        b"".join(b"".join(command.slots) for command in driver.commands),
        tuple(len(command.slots) for command in driver.commands),
        tuple(addresses),
        tuple(high_words),
        tuple(entries),
        tuple(params),
        tuple(driver.programs),
        tuple(driver.sizes[len(owners) :]),
        tuple(spec.extent for spec in specs),
    )


def _word(data: bytes, byte: int) -> int:
    return int.from_bytes(data[byte : byte + _WORD], "little")
