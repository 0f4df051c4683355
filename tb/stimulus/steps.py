"""Steps of a test as plain data that can be saved, shortened and replayed."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from echo_npu.commands.packets import NpuCommandPacket
from tb.drivers.commands import Path as Via

Answer = Literal["OKAY", "SLVERR", "DECERR"]
"""AXI4 response to an access."""


@dataclasses.dataclass(frozen=True)
class CommandStep:
    """Submit the packets of one command, or of a few that belong together, 64 bytes each.

    Attributes:
        via: way of submission if not the program's. A switch drains the device, since the two ways have no
            common order.
        free: independent of earlier commands; does not drain.
    """

    packets: tuple[bytes, ...]
    via: Via | None = None
    free: bool = False

    def __str__(self) -> str:
        text = str(NpuCommandPacket.unpack(self.packets[0]))
        return f"{text} by {self.via}" if self.via else text


@dataclasses.dataclass(frozen=True)
class HostWrite:
    """Write through the host window.

    It runs beside the commands, which must not touch these bytes, or `alone`: after all earlier steps and
    before all later ones. `answer` is the expected response; a refused write changes nothing.
    """

    address: int
    data: bytes
    alone: bool = False
    answer: Answer = "OKAY"

    def __str__(self) -> str:
        text = f"host writes {len(self.data)} bytes at 0x{self.address:x}{' alone' if self.alone else ''}"
        return text if self.answer == "OKAY" else f"{text}: {self.answer}"


@dataclasses.dataclass(frozen=True)
class HostRead:
    """Read through the host window, beside the commands, which must not change these bytes.

    `early`: later steps of the host do not wait for the data.
    """

    address: int
    length: int
    answer: Answer = "OKAY"
    early: bool = False

    def __str__(self) -> str:
        text = f"host reads {self.length} bytes at 0x{self.address:x}"
        return text if self.answer == "OKAY" else f"{text}: {self.answer}"


@dataclasses.dataclass(frozen=True)
class HostHold:
    """The host stalls these channels of its port ("aw", "w", "b", "r") until all commands of the group end.

    The group extends between steps `Recover`, `Reset` or `alone`. A soft reset must end too.
    """

    channels: tuple[str, ...]

    def __str__(self) -> str:
        return f"the host holds {', '.join(self.channels)}"


@dataclasses.dataclass(frozen=True)
class RegisterRead:
    """Read a register, concurrently with all else."""

    offset: int

    def __str__(self) -> str:
        return f"register 0x{self.offset:03x} is read"


@dataclasses.dataclass(frozen=True)
class RegisterWrite:
    """Write a register, concurrently with all else."""

    offset: int
    value: int

    def __str__(self) -> str:
        return f"register 0x{self.offset:03x} is written with 0x{self.value:x}"


@dataclasses.dataclass(frozen=True)
class Fault:
    """Let memory refuse reads or writes that touch [low, high), for the whole group that ends with `Recover`
    or `Reset`.

    Beats of the bus fail as a whole.
    """

    low: int
    high: int
    write: bool = False
    decode: bool = False

    def __str__(self) -> str:
        what = "writes to" if self.write else "reads of"
        return f"{what} 0x{self.low:x}..0x{self.high:x} get {'DECERR' if self.decode else 'SLVERR'}"


@dataclasses.dataclass(frozen=True)
class Doorbells:
    """Submit all packets without checking for room; a full queue is an error."""

    packets: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"{len(self.packets)} packets whether there is room or not"


@dataclasses.dataclass(frozen=True)
class BadTail:
    """Write a ring tail that must be refused.

    It lies `back` slots before the current one, where packets wait; or, if `back` is 0, beyond the ring's end
    or, if not `enabled`, in a disabled ring.
    """

    enabled: bool
    back: int = 0

    def __str__(self) -> str:
        if self.back:
            return f"a tail that is moved back by {self.back}"
        return f"a tail {'beyond the ring' if self.enabled else 'of a ring that is not enabled'}"


@dataclasses.dataclass(frozen=True)
class Recover:
    """Wait until all earlier steps end, perhaps in an error, and check and clear that before any later
    step."""

    def __str__(self) -> str:
        return "an error is cleared, if there is one"


@dataclasses.dataclass(frozen=True)
class Reset:
    """Reset the device by pin (`hard`) or register, `after` clocks after all earlier steps were submitted.

    With `again`, a soft reset and doorbells that the device must ignore directly precede it.
    """

    hard: bool
    after: int
    again: bool = False

    def __str__(self) -> str:
        again = ", within a soft one" if self.again else ""
        return f"{'hard' if self.hard else 'soft'} reset after {self.after} clocks{again}"


Step = (
    CommandStep
    | HostWrite
    | HostRead
    | HostHold
    | RegisterRead
    | RegisterWrite
    | Fault
    | Doorbells
    | BadTail
    | Recover
    | Reset
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Step)}


@dataclasses.dataclass(frozen=True)
class StepProgram:
    """Steps with everything they need.

    Attributes:
        steps: in order on each port. Ports do not wait for each other, except for a step `alone`.
        images: initial memory contents, by address.
        timing: knobs of the memory model, as for `echo_sim.native.Dram.configure`.
        via: way of submission of commands that do not name one.
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
        """Read what `save` wrote. Raises ValueError or KeyError for another file, OSError for a missing
        one."""
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
