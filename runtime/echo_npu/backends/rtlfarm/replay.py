"""Run a chunk alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echo_npu.backends.rtlfarm.blame import Blame, blame
from echo_npu.backends.rtlfarm.chunk import RunChunk
from echo_npu.backends.rtlfarm.pool import ended_by_itself
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import SimulatorError


@dataclass(frozen=True, slots=True)
class ChunkReplay:
    """What a chunk did alone.

    Attributes:
        chunk: its number.
        commands, cycles: that count.
        what: how the RTL differs; empty if it does not.
        blame: what differs first; None if nothing does.
        waves: the waveform; None if there is none.
    """

    chunk: int
    commands: int
    cycles: int
    what: str
    blame: Blame | None
    waves: Path | None

    @property
    def differs(self) -> bool:
        return bool(self.what)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "chunk": self.chunk,
            "commands": self.commands,
            "cycles": self.cycles,
            "differs": self.differs,
            "what": self.what,
            "address": None if self.blame is None else self.blame.address,
            "command": "" if self.blame is None else self.blame.command,
            "waves": None if self.waves is None else str(self.waves),
        }

    def __str__(self) -> str:
        lines = [f"chunk {self.chunk}: {self.commands} commands, {self.cycles:,} cycles"]
        if self.blame is None:
            lines.append("equal to the functional model")
        else:
            lines.append(self.what)
            if self.blame.address is not None:
                lines[-1] += f"; first at 0x{self.blame.address:08x}: 0x{self.blame.rtl:02x}"
                lines[-1] += f", model 0x{self.blame.model:02x}"
            if self.blame.command:
                lines.append(f"written by: {self.blame.command}")
        if self.waves is not None:
            lines.append(f"waves: {self.waves}")
        return "\n".join(lines)


def replay_chunk(path: Path, *, waves: bool = False) -> ChunkReplay:
    """Run the chunk in a file on the RTL of this tree.

    Args:
        waves: write a waveform, named after the file.

    Raises:
        BackendError: the file is no chunk.  OSError: it cannot be read.
        SimulatorError: the simulation could not be built or started, or ended.
    """
    chunk = RunChunk.load(path)
    name = re.sub(r"[^\w.+-]", "-", path.stem)
    options = Options(waves=name if waves else False, seed=int(chunk.knobs["seed"]))
    runner = ChunkRunner(chunk.config, options)
    try:
        written = runner.rtl.simulator.waves
        try:
            result = runner.run(chunk)
        except SimulatorError as error:
            deviation, cycles = ended_by_itself(error), 0
            if deviation is None:
                raise
        else:
            deviation, cycles = result.deviation, result.cycles
    finally:
        runner.close()
    return ChunkReplay(
        chunk.number,
        chunk.commands,
        cycles,
        "" if deviation is None else deviation.what,
        None if deviation is None else blame(chunk, deviation),
        written,
    )
