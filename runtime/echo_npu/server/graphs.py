"""Graphs of clients as recorded programs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.driver.recording import RecordingDriver
from echo_npu.server.fusion import FusedNodes, fused
from echo_npu.server.liveness import WrittenBytes
from echo_npu.server.operations import WITHOUT_COMMANDS, check, emit
from echo_npu.server.operations.base import Emitter, check_places, extent, require
from echo_npu.server.protocol import GraphFlag, GraphNode, GraphTensor
from echo_npu.server.results import check_results, left_by

MOST_GRAPHS: Final = 8
"""Graphs that are kept for another run."""

MOST_COMMANDS: Final = 1 << 19
"""Commands of a graph: a recording takes a kilobyte and 50 to 250 microseconds for each."""

NO_FLAGS: Final = GraphFlag(0)


class GraphRunner:
    """Runs the graphs of one client, and keeps the latest of them.

    Attributes:
        runs: how many graphs were run, each with one doorbell unless it has more packets than the ring.
    """

    def __init__(self, device: Device) -> None:
        self.runs = 0
        self._device = device
        self._kept: OrderedDict[int, _Graph] = OrderedDict()

    def run_new(self, key: int, nodes: Sequence[GraphNode], flags: GraphFlag = NO_FLAGS) -> None:
        """Record a graph, run it, and keep it under its key unless that is 0.

        Raises:
            UnsupportedError: naming a node that the device does not compute.
            ValueError: it has too many commands, a number of a row that there is not, or a tensor outside of
                memory.
            NpuError: the device ran out of memory or failed.
            NotANumberError: with REFUSE_NAN, a result of the graph holds a NaN.
        """
        # Nobody has checked the tensors of the others.
        nodes = [node for node in nodes if node.op not in WITHOUT_COMMANDS]
        for node in nodes:
            check(self._device, node)
            check_places(self._device, node)
        self._drop(key)
        while len(self._kept) >= MOST_GRAPHS:
            self._kept.popitem(last=False)[1].close()
        graph = _Graph(self._device, nodes, flags)
        try:
            graph.run()
        finally:
            self.runs += 1
            if key:
                self._kept[key] = graph
            else:
                graph.close()

    def run(self, key: int) -> bool:
        """Run a graph that is kept, and return whether there is one."""
        graph = self._kept.get(key)
        if graph is None:
            return False
        self._kept.move_to_end(key)
        if graph.renew():
            self.runs += 1
            graph.run()
        else:
            self.run_new(key, graph.nodes, graph.flags)
        return True

    def forget(self) -> None:
        """Give back what all graphs hold."""
        for graph in self._kept.values():
            graph.close()
        self._kept.clear()

    def _drop(self, key: int) -> None:
        graph = self._kept.pop(key, None)
        if graph is not None:
            graph.close()


class _Graph(Emitter):
    """A recorded graph, and what its recording took from the content of its inputs."""

    def __init__(self, device: Device, nodes: Sequence[GraphNode], flags: GraphFlag) -> None:
        super().__init__(device)
        self.nodes = tuple(nodes)
        self.flags = flags
        self._checked = left_by(nodes) if flags & GraphFlag.REFUSE_NAN else []
        self._conditions: list[Callable[[Emitter], bool]] = []
        self._moving: list[tuple[Callable[[Emitter], None], range]] = []
        self._indices: dict[tuple[int, int], bytes] = {}
        self._written = WrittenBytes()
        with device.record() as self._program:
            driver = device.driver
            assert isinstance(driver, RecordingDriver)
            self._driver = driver
            computed = [node for node in nodes if all(node.destination.elements)]
            for each in fused(computed) if flags & GraphFlag.FUSE else computed:
                if isinstance(each, FusedNodes):
                    each.emit(self)
                else:
                    emit(self, each)
                self._written.add(each.written if isinstance(each, FusedNodes) else [each.destination])
                self.check_size()
            recorded = driver.recorded
        self._first = len(self._program) - recorded
        """The commands before it restore constants."""
        self.shared.clear()
        self._written = WrittenBytes()  # from now on inputs are looked at between two runs

    # --- while recording ------------------------------------------------------------------------------------

    def content(self, tensor: GraphTensor) -> NDArray[np.uint8]:
        # The target of a copy is a tensor that no node makes, which clients call an input.
        require(not self._written.meet(tensor), "an input that the graph itself writes before")
        return self.device.backend.read_mem(tensor.address, extent(tensor))

    def holds_while(self, condition: Callable[[Emitter], bool]) -> None:
        self._conditions.append(condition)

    def moving(self, build: Callable[[Emitter], None], index: GraphTensor) -> None:
        start = self._driver.recorded
        build(self)
        self._moving.append((build, range(start, self._driver.recorded)))
        self._indices[index.address, extent(index)] = self.content(index).tobytes()

    def check_size(self) -> None:
        driver = self.device.driver
        assert isinstance(driver, RecordingDriver)
        if driver.recorded > MOST_COMMANDS:
            raise ValueError(f"a graph of more than {MOST_COMMANDS} commands")

    # --- running --------------------------------------------------------------------------------------------

    def renew(self) -> bool:
        """Adapt the program to what its inputs hold now; False if it must be recorded again."""
        if not all(condition(self) for condition in self._conditions):
            return False
        now = {
            (address, size): self.device.backend.read_mem(address, size).tobytes()
            for address, size in self._indices
        }
        if now == self._indices:
            return True
        with self.device.record() as part:
            driver = self.device.driver
            assert isinstance(driver, RecordingDriver)
            for build, place in self._moving:
                start = driver.recorded
                build(self)
                if driver.recorded - start != len(place):
                    return False
        places = [self._first + number for _, place in self._moving for number in place]
        self._indices = now
        return self._program.exchange(places, part)

    def run(self) -> None:
        """Run it, wait, and look at what it leaves."""
        if len(self._program):
            self._program.run()
        check_results(self.device.backend, self._checked)

    def close(self) -> None:
        """Give its memory back."""
        self._program.close()
