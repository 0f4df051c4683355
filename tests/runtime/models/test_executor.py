"""The executor notices every difference between the device and its twin."""

import numpy as np

from echo_npu import Device
from echo_npu.models.executor import Executor
from echo_npu.models.operations import Add
from tests.refusals import refuses


def _values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((4, 8)).astype(np.float32)


def test_a_record_of_an_operation(device: Device, twin: Device) -> None:
    executor = Executor(device, twin)
    a, b, out = executor.tensor("a", _values()), executor.tensor("b", _values(1)), executor.empty("c", (4, 8))
    executor.run("sum", Add(), (a, b), out)
    (record,) = executor.records
    assert (record.name, record.op, record.where, record.shape) == ("sum", "add", "NPU", "4x8")
    assert record.passed
    assert executor.records == [record]
    assert np.array_equal(out.device.to_numpy(), _values() + _values(1))


def test_a_view_is_the_same_place_on_both(device: Device, twin: Device) -> None:
    executor = Executor(device, twin)
    source, target = executor.tensor("a", _values()), executor.tensor("b", _values(1))
    part = source.view(lambda t: t[1:3])
    executor.run("sum", Add(), (part, part), target.view(lambda t: t[::2]))
    (record,) = executor.records
    assert record.passed
    expected = _values(1)
    expected[::2] = 2 * _values()[1:3]
    assert np.array_equal(target.device.to_numpy(), expected)


def test_a_stray_write_is_found_once(device: Device, twin: Device) -> None:
    executor = Executor(device, twin)
    a, other = executor.tensor("a", _values()), executor.tensor("b", _values())
    out = executor.empty("c", (4, 8))
    device.memset(other.device.ptr + 5, 0x77, 1)
    executor.run("sum", Add(), (a, a), out)
    executor.run("again", Add(), (a, a), out)
    assert [record.exact for record in executor.records] == [False, True]


def test_another_history_of_allocations_is_refused(device: Device, twin: Device) -> None:
    device.malloc(64)
    executor = Executor(device, twin)
    refuses(ValueError, "same history of allocations", executor.empty, "a", (3,))
    executor.release()
    assert twin.memory_statistics()["activation"].used == 0


def test_a_damaged_weight_is_remembered_after_it_was_replaced(device: Device, twin: Device) -> None:
    executor = Executor(device, twin)
    weight = executor.tensor("w", _values(), region="weight")
    executor.upload(weight, _values(1))
    assert executor.weights_exact()
    device.memset(weight.device.ptr, 0, 1)
    executor.upload(weight, _values(2))
    assert np.array_equal(weight.device.to_numpy(), _values(2))
    assert not executor.weights_exact()
