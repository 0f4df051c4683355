"""What a test does to the device, as plain data that can be saved, cut short and played again."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echo_npu.packets import NpuCommandPacket
from tb.drivers.commands import Path as Via


@dataclasses.dataclass(frozen=True)
class CommandStep:
    """Submit the packets of one command (or of a few that belong together), 64 bytes each."""

    packets: tuple[bytes, ...]

    def __str__(self) -> str:
        return str(NpuCommandPacket.unpack(self.packets[0]))


@dataclasses.dataclass(frozen=True)
class HostWrite:
    """Write through the host window. With `alone` after everything before it has ended, and before anything
    behind it begins; else beside the commands, which must not touch these bytes."""

    address: int
    data: bytes
    alone: bool = False

    def __str__(self) -> str:
        return f"host writes {len(self.data)} bytes at 0x{self.address:x}{' alone' if self.alone else ''}"


@dataclasses.dataclass(frozen=True)
class HostRead:
    """Read through the host window, beside the commands, which must not change these bytes."""

    address: int
    length: int

    def __str__(self) -> str:
        return f"host reads {self.length} bytes at 0x{self.address:x}"


@dataclasses.dataclass(frozen=True)
class RegisterRead:
    """Read a register, beside everything else."""

    offset: int

    def __str__(self) -> str:
        return f"register 0x{self.offset:03x} is read"


@dataclasses.dataclass(frozen=True)
class RegisterWrite:
    """Write a register, beside everything else."""

    offset: int
    value: int

    def __str__(self) -> str:
        return f"register 0x{self.offset:03x} is written with 0x{self.value:x}"


Step = CommandStep | HostWrite | HostRead | RegisterRead | RegisterWrite
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (CommandStep, HostWrite, HostRead, RegisterRead, RegisterWrite)
}


@dataclasses.dataclass(frozen=True)
class StepProgram:
    """Steps, and all that they need.

    Attributes:
        steps: in order on each port; the ports do not wait for one another, except for a step `alone`.
        images: bytes that are in memory before the first step, by address.
        timing: knobs of the memory model, as `tb.native.Dram.configure`.
        via: how commands are submitted. One way for all: between the two there is no order.
    """

    steps: tuple[Step, ...]
    images: Mapping[int, bytes]
    timing: Mapping[str, float]
    via: Via = "window"

    def __str__(self) -> str:
        return "\n".join([f"{len(self.steps)} steps, commands by {self.via}", *map(str, self.steps)])

    def save(self, path: Path, **notes: str) -> None:
        """Write it to a file, with notes for the reader."""
        described = {
            **notes,
            "via": self.via,
            "timing": dict(self.timing),
            "text": str(self).splitlines(),
            "steps": [_encoded({"kind": type(step).__name__, **vars(step)}) for step in self.steps],
            "images": {f"0x{address:x}": _encoded(data) for address, data in self.images.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> StepProgram:
        """Read what `save` wrote. ValueError, KeyError: it is something else; OSError: it is not there."""
        read = json.loads(path.read_text(encoding="utf-8"))
        steps = []
        for each in read["steps"]:
            fields = {name: _decoded(value) for name, value in each.items() if name != "kind"}
            steps.append(_KINDS[each["kind"]](**fields))
        images = {int(address, 16): _decoded(data) for address, data in read["images"].items()}
        return cls(tuple(steps), images, read["timing"], read["via"])


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"zlib": base64.b64encode(zlib.compress(value, 9)).decode()}
    if isinstance(value, tuple):
        return [_encoded(each) for each in value]
    if isinstance(value, dict):
        return {name: _encoded(each) for name, each in value.items()}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return zlib.decompress(base64.b64decode(value["zlib"]))
    if isinstance(value, list):
        return tuple(_decoded(each) for each in value)
    return value
