"""The same program leaves the same bytes in all device memory on cmodel and rtlmodel, and the same state."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, NpuDeviceError, Packet
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.spec import registers as regs
from tests.rtlmodel.programs import ACTIVATION, ACTIVATION_BYTES, WEIGHT_BYTES, command, image, spoiled
from tests.rtlmodel.simulated import STALLS, backend_of, open_rtl

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module", params=["without stalls", "with stalls"])
def opened(request: pytest.FixtureRequest, config: str) -> Iterator[tuple[Device, Device]]:
    """An RTL simulation and a functional model."""
    stalls = STALLS if request.param == "with stalls" else 0.0
    with (
        open_rtl(config, stalls=stalls, seed=11) as rtl,
        echo_npu.open("cmodel", config=config) as model,
    ):
        yield rtl, model


@pytest.fixture
def pair(opened: tuple[Device, Device]) -> tuple[Device, Device]:
    """Both devices after a reset; memory keeps the content of earlier tests, the same in both."""
    for device in opened:
        device.reset()
    return opened


def fill(devices: tuple[Device, Device], rng: np.random.Generator) -> None:
    """Write the same random content to both."""
    for address, nbytes in ((0, WEIGHT_BYTES), (ACTIVATION, ACTIVATION_BYTES)):
        content = image(rng, nbytes)
        for device in devices:
            device.backend.write_mem(address, content)


def assert_same(rtl: Device, model: Device) -> None:
    """Compare every byte of both regions, and the devices' states and counts."""
    assert isinstance(model.backend, CmodelBackend)
    assert backend_of(rtl).memory.differences(model.backend.memory) == []
    ours, theirs = rtl.status(), model.status()
    assert (ours.state, ours.error_code) == (theirs.state, theirs.error_code)
    for name in ("macs", "commands"):
        assert rtl.counters()[name] == model.counters()[name], name
    for offset in (regs.RETIRED, regs.ERROR_INDEX, regs.ERROR_ADDR, regs.IRQ_STATUS):
        assert rtl.backend.read_reg(offset) == model.backend.read_reg(offset), hex(offset)


def test_the_registers_read_the_same_after_reset(pair: tuple[Device, Device]) -> None:
    for name, register in regs.REGISTERS.items():
        if register.readable and name not in ("CYCLES", "READ_BEATS", "HOST_BEATS"):
            for index in range(register.count):
                offset = register.offset + index * register.stride
                assert pair[0].backend.read_reg(offset) == pair[1].backend.read_reg(offset), name


@pytest.mark.parametrize("way", ["submit", "submit_batch"])
@pytest.mark.parametrize("seed", [1, 2])
def test_programs_leave_the_same_memory(pair: tuple[Device, Device], way: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fill(pair, rng)
    program: list[Packet] = list(itertools.chain.from_iterable(command(rng) for _ in range(60)))
    for device in pair:
        getattr(device, way)(program)
        device.wait()
    assert_same(*pair)
    assert pair[0].counters()["commands"] == 60


@pytest.mark.parametrize("seed", [3, 4])
def test_spoiled_commands_fail_the_same_way_and_both_work_on(pair: tuple[Device, Device], seed: int) -> None:
    rng = np.random.default_rng(seed)
    fill(pair, rng)
    failures = 0
    for _ in range(80):
        bad, good = spoiled(rng), command(rng)
        outcomes = []
        for device in pair:
            try:
                device.execute(bad)
                outcomes.append(None)
            except NpuDeviceError as error:
                outcomes.append((error.code, error.packet, error.address))
                device.clear_error()
            device.execute(good)
        assert outcomes[0] == outcomes[1], [str(packet) for packet in bad]
        failures += outcomes[0] is not None
    assert failures > 30
    assert_same(*pair)


def test_an_error_in_a_batch_stops_both_at_the_same_place(pair: tuple[Device, Device]) -> None:
    rng = np.random.default_rng(5)
    fill(pair, rng)
    program = [*command(rng), *command(rng), echo_npu.NpuCommandPacket(0x66), *command(rng)]
    for way in ("submit", "submit_batch"):
        facts = []
        for device in pair:
            getattr(device, way)(program)
            with pytest.raises(NpuDeviceError) as caught:
                device.wait()
            facts.append((caught.value.code, caught.value.packet))
        assert facts[0] == facts[1]
        assert_same(*pair)
        for device in pair:
            device.clear_error()


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 130, 33), (33, 1, 17), (17, 65, 1), (50, 70, 90)], ids=str)
def test_operations_on_arrays_give_the_same_bits(
    pair: tuple[Device, Device], shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m * k * n)
    a, b = rng.standard_normal((2, m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32)
    products = [device.matmul(a, b) for device in pair]
    assert np.array_equal(products[0].view(np.uint32), products[1].view(np.uint32))
    sums = [device.add(products[0], products[1], alpha=-0.37) for device in pair]
    assert np.array_equal(sums[0].view(np.uint32), sums[1].view(np.uint32))
    copies = [device.copy(a.T) for device in pair]
    assert np.array_equal(copies[0], copies[1])
    assert np.array_equal(copies[0], a.T)


def test_the_comparison_sees_a_single_bit(config: str) -> None:
    with echo_npu.open("cmodel", config=config) as one, echo_npu.open("cmodel", config=config) as other:
        assert isinstance(one.backend, CmodelBackend)
        assert isinstance(other.backend, CmodelBackend)
        one.memset(0x1FFF_FFFF, 1, 1)
        assert one.backend.memory.differences(other.backend.memory) == [(0x1FFF_FFFF, 1, 0)]
        assert other.backend.memory.differences(one.backend.memory) == [(0x1FFF_FFFF, 0, 1)]
        other.memset(0x1FFF_FFFF, 1, 1)
        assert one.backend.memory.differences(other.backend.memory) == []
