"""Find the commands that a device gets from its register writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from echo_npu.commands.command import Command
from echo_npu.commands.listing import Listed, list_command
from echo_npu.commands.packets import FENCES, PACKET_BYTES, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import entry_of
from echo_npu.register_ops import RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.vector.program import Program

_WINDOW_END: Final = regs.CMD_WINDOW + PACKET_BYTES


@dataclass(frozen=True, slots=True)
class SeenCommand:
    """A command on its way through the device.

    Attributes:
        listed: what it is.
        engine: 0 matrix, 1 vector, None for a fence, which needs none.
    """

    listed: Listed
    engine: int | None


@dataclass
class CommandWatcher:
    """Follows the command window, the doorbell and the ring.

    Args:
        read: device memory, `read(address, nbytes)`, for the packets in the ring.
        on_command: called for each command that is complete, in order.
        on_clear: called when the device drops its commands: at a soft reset (True) or when an error is
            cleared (False).
    """

    read: Callable[[int, int], bytes]
    on_command: Callable[[SeenCommand], None]
    on_clear: Callable[[bool], None]

    def __post_init__(self) -> None:
        self._window = bytearray(PACKET_BYTES)
        self._base = self._size = self._tail = 0
        self._open: dict[str, list[bytes]] = {"window": [], "ring": []}  # commands that lack extensions
        self._images: dict[bytes, list[tuple[int, str]]] = {}
        self._names: dict[int, str] = {}  # of the vector programs, by their entry

    def describe(self, programs: Sequence[Program]) -> None:
        """Give the names of vector programs that one LOAD_PROGRAM loads, one after another."""
        at, places = 0, []
        for program in programs:
            places.append((at, program.name))
            at += len(program)
        self._images[b"".join(program.code for program in programs)] = places

    def see(self, ops: Sequence[RegisterOp]) -> None:
        """Note register operations that the device is about to get."""
        for op in ops:
            if not isinstance(op, WriteReg):
                continue
            if regs.CMD_WINDOW <= op.offset < _WINDOW_END:
                start = op.offset - regs.CMD_WINDOW
                self._window[start : start + 4] = op.value.to_bytes(4, "little")
            elif op.offset == regs.DOORBELL:
                self._slot("window", bytes(self._window))
            elif op.offset == regs.RING_BASE:
                self._base = self._base >> 32 << 32 | op.value
            elif op.offset == regs.RING_BASE_HIGH:
                self._base = op.value << 32 | self._base & 0xFFFF_FFFF
            elif op.offset == regs.RING_SIZE:
                self._size = regs.RING_SIZE_SLOTS.get(op.value)
            elif op.offset == regs.RING_TAIL and op.value < self._size:
                while self._tail != op.value:
                    self._slot("ring", self.read(self._base + self._tail * PACKET_BYTES, PACKET_BYTES))
                    self._tail = (self._tail + 1) % self._size
            elif op.offset == regs.CONTROL:
                self._control(op.value)

    def _control(self, value: int) -> None:
        reset = bool(value & regs.CONTROL_SOFT_RESET.mask)
        if reset:
            self._tail = 0
        if reset or value & regs.CONTROL_CLEAR_ERROR.mask:
            for slots in self._open.values():
                slots.clear()
            self.on_clear(reset)

    def _slot(self, source: str, slot: bytes) -> None:
        slots = self._open[source]
        slots.append(slot)
        command = Command(tuple(slots))
        if not command.complete:
            return
        slots.clear()
        head, program = command.packet, None
        if head.opcode == Opcode.LOAD_PROGRAM:
            self._load(head)
        elif (entry := entry_of(command)) is not None:
            program = self._names.get(entry)
        engine = None if head.opcode in FENCES else int(not head.on_matrix)
        self.on_command(SeenCommand(list_command(command, program), engine))

    def _load(self, packet: NpuCommandPacket) -> None:
        try:
            image = self.read(packet.src1_addr, 8 * packet.m)
        except ValueError:  # outside of memory: the device refuses it too
            return
        for entry in range(packet.k, packet.k + packet.m):
            self._names.pop(entry, None)
        for at, name in self._images.get(image, ()):
            self._names[packet.k + at] = name
