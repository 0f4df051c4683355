"""Recorded graphs: the packets of all their launches, with gaps for the addresses of one run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.errors import NpuProgramMemoryError
from echo_npu.torch import counting
from echo_npu.torch import launch as launches
from echo_npu.torch.compiled.arena import Lifetime, layout
from echo_npu.torch.compiled.blocks import RunBlocks
from echo_npu.torch.compiled.recorder import GraphRecorder, Reread
from echo_npu.torch.devices import OpenDevice
from echo_npu.torch.storages import tensor_on
from echo_npu.vector.program import Program

_WORD: Final = 4


@dataclass(frozen=True, slots=True)
class Result:
    """An output of a graph: a tensor in a block, strides and offset in elements; or `value` as it is."""

    block: int = -1
    offset: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    value: Any = None


class RecordedGraph:
    """Everything that a graph launches for inputs of certain shapes.

    Args:
        recorder: what the first run has shown.
        results: what it returns.
        given: how many of the blocks belong to inputs.

    Attributes:
        commands: of one run.
        slots: their packets.
    """

    def __init__(
        self, device: OpenDevice, recorder: GraphRecorder, results: Sequence[Result], given: int
    ) -> None:
        self.launches = recorder.launches
        self._results = list(results)
        self._given = given
        self._returned = sorted({each.block for each in results if each.block >= given})
        sizes = list(recorder.sizes)
        lifetimes: dict[int, list[int]] = {}
        operands: list[list[int]] = []
        for time, each in enumerate(self.launches):
            blocks = [block for block, _ in each.operands]
            for nbytes in each.plan.temporaries:
                blocks.append(len(sizes))
                sizes.append(nbytes)
            operands.append(blocks)
            for block in blocks:
                lifetimes.setdefault(block, [time, time])[1] = time
        made = [b for b in lifetimes if b >= given]
        kept = [b for b in made if b not in self._returned]
        offsets, self._arena = layout([Lifetime(sizes[b], *lifetimes[b]) for b in kept])
        self._offsets = dict(zip(kept, offsets, strict=True))
        self._first: list[list[int]] = [[] for _ in self.launches]
        self._last: list[list[int]] = [[] for _ in self.launches]
        for block in made:
            self._first[lifetimes[block][0]].append(block)
            self._last[lifetimes[block][1]].append(block)
        self._untouched = [b for b in self._returned if b not in lifetimes]
        self._merge(operands)
        self._sizes = sizes
        self._own = len(recorder.sizes)
        words = sum(len(each) for each in self._programs)
        self._whole = words <= device.npu.capabilities.program_words

    def _merge(self, operands: Sequence[Sequence[int]]) -> None:
        """Join the packets of all launches, and find the gaps."""
        data: list[bytes] = []
        addresses: list[tuple[int, int, int]] = []
        high_words: list[tuple[int, int, int]] = []
        entries: list[tuple[int, int]] = []
        self._reread: list[tuple[Reread, list[tuple[int, int]]]] = []
        programs: dict[bytes, int] = {}
        listed: list[Program] = []
        self.commands: list[int] = []
        at = 0
        for each, blocks in zip(self.launches, operands, strict=True):
            plan = each.plan
            part = bytearray(plan.data)
            if isinstance(each.params, Reread):
                gaps = [((at + byte) // _WORD, number) for byte, number in plan.params]
                self._reread.append((each.params, gaps))
            else:
                for byte, number in plan.params:
                    part[byte : byte + _WORD] = launches.bits(each.params[number]).to_bytes(_WORD, "little")
            for gaps_of, found in ((plan.addresses, addresses), (plan.high_words, high_words)):
                for byte, operand, offset in gaps_of:
                    inside = each.operands[operand][1] if operand < len(each.operands) else 0
                    found.append(((at + byte) // _WORD, blocks[operand], inside + offset))
            for program in plan.programs:
                if program.code not in programs:
                    programs[program.code] = len(listed)
                    listed.append(program)
            for byte, number in plan.entries:
                entries.append(((at + byte) // _WORD, programs[plan.programs[number].code]))
            data.append(bytes(part))
            self.commands += plan.slots
            at += len(part)
        self.slots = at // PACKET_BYTES
        self._template: NDArray[np.uint32] = np.frombuffer(b"".join(data), np.uint32)
        self._programs = tuple(listed)
        self._places, self._blocks, self._inside = _columns(addresses, 3)
        self._high_places, self._high_blocks, self._high_inside = _columns(high_words, 3)
        self._entry_places, self._entry_programs = _columns(entries, 2)

    def run(
        self,
        device: OpenDevice,
        storages: Sequence[torch.UntypedStorage],
        hosts: Sequence[torch.Tensor],
        *,
        one_by_one: bool,
    ) -> list[Any]:
        """Launch everything and return the outputs.

        Args:
            storages: those of the inputs, in the order of the recording.
            hosts: inputs on the CPU, likewise.
            one_by_one: operator by operator, so that each can be seen.
        """
        blocks = RunBlocks(device, storages, self._sizes, self._returned)
        with device.lock:
            for each in self.launches:
                counting.count(each.name, counting.NPU)
            if one_by_one or device.profile.enabled or not self._whole:
                self._run_each(device, blocks, hosts)
            else:
                self._run_whole(device, blocks, hosts)
        return [
            each.value
            if each.block < 0
            else tensor_on(blocks.storages[each.block], each.offset, each.shape, each.strides, each.dtype)
            for each in self._results
        ]

    def _run_whole(self, device: OpenDevice, blocks: RunBlocks, hosts: Sequence[torch.Tensor]) -> None:
        arena = 0
        try:
            for block in self._returned:
                blocks.take(block)
            arena = device.allocator.allocate(self._arena) if self._arena else 0
        except torch.OutOfMemoryError:
            blocks.restart()
            self._take_in_turn(blocks)
        else:
            for block, offset in self._offsets.items():
                blocks.bases[block] = arena + offset
        try:
            if self.commands:
                self._add(device, blocks.bases, hosts)
        finally:
            if arena:
                device.allocator.free(arena)  # later commands may use it: they run later

    def _take_in_turn(self, blocks: RunBlocks) -> None:
        """Give each block memory from its first use to its last: what operators one by one would take."""
        try:
            for block in self._untouched:
                blocks.take(block)
            for first, last in zip(self._first, self._last, strict=True):
                for block in first:
                    blocks.take(block)
                for block in last:
                    blocks.drop(block)
        finally:
            blocks.drop_all()

    def _add(self, device: OpenDevice, bases: NDArray[np.int64], hosts: Sequence[torch.Tensor]) -> None:
        try:
            entries = device.npu.driver.entries(self._programs)
        except NpuProgramMemoryError:
            device.stream.synchronize()
            entries = device.npu.driver.entries_for_run(self._programs)
        words = self._template.copy()
        words[self._places] = (bases[self._blocks] + self._inside) & 0xFFFF_FFFF
        words[self._high_places] = (bases[self._high_blocks] + self._high_inside) >> 32
        for each, gaps in self._reread:
            values = each.values(hosts)
            for place, number in gaps:
                words[place] = launches.bits(values[number])
        if entries:
            words[self._entry_places] = np.array(entries)[self._entry_programs]
        data = words.tobytes()
        commands: list[Command] = []
        at = 0
        for slots in self.commands:
            end = at + slots * PACKET_BYTES
            commands.append(Command(tuple(data[i : i + PACKET_BYTES] for i in range(at, end, PACKET_BYTES))))
            at = end
        device.stream.add(commands, self.slots)

    def _run_each(self, device: OpenDevice, blocks: RunBlocks, hosts: Sequence[torch.Tensor]) -> None:
        """Launch operator by operator; each launch finds memory for its temporaries itself."""
        try:
            for block in self._untouched:
                blocks.take(block)
            for each, first, last in zip(self.launches, self._first, self._last, strict=True):
                params = each.params.values(hosts) if isinstance(each.params, Reread) else each.params
                for block in first:
                    if block < self._own:
                        blocks.take(block)
                pointers = [int(blocks.bases[block]) + offset for block, offset in each.operands]
                with torch.profiler.record_function(each.name):
                    launches.submit(device, each.name, each.plan, pointers, params)
                for block in last:
                    blocks.drop(block)
        finally:
            blocks.drop_all()


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> list[NDArray[np.int64]]:
    return list(np.array(rows, np.int64).reshape(-1, count).T)
