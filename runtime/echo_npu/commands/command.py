"""Commands: a command packet with the extension packets that it announces, and submissions of several."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeAlias

from echo_npu.commands.packets import ExtensionPacket, NpuCommandPacket, Packet, extension_count, packet_bytes

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Command:
    """A command packet and the extension packets that it announces, which are submitted together.

    Attributes:
        slots: 64 bytes each, the command packet first. The last command of a submission may lack extensions:
            the device waits for them.
    """

    slots: tuple[bytes, ...]

    @classmethod
    def of(cls, packet: Packet, *extensions: Packet) -> Command:
        """Return the command of these packets, valid or not; TypeError or ValueError for what is no
        packet."""
        return cls(tuple(packet_bytes(each) for each in (packet, *extensions)))

    @property
    def packet(self) -> NpuCommandPacket:
        """The command packet."""
        return NpuCommandPacket.unpack(self.slots[0])

    @property
    def needed(self) -> int:
        """Slots that it has when it is complete."""
        return 1 + _announced(self.slots[0])

    @property
    def complete(self) -> bool:
        """Whether every extension that the packet announces is there."""
        return len(self.slots) >= self.needed

    def __str__(self) -> str:
        others = self.slots[1:]
        texts = (
            [str(ExtensionPacket.unpack(others[0]))] if len(others) == 1 else [each.hex() for each in others]
        )
        return ", ".join([str(self.packet), *texts])

    def packets(self) -> list[NpuCommandPacket | ExtensionPacket]:
        """Return the packets of a command whose only extension, if any, is an ExtensionPacket."""
        return [self.packet, *(ExtensionPacket.unpack(slot) for slot in self.slots[1:])]


Submission: TypeAlias = Command | Packet | Iterable[Command | Packet]
"""What `Device.submit` takes: a command or a packet, or several of both in order."""


def as_commands(given: Submission) -> list[Command]:
    """Return the commands of a submission; a packet's extensions are those that follow it.

    Raises:
        TypeError, ValueError: something that is no packet.
    """
    if isinstance(given, (Command, NpuCommandPacket, ExtensionPacket, bytes)):
        given = [given]
    made: list[Command] = []
    slots: list[bytes] = []  # of a command that lacks extensions
    for each in given:
        if isinstance(each, Command) and not slots and each.complete:
            made.append(each)
            continue
        for slot in each.slots if isinstance(each, Command) else (packet_bytes(each),):
            slots.append(slot)
            if len(slots) > _announced(slots[0]):
                made.append(Command(tuple(slots)))
                slots = []
    return [*made, Command(tuple(slots))] if slots else made


def _announced(slot: bytes) -> int:
    """Return how many extensions a command packet announces."""
    opcode, flags = struct.unpack_from("<II", slot)
    return extension_count(opcode, flags)


def as_packets(build: Callable[_P, Command]) -> Callable[_P, list[NpuCommandPacket | ExtensionPacket]]:
    """Make a builder that returns the packets of a command."""

    @wraps(build)
    def packets(*args: _P.args, **kwargs: _P.kwargs) -> list[NpuCommandPacket | ExtensionPacket]:
        return build(*args, **kwargs).packets()

    packets.__name__ = packets.__qualname__ = build.__name__.replace("_command", "_packets")
    packets.__annotations__ = {**build.__annotations__, "return": "list[NpuCommandPacket | ExtensionPacket]"}
    return packets
