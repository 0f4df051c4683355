"""A compiled graph: it runs operator by operator once, and from the record afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
from torch import fx

from echo_npu.torch.compiled.program import RecordedGraph, Result
from echo_npu.torch.compiled.recorder import GraphRecorder
from echo_npu.torch.devices import OpenDevice, opened

Signature: TypeAlias = tuple[Any, ...]

MOST_RECORDS: Final = 16
"""Recordings of one graph: one for each set of shapes."""


class CompiledGraph:
    """What replaces a graph: a function of its inputs that returns the list of its outputs.

    Args:
        name: for reports and profiles.
        module: the graph, whose operators are native or fall back.

    Attributes:
        operators: calls in the graph.
        fused: how many programs replace several operators.
        records: by what the inputs look like.
        obstacles: why the graph runs operator by operator; empty if it is recorded.
        runs: how often it ran.
    """

    def __init__(self, name: str, module: fx.GraphModule, fused: int = 0) -> None:
        self.name = name
        self.operators = sum(node.op == "call_function" for node in module.graph.nodes)
        self.fused = fused
        self.records: dict[Signature, RecordedGraph] = {}
        self.obstacles: list[str] = []
        self.runs = 0
        self._module = module
        self._constants = [
            each
            for each in (*module.parameters(), *module.buffers(), *vars(module).values())
            if isinstance(each, torch.Tensor)
        ]

    def __call__(self, *given: Any) -> list[Any]:
        self.runs += 1
        with torch.profiler.record_function(self.name):
            device = _device_of([*given, *self._constants])
            if device is None or self.obstacles:
                return _listed(self._module(*given))
            tensors = [each for each in (*given, *self._constants) if _on_npu(each)]
            storages, key = _signature(given, tensors)
            record = self.records.get(key)
            if record is not None:
                seen = bool(torch._C._autograd._profiler_enabled())
                return _restored(record.run(device, storages, one_by_one=seen), given)
            if len(self.records) == MOST_RECORDS:
                self.records.pop(next(iter(self.records)))
            return self._record(device, given, storages, key)

    def _record(
        self, device: OpenDevice, given: Sequence[Any], storages: list[torch.UntypedStorage], key: Signature
    ) -> list[Any]:
        recorder = GraphRecorder(storages)
        if any(isinstance(each, torch.Tensor) and each.is_cpu for each in given):
            recorder.obstacle("an input on the CPU")
        with _recording(device, recorder):
            made = _listed(self._module(*given))
        results = [_result(each, given, recorder) for each in made]
        self.obstacles = recorder.obstacles
        if not self.obstacles:
            self.records[key] = RecordedGraph(device, recorder, results, len(storages))
        return made


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
    if not _on_npu(value):
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


def _signature(
    given: Sequence[Any], tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.UntypedStorage], Signature]:
    """Return the storages of the tensors, each once, and what a recording depends on."""
    storages: list[torch.UntypedStorage] = []
    numbers: dict[int, int] = {}
    key: list[Any] = [each for each in given if not isinstance(each, torch.Tensor)]
    for each in tensors:
        storage = each.untyped_storage()
        number = numbers.setdefault(storage.data_ptr(), len(storages))
        if number == len(storages):
            storages.append(storage)
        key += (number, each.dtype, each.shape, each.stride(), each.storage_offset())
    return storages, tuple(key)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _on_npu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "echo_npu"


def _device_of(values: Sequence[Any]) -> OpenDevice | None:
    """Return the device of all tensors; None if there is none, or if there are several."""
    found = {each.device.index for each in values if _on_npu(each)}
    return opened(found.pop()) if len(found) == 1 else None
