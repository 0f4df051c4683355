"""Devices in phases: they work at the same time, what they exchange, and what happens when one fails."""

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import echo_npu
from echo_npu import NpuDeviceError
from echo_npu.backends.rtlmodel import Options
from echo_npu.commands.builders import memcpy_command
from echo_npu.sharding import DeviceGroup, Spent
from echo_npu.sharding.devices import Gather
from tests.refusals import refuses
from tests.runtime.backends.model_simulation import ModelSimulation
from tests.runtime.sharding.conftest import MakeGroup


def test_devices_work_at_the_same_time(make_group: MakeGroup) -> None:
    group = make_group(3)
    together = threading.Barrier(3, timeout=60)  # broken unless all three wait at once
    assert sorted(group.each(lambda index: (together.wait(), index)[1])) == [0, 1, 2]


def test_gathered_columns(make_group: MakeGroup) -> None:
    group = make_group(3)
    owns = [slice(0, 4), slice(4, 4), slice(4, 5)]
    tensors = [
        device.tensor(np.full((2, 5), index + 7, np.float32)) for index, device in enumerate(group.devices)
    ]
    gathers = [
        Gather(tensor, own, index < 2) for index, (tensor, own) in enumerate(zip(tensors, owns, strict=True))
    ]
    group.gather(gathers)
    assert [tensor.to_numpy()[1].tolist() for tensor in tensors] == [
        [7, 7, 7, 7, 9], [7, 7, 7, 7, 9], [9, 9, 9, 9, 9],
    ]  # fmt: skip
    assert group.spent().traffic == 8 * (1 + 5)
    refuses(ValueError, ["one device's own"], group.gather, [Gather(each, slice(0, 5)) for each in tensors])
    refuses(ValueError, ["one device's own"], group.gather, [Gather(each, slice(0, 1)) for each in tensors])
    parts = [Gather(tensors[0], slice(0, 3)), Gather(tensors[1], slice(3, 5))]
    refuses(ValueError, ["2 gathers for 3"], group.gather, parts)
    other = group.devices[1].empty((2, 6))
    wide = [Gather(tensors[0], slice(0, 5)), Gather(other, slice(0, 0)), Gather(tensors[2], slice(0, 0))]
    refuses(ValueError, ["(2, 6)"], group.gather, wide)


def test_a_phase_takes_the_cycles_of_its_slowest_device() -> None:
    with contextlib.ExitStack() as stack:
        devices = [
            stack.enter_context(echo_npu.Device(ModelSimulation("small", Options()))) for _ in range(2)
        ]
        group = stack.enter_context(DeviceGroup(devices))
        tensors = [device.tensor(np.ones((1, 4), np.float32)) for device in devices]

        def passes(index: int, counts: list[tuple[int, int]]) -> Iterator[Gather]:
            for each in counts:
                for _ in range(each[index]):
                    devices[index].add(tensors[index], tensors[index])
                yield Gather(tensors[index], slice(2 * index, 2 * index + 2))

        def run(*counts: tuple[int, int]) -> Spent:
            before = group.spent()
            group.run([passes(index, list(counts)) for index in range(2)])
            return group.spent().since(before)

        run((1, 1))
        busy = [device.counters()["busy_cycles"] for device in devices]
        first, second = run((1, 5)), run((6, 2))
        both = run((1, 5), (6, 2))
        assert [each.phases for each in (first, second, both)] == [1, 1, 2]
        assert [each.traffic for each in (first, second, both)] == [16, 16, 32]
        assert first.critical == max(first.cycles) == first.cycles[1] > 2 * first.cycles[0]
        assert second.critical == max(second.cycles) == second.cycles[0] > 2 * second.cycles[1]
        assert both.critical == pytest.approx(first.critical + second.critical, rel=0.5)
        assert max(both.cycles) < both.critical < sum(both.cycles)
        spent = [sum(each.cycles[index] for each in (first, second, both)) for index in range(2)]
        after = [device.counters()["busy_cycles"] for device in devices]
        assert spent == [now - then for then, now in zip(busy, after, strict=True)]


def test_the_first_devices_error_is_raised(make_group: MakeGroup) -> None:
    def fails(index: int) -> None:
        raise ValueError(f"device {index}")

    refuses(ValueError, "device 0", make_group(3).each, fails)


def test_a_device_that_fails_ends_the_run(make_group: MakeGroup) -> None:
    group = make_group(2)

    def passes(index: int) -> Iterator[Gather]:
        device = group.devices[index]
        if index == 1:
            device.execute(memcpy_command(0x2000_0000, 0x1000_0000, 64))
        else:
            device.relu(device.tensor(np.ones(4, np.float32)))
        yield Gather(device.empty((1, 1)), slice(index, 1))

    with pytest.raises(NpuDeviceError):
        group.run([passes(0), passes(1)])
    group.devices[1].clear_error()
    assert group.each(lambda index: group.devices[index].status().state.name) == ["DONE", "IDLE"]


def test_passes_that_do_not_fit_are_refused(make_group: MakeGroup) -> None:
    group = make_group(2)

    def passes(index: int) -> Iterator[Gather]:
        if index:
            yield Gather(group.devices[index].empty((1, 1)), slice(0, 1))

    refuses(ValueError, ["ended"], group.run, [passes(0), passes(1)])
    refuses(ValueError, ["1 passes for 2"], group.run, [passes(0)])


def test_what_is_no_group_is_refused() -> None:
    refuses(ValueError, ["got 0"], DeviceGroup, [])
    with echo_npu.open("cmodel") as device:
        refuses(ValueError, ["got 2"], DeviceGroup, [device, device])
