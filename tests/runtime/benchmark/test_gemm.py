"""Measuring products on the functional model: comparison, order, and the effect of faults."""

import dataclasses
import json

import numpy as np
import pytest

import echo_npu
from echo_npu.benchmark.gemm import Measured, Session, judged, measure_product, workload_name
from echo_npu.benchmark.measure import numbers, random_elements
from echo_npu.benchmark.products import Product
from echo_npu.commands.command import Command
from echo_npu.device import Device
from echo_npu.spec.data_types import DataType
from echo_npu.spec.memory_map import MEMORY_REGIONS

SHAPES = [
    Product(1, 1, 1),
    Product(5, 6, 7),
    Product(17, 33, 9, trans_b=True),
    Product(3, 4, 5, batch=3),
    Product(3, 4, 5, batch=2, trans_b=True),
]


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
def test_products_agree_with_numpy(npu: Device, dtype: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submitted command is the product asked for, of the operands drawn."""
    destinations: list[int] = []
    execute = npu.execute

    def watched(command: Command) -> None:
        destinations.append(command.packet.dst_addr)
        execute(command)

    monkeypatch.setattr(npu, "execute", watched)
    with echo_npu.open("cmodel") as twin:
        for product in SHAPES:
            measured = measure_product(npu, product, dtype, twin=twin, seed=3)
            assert measured.bit_exact is True
            assert measured.cycles is None
            rng = np.random.default_rng(3)
            b, m, k, n = product.batch, product.m, product.k, product.n
            left = numbers(random_elements(rng, dtype, (b, m, k)), dtype).astype(np.float64)
            stored = (b, n, k) if product.trans_b else (b, k, n)
            right = numbers(random_elements(rng, dtype, stored), dtype).astype(np.float64)
            right = right.swapaxes(1, 2) if product.trans_b else right
            raw = np.empty(b * m * n, np.float32)
            twin.memcpy(raw, destinations[-1], raw.nbytes)
            bound = 1e-6 * (np.abs(left) @ np.abs(right))
            assert np.all(np.abs(raw.reshape(b, m, n) - left @ right) <= bound)


def test_memory_is_given_back(npu: Device) -> None:
    measure_product(npu, Product(5, 6, 7), DataType.FP32)
    assert all(each.used == 0 for each in npu.memory_statistics().values())
    with pytest.raises(echo_npu.NpuOutOfMemoryError):
        measure_product(npu, Product(1 << 14, 1, 1 << 14), DataType.FP32)
    assert all(each.used == 0 for each in npu.memory_statistics().values())


@pytest.mark.parametrize("where", [0, -1])
def test_a_wrong_byte_is_seen(npu: Device, monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    """A wrong first or last byte of the device under test is seen."""
    product = Product(4, 5, 6)
    execute = npu.execute

    def wrong(command: Command) -> None:
        execute(command)
        at = command.packet.dst_addr + where % (4 * product.m * product.n)
        raw = bytearray(1)
        npu.memcpy(raw, at, 1)
        npu.memcpy(at, bytes([raw[0] ^ 1]), 1)

    monkeypatch.setattr(npu, "execute", wrong)
    with echo_npu.open("cmodel") as twin:
        assert measure_product(npu, product, DataType.FP32, twin=twin).bit_exact is False


def test_without_a_twin_nothing_is_written_but_the_result(npu: Device) -> None:
    base = MEMORY_REGIONS["weight"].base
    npu.memcpy(base + 64, bytes([7] * 4096), 4096)
    assert measure_product(npu, Product(8, 8, 8), DataType.INT8).bit_exact is None
    left = bytearray(4096)
    npu.memcpy(left, base + 64, 4096)
    assert set(left) == {7}


def test_a_session_keeps_the_order_and_skips_what_is_beyond_the_limit() -> None:
    work = [(product, dtype) for product in SHAPES for dtype in (DataType.FP32, DataType.INT8)]
    for jobs in (1, 3):
        done: list[Measured] = []
        measured = Session(backend="cmodel", check_limit=210, jobs=jobs).run(work, done.append)
        assert [(each.product, each.dtype) for each in measured] == work
        assert sorted(each.name for each in done) == sorted(workload_name(*each) for each in work)
        assert [each.bit_exact for each in measured] == [
            True if product.macs <= 210 else None for product, _ in work
        ]


def test_the_long_ones_go_first() -> None:
    done: list[Measured] = []
    Session(backend="cmodel", check_limit=0).run([(each, DataType.FP32) for each in SHAPES], done.append)
    assert [each.product.macs for each in done] == sorted((each.macs for each in SHAPES), reverse=True)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_ends_a_session(jobs: int) -> None:
    done: list[Measured] = []
    work = [(Product(1 << 14, 1, 1 << 14), DataType.FP32)] + [(SHAPES[0], DataType.FP32)] * 1000
    with pytest.raises(echo_npu.NpuOutOfMemoryError):
        Session(backend="cmodel", check_limit=0, jobs=jobs).run(work, done.append)
    assert len(done) < 1000


def test_a_type_that_the_device_lacks_is_named(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "capabilities", dataclasses.replace(npu.capabilities, data_types=("fp32",)))
    with pytest.raises(ValueError, match="dtype is 'int8'; the device has fp32"):
        measure_product(npu, SHAPES[0], DataType.INT8)


def test_json(npu: Device) -> None:
    measured = judged(npu.capabilities, Product(16, 64, 16, batch=9, trans_b=True), DataType.FP32, 2650)
    report = json.loads(json.dumps(measured.to_dict()))
    assert report == {
        "m": 16, "k": 64, "n": 16, "batch": 9, "trans_b": True, "dtype": "fp32", "macs": 147456,
        "cycles": 2650, "utilisation": 147456 / (2650 * 256), "bound": 2304, "bound_by": "read",
        "intensity": 147456 / (2304 * 32), "roofline": 2304 / 2650, "overhead": 346, "bit_exact": None,
        "wall_s": None, "counters": {},
    }  # fmt: skip
