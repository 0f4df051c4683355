"""Check commands as the device does."""

from echo_npu.commands.checked import CheckedCommand, PacketFault
from echo_npu.commands.checks import check_slots
from echo_npu.commands.command import Command
from echo_npu.commands.packets import FENCES
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.memory_map import Region


def check(
    command: Command,
    programs: ProgramMemory | None = None,
    guard: Region | None = None,
    *,
    blocks: bool,
) -> CheckedCommand:
    """Check a command. Raises PacketFault if the device refuses it, e.g. for writing to `guard`, or for
    weights in blocks where it has no `blocks`."""
    return check_slots(command.slots, programs, guard, blocks=blocks)


def accepted(
    command: Command,
    programs: ProgramMemory | None = None,
    guard: Region | None = None,
    *,
    blocks: bool,
) -> CheckedCommand | None:
    """Check a command as `check`; None if the device refuses it."""
    try:
        return check(command, programs, guard, blocks=blocks)
    except PacketFault:
        return None


def loaded_programs(words: int) -> ProgramMemory:
    """Return a program memory of so many words, all of which count as loaded."""
    programs = ProgramMemory(words)
    programs.loaded = words
    return programs


class Behind:
    """Determines which commands after a failed one may have been running, as their packets arrive.

    The matrix engine holds two commands and the vector engine one; they start in order.
    """

    def __init__(self, failed_on_matrix: bool) -> None:
        self._room = {True: 2, False: 1}
        self._room[failed_on_matrix] -= 1
        self._slots: list[bytes] = []
        self.complete = False

    def take(self, slot: bytes, programs: ProgramMemory, *, blocks: bool) -> CheckedCommand | None:
        """Take the next packet; return the command that it completes if that may have been running."""
        self._slots.append(slot)
        command = Command(tuple(self._slots))
        if not command.complete:
            return None
        self._slots = []
        on_matrix = command.packet.on_matrix
        self._room[on_matrix] -= 1
        found = None
        if self._room[on_matrix] >= 0 and command.packet.opcode not in FENCES:
            found = accepted(command, programs, blocks=blocks)
        self.complete = found is None
        return found
