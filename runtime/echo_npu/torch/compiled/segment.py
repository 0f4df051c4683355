"""A stretch of a graph without the host: it runs operator by operator once, then from the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
from torch import fx

from echo_npu.torch.compiled.program import RecordedGraph, Result
from echo_npu.torch.compiled.recorder import GraphRecorder
from echo_npu.torch.devices import OpenDevice

Signature: TypeAlias = tuple[Any, ...]

MOST_RECORDS: Final = 16
"""Recordings of one stretch: one for each set of shapes."""


class Segment:
    """Nodes of a graph that are recorded together.

    Args:
        module: the whole graph.
        nodes: in their order.
        inputs: nodes before them whose values they use.
        outputs: those of `nodes` whose values are used later.

    Attributes:
        inputs, outputs: as given.
        records: by what the inputs look like.
        obstacles: nodes in which the host took part in the last recording, with the reasons.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        nodes: Sequence[fx.Node],
        inputs: Sequence[fx.Node],
        outputs: Sequence[fx.Node],
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.records: dict[Signature, RecordedGraph] = {}
        self.obstacles: Mapping[fx.Node, str] = {}
        graph = fx.Graph()
        copies = {each: graph.placeholder(each.name) for each in inputs}
        for each in nodes:
            copies[each] = graph.node_copy(each, copies.__getitem__)
        graph.output(tuple(copies[each] for each in outputs))
        self._module = fx.GraphModule(module, graph)
        self._origins = {copy: each for each, copy in copies.items()}

    def run(self, device: OpenDevice, given: Sequence[Any]) -> list[Any]:
        """Return the values of the outputs for those of the inputs."""
        hosts = [each for each in given if isinstance(each, torch.Tensor) and each.is_cpu]
        storages, key = _signature(given)
        record = self.records.get(key)
        if record is not None:
            seen = bool(torch._C._autograd._profiler_enabled())
            return _restored(record.run(device, storages, hosts, one_by_one=seen), given)
        if len(self.records) == MOST_RECORDS:
            self.records.pop(next(iter(self.records)))
        recorder = GraphRecorder(storages, hosts)
        with _recording(device, recorder):
            made = list(_NotingInterpreter(self._module, recorder).run(*given))
        results = []
        for node, value in zip(self.outputs, made, strict=True):
            recorder.node = node
            results.append(_result(value, given, recorder))
        self.obstacles = {self._origins.get(each, each): why for each, why in recorder.obstacles.items()}
        if not self.obstacles:
            self.records[key] = RecordedGraph(device, recorder, results, len(storages))
        return made


class _NotingInterpreter(fx.Interpreter):
    """Runs a graph and tells the recorder which node runs."""

    def __init__(self, module: fx.GraphModule, recorder: GraphRecorder) -> None:
        super().__init__(module)
        self._recorder = recorder

    def run_node(self, n: fx.Node) -> Any:
        self._recorder.node = n
        return super().run_node(n)


@contextmanager
def _recording(device: OpenDevice, recorder: GraphRecorder) -> Iterator[None]:
    """Let `recorder` take what is launched inside the block."""
    with device.lock:
        device.recorder = recorder
        try:
            yield
        finally:
            device.recorder = None


class _Given:
    """An output that is an input itself."""

    def __init__(self, number: int) -> None:
        self.number = number


def _result(value: Any, given: Sequence[Any], recorder: GraphRecorder) -> Result:
    for number, each in enumerate(given):
        if value is each:
            return Result(value=_Given(number))
    if not isinstance(value, torch.Tensor):
        return Result(value=value)
    if not on_npu(value):
        recorder.obstacle("an output on the CPU")
        return Result()
    shape, strides = tuple(value.shape), tuple(value.stride())
    if not value.numel():
        return Result(value=value)
    place = recorder.place(value.untyped_storage().data_ptr())
    if place is None:
        recorder.obstacle("an output that nothing in the graph makes")
        return Result()
    return Result(place[0], int(value.storage_offset()), shape, strides, value.dtype)


def _restored(made: list[Any], given: Sequence[Any]) -> list[Any]:
    return [given[each.number] if isinstance(each, _Given) else each for each in made]


def _signature(given: Sequence[Any]) -> tuple[list[torch.UntypedStorage], Signature]:
    """Return the storages of the tensors on the device, each once, and what a recording depends on."""
    storages: list[torch.UntypedStorage] = []
    numbers: dict[int, int] = {}
    key: list[Any] = [each for each in given if not isinstance(each, torch.Tensor)]
    for each in given:
        if not on_npu(each):
            continue
        storage = each.untyped_storage()
        number = numbers.setdefault(storage.data_ptr(), len(storages))
        if number == len(storages):
            storages.append(storage)
        key += (number, each.dtype, each.shape, each.stride(), each.storage_offset())
    return storages, tuple(key)


def on_npu(value: Any) -> bool:
    """Return whether a value is a tensor of a device."""
    return isinstance(value, torch.Tensor) and value.device.type == "echo_npu"
