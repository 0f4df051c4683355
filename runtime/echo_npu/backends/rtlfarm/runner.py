"""Run chunks on an RTL simulation."""

from __future__ import annotations

import threading
import time
from typing import Final

import numpy as np

from echo_npu.address_registers import HIGH_WORDS, write_address
from echo_npu.backends.rtlfarm.chunk import ChunkResult, Deviation, RunChunk
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO, digest_of
from echo_npu.backends.rtlfarm.play import PATIENCE, ChunkPlay, DeviationError, push, write_window
from echo_npu.backends.rtlmodel import Options, RtlmodelBackend
from echo_npu.commands.builders import load_program_command, nop_packet
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.errors import SimulatorError
from echo_npu.register_ops import ReadReg, WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ALL_IRQS, END_IRQS, State

_POLLS: Final = 10_000
_SHOWN_PAGES: Final = 1024


class ChunkRunner:
    """An RTL simulation that runs one chunk after another.

    Args:
        options: of rtlmodel.

    Raises (any method): SimulatorError: the simulation could not be built or started, or ended.
    """

    def __init__(self, config: str, options: Options) -> None:
        self.rtl = RtlmodelBackend(config, options)
        self._config = config
        self._options = options
        self._programs = b""  # in program memory
        self._fresh = True  # nothing has run since it was started
        self._spoiled = False  # the last chunk differed
        self._guard = threading.Lock()  # of the end, which comes from any thread
        self._closed = False

    def close(self) -> None:
        """End the simulation, or the one that is being started in its place. Idempotent."""
        with self._guard:
            self._closed = True
        self.rtl.close()

    def _restart(self) -> None:
        self.rtl.close()
        made = RtlmodelBackend(self._config, self._options)
        with self._guard:
            closed = self._closed
            if not closed:
                self.rtl = made
        if closed:
            made.close()
            raise SimulatorError("the simulation was closed")
        self._programs, self._fresh, self._spoiled = b"", True, False

    def run(self, chunk: RunChunk) -> ChunkResult:
        """Bring the simulation into the chunk's state, run the chunk and compare.

        Behind a chunk that differs, the next one gets a new simulation.
        """
        began = time.perf_counter()
        if self._spoiled or len(self._programs) > len(chunk.state.programs):
            self._restart()  # words that were once loaded stay loaded
        before = self._cycle()
        run = ChunkPlay(self.rtl, chunk)
        prepared = began
        try:
            self._restore(chunk)
            prepared = time.perf_counter()
            self._play(chunk, run)
            deviation = self._differences(chunk)
        except DeviationError as error:
            found = self._differences(chunk)
            deviation = Deviation(str(error), {} if found is None else found.pages, error.done)
        cycles, counters = run.measured()
        result = ChunkResult(
            chunk.number,
            cycles,
            counters,
            run.cleared,
            self._cycle() - before,
            time.perf_counter() - began,
            prepared - began,
            deviation,
            run.marks,
        )
        self._fresh, self._programs = False, chunk.programs
        self._spoiled = deviation is not None
        return result

    def _play(self, _chunk: RunChunk, run: ChunkPlay) -> None:
        run.play()

    def _cycle(self) -> int:
        return int(self.rtl.statistics()["cycles"])

    # --- before ---------------------------------------------------------------------------------------------

    def _restore(self, chunk: RunChunk) -> None:
        state = chunk.state
        rtl = self.rtl
        rtl.memory.clear()
        powered_up = (
            self._fresh and not state.submitted and not state.programs and not any(state.stored.values())
        )
        if not powered_up:
            rtl.run([WriteReg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])
            _until_idle(rtl)
            # Nothing may watch or guard what prepares the device.
            rtl.run(
                [
                    WriteReg(regs.WATCHDOG, 0),
                    WriteReg(regs.GUARD_SIZE, 0),
                    WriteReg(regs.IRQ_ENABLE, END_IRQS),
                    WriteReg(regs.IRQ_STATUS, ALL_IRQS),
                ]
            )
            self._load_programs(state.programs)
            base, size = state.ring
            shift = chunk.ring_shift
            if state.head and not shift:
                # Memory is zero, and a packet of zeros is a NOP.
                rtl.run(
                    [
                        *write_address(regs.RING_BASE, base),
                        WriteReg(regs.RING_SIZE, size),
                        WriteReg(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
                        WriteReg(regs.RING_TAIL, state.head),
                    ]
                )
                _until_done(rtl)
            if state.submitted and not state.waiting:
                push(rtl, [nop_packet().pack()])  # the state is DONE
                _until_done(rtl)
            write_window(rtl, state.window)
            rtl.run(
                [
                    WriteReg(offset, value)
                    for offset, value in state.stored.items()
                    if value or offset not in HIGH_WORDS.values()
                ]
            )
            if shift:
                rtl.run(
                    [
                        *write_address(regs.RING_BASE, base + shift * PACKET_BYTES),
                        WriteReg(regs.RING_SIZE, size - shift),
                    ]
                )
            enable = regs.CONTROL_RING_ENABLE.put(int(state.ring_enabled))
            rtl.run(
                [
                    WriteReg(regs.CONTROL, enable | regs.CONTROL_CLEAR_COUNTERS.mask),
                    WriteReg(regs.IRQ_STATUS, ALL_IRQS),
                ]
            )
        for number, page in chunk.pages.items():
            if page.content != ZERO.content:
                start = number * PAGE
                rtl.memory.bytes[start : start + PAGE] = np.frombuffer(page.content, np.uint8)
        rtl.set_memory_timing(chunk.timing)

    def _load_programs(self, words: bytes) -> None:
        if words == self._programs:
            return
        self.rtl.memory.write(0, np.frombuffer(words, np.uint8))
        push(self.rtl, load_program_command(0, len(words) // 8, 0).slots)
        _until_done(self.rtl)
        self.rtl.memory.clear()

    # --- after ----------------------------------------------------------------------------------------------

    def _differences(self, chunk: RunChunk) -> Deviation | None:
        """Compare all memory with what the model left."""
        memory = self.rtl.memory.bytes
        found: dict[int, bytes] = {}
        stray = 0
        held = {
            number
            for start, end in self.rtl.memory.extents()
            for number in range(start // PAGE, -(-end // PAGE))
        }
        for number in sorted(held.union(chunk.pages)):
            if number in chunk.undefined:
                continue
            content = memory[number * PAGE : (number + 1) * PAGE].tobytes()
            page = chunk.pages.get(number, ZERO)
            wanted = chunk.final.get(number)
            equal = content == page.content if wanted is None else digest_of(content) == wanted
            if not equal and len(found) < _SHOWN_PAGES:
                found[number] = content
                stray += number not in chunk.pages
        if not found:
            return None
        where = f", {stray} of them outside of what its commands touch" if stray else ""
        return Deviation(f"memory differs from the functional model's in {len(found)} pages{where}", found)


def _until_idle(rtl: RtlmodelBackend) -> None:
    """Wait until the device has done what prepares it."""
    for _ in range(_POLLS):
        (status,) = rtl.run([ReadReg(regs.STATUS)])
        if regs.STATUS_STATE.get(status) != State.BUSY:
            return
    raise DeviationError("the device does not get into the state with which the chunk begins")


def _until_done(rtl: RtlmodelBackend) -> None:
    """Wait for commands that prepare the device; interrupts at their end are enabled."""
    for _ in range(_POLLS):
        _, _, status = rtl.run([WaitIrq(PATIENCE), WriteReg(regs.IRQ_STATUS, ALL_IRQS), ReadReg(regs.STATUS)])
        if regs.STATUS_STATE.get(status) != State.BUSY:
            return
    raise DeviationError("the device does not get into the state with which the chunk begins")
