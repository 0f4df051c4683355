"""The self-test passes on a device that works, and finds each kind of fault."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import echo_npu
from echo_npu import Device, NpuTransferError, nop_packet
from echo_npu.backends.asic import AsicOptions
from echo_npu.backends.fpga import FpgaOptions
from echo_npu.cli import app
from echo_npu.commands.packets import NpuCommandPacket
from echo_npu.ops.packed import PackedTensor
from echo_npu.selftest import SelfTest, run_selftest, speed
from echo_npu.selftest.counters import check_counters
from echo_npu.selftest.engines import check_error
from echo_npu.selftest.interrupts import check_interrupts
from echo_npu.selftest.memory import check_address_lines, check_march
from echo_npu.selftest.records import SelfTestError
from echo_npu.spec import registers as regs
from tests.refusals import refuses

CONFIG = "small"
NAMES = [
    "constants", "registers", "address lines", "memory march", "interrupts", "copies", "matrix engine",
    "vector engine", "ring", "counters", "error report",
]  # fmt: skip


@pytest.fixture
def npu() -> Iterator[Device]:
    with echo_npu.open("cmodel", config=CONFIG) as device:
        yield device


def examined(npu: Device) -> SelfTest:
    with echo_npu.open("cmodel", config=npu.config) as twin:
        return run_selftest(npu, twin, march_bytes=1 << 17)


def faults(done: SelfTest) -> dict[str, str]:
    return {check.name: check.detail for check in done.checks if not check.passed}


@pytest.mark.parametrize("config", ["small", "default"])
def test_a_device_that_works(config: str) -> None:
    started: list[str] = []
    with echo_npu.open("cmodel", config=config) as npu, echo_npu.open("cmodel", config=config) as twin:
        done = run_selftest(npu, twin, march_bytes=1, on_start=started.append)
    assert done.passed
    assert [check.name for check in done.checks] == NAMES
    assert started == [*NAMES, "speed"]
    assert {speed.unit for speed in done.speeds} == {"us", "MiB/s"}
    assert all(speed.value > 0 for speed in done.speeds)


def test_nothing_is_left_behind(npu: Device) -> None:
    """Registers, allocations and what memory held are as they were; the device can be used."""
    tensor = npu.tensor(np.arange(1000, dtype=np.float32))
    npu.limit(watchdog_cycles=100_000_000, protect_ring=True)
    npu.submit_batch(nop_packet())
    npu.wait()
    offsets = (regs.WATCHDOG, regs.GUARD_BASE, regs.GUARD_SIZE, regs.IRQ_ENABLE, regs.RING_SIZE)

    def state() -> tuple[list[int], dict[str, int]]:
        in_use = {name: each.used for name, each in npu.memory_statistics().items()}
        return [npu.backend.read_reg(offset) for offset in offsets], in_use

    before = state()
    for _ in range(2):
        assert examined(npu).passed
        assert state() == before
    assert np.array_equal(tensor.to_numpy(), np.arange(1000, dtype=np.float32))


def patched(monkeypatch: pytest.MonkeyPatch, npu: Device, name: str, change: Callable[..., Any]) -> None:
    """Replace a method of the backend by `change(method, *arguments)`."""
    method = getattr(npu.backend, name)
    monkeypatch.setattr(npu.backend, name, lambda *arguments: change(method, *arguments))


def test_a_register_bit_that_is_stuck(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    patched(
        monkeypatch,
        npu,
        "read_reg",
        lambda read, offset: read(offset) | (1 << 9 if offset == regs.RING_BASE else 0),
    )
    assert "RING_BASE reads 0x00000200 in place of 0x00000000" in faults(examined(npu))["registers"]


def test_registers_that_are_connected(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(method: Callable[[int, int], None], offset: int, value: int) -> None:
        method(regs.WATCHDOG if offset == regs.CMD_WINDOW + 20 else offset, value)

    patched(monkeypatch, npu, "write_reg", write)
    assert "(all got " in faults(examined(npu))["registers"]


def test_two_registers_that_are_one(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only values that differ between registers show it."""

    def place(offset: int) -> int:
        return regs.WATCHDOG if offset == regs.CMD_WINDOW + 20 else offset

    patched(monkeypatch, npu, "write_reg", lambda write, offset, value: write(place(offset), value))
    patched(monkeypatch, npu, "read_reg", lambda read, offset: read(place(offset)))
    assert "(all got their addresses)" in faults(examined(npu))["registers"]


def test_a_register_that_shows_bits_of_another_one(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of the other one has no bit more, so only inverted ones show it."""
    offset, other = regs.CMD_WINDOW + 12, regs.CMD_WINDOW + 4
    assert not other & ~offset
    patched(monkeypatch, npu, "read_reg", lambda read, at: read(at) | (read(other) if at == offset else 0))
    assert "(all got their inverted addresses)" in faults(examined(npu))["registers"]


def test_two_bits_of_a_register_that_are_connected(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the same place in two bytes differ only where a single bit is set."""

    def read(method: Callable[[int], int], offset: int) -> int:
        value = method(offset)
        return value | (value >> 3 & 1) << 11 if offset == regs.WATCHDOG else value

    patched(monkeypatch, npu, "read_reg", read)
    assert faults(examined(npu)) == {
        "registers": "WATCHDOG reads 0x00000808 in place of 0x00000008 (all got bit 3)"
    }


def test_another_configuration(npu: Device) -> None:
    npu.config = "default"
    assert faults(examined(npu))["constants"].startswith("CAP_ARRAY reads 0x00040004 in place of 0x00100010")


@pytest.mark.parametrize("bit", [2, 11, 28])
def test_an_address_line_that_is_stuck(npu: Device, monkeypatch: pytest.MonkeyPatch, bit: int) -> None:
    def read(method: Callable[[int, int], np.ndarray], address: int, nbytes: int) -> np.ndarray:
        return method(address & ~(1 << bit) if nbytes == 4 else address, nbytes)

    def write(method: Callable[[int, np.ndarray], None], address: int, data: np.ndarray) -> None:
        method(address & ~(1 << bit) if data.size == 4 else address, data)

    patched(monkeypatch, npu, "read_mem", read)
    patched(monkeypatch, npu, "write_mem", write)
    assert "memory 0x00000000 reads" in faults(examined(npu))["address lines"]


def test_what_was_at_the_address_lines_is_put_back(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where all that is written to a higher address lands at a lower one."""
    contents = {0: b"abcd", 1 << 11: b"efgh"}
    for address, content in contents.items():
        npu.backend.write_mem(address, np.frombuffer(content, np.uint8))
    patched(monkeypatch, npu, "write_mem", lambda write, address, data: write(address & ~(1 << 11), data))
    refuses(SelfTestError, "memory 0x00000000 reads", check_address_lines, npu)
    assert {address: npu.backend.read_mem(address, 4).tobytes() for address in contents} == contents


@pytest.mark.parametrize("stuck", [0, 1])
def test_a_memory_bit_that_is_stuck(npu: Device, monkeypatch: pytest.MonkeyPatch, stuck: int) -> None:
    place = npu.malloc(64)
    npu.free(place)  # where the march will begin
    place += 1 << 16

    def read(method: Callable[[int, int], np.ndarray], address: int, nbytes: int) -> np.ndarray:
        data = method(address, nbytes)
        if address <= place < address + nbytes:
            data[place - address] = data[place - address] & 0xEF | stuck << 4
        return data

    patched(monkeypatch, npu, "read_mem", read)
    detail = faults(examined(npu))["memory march"]
    assert f"memory 0x{place:08x}" in detail
    assert "(bits 0x00000010; 1 of 16384 words differ)" in detail


@pytest.mark.parametrize("aggressor_is_lower", [False, True])
@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("forced", [False, True])
def test_a_cell_that_forces_another_one(
    npu: Device, monkeypatch: pytest.MonkeyPatch, aggressor_is_lower: bool, rises: bool, forced: bool
) -> None:
    """A march in the order of March C- finds every coupling of two blocks, in either order of addresses."""
    place = npu.malloc(64, "weight")
    npu.free(place)  # where the march will begin
    places = place, place + (1 << 16)
    aggressor, victim = places if aggressor_is_lower else places[::-1]

    def pattern(at: int, inverted: bool) -> int:
        return ~at & 0xFFFF_FFFF if inverted else at

    def write(method: Callable[[int, np.ndarray], None], address: int, data: np.ndarray) -> None:
        before = int(npu.backend.read_mem(address, 4).view("<u4")[0])
        method(address, data)
        new = int(data[:4].view("<u4")[0])
        if address == aggressor and (before, new) == (pattern(address, not rises), pattern(address, rises)):
            method(victim, np.array([pattern(victim, forced)], "<u4").view(np.uint8))

    patched(monkeypatch, npu, "write_mem", write)
    refuses(SelfTestError, f"memory 0x{victim:08x} reads", check_march, npu, 1 << 17)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("unmasked", "the interrupt is high although IRQ_ENABLE is 0"),
        ("silent status", "IRQ_STATUS does not tell that the command has finished"),
        ("stays low", "the interrupt stays low although a bit of IRQ_STATUS is set and enabled"),
    ],
)
def test_an_interrupt_whose_mask_is_wrong(
    npu: Device, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    enables: list[int] = []  # all values but the first ones, which the rounds need

    def write(method: Callable[[int, int], None], offset: int, value: int) -> None:
        if offset == regs.IRQ_ENABLE:
            enables.append(value)
        method(offset, value)

    def wait(method: Callable[[int], bool], cycles: int) -> bool:
        high = method(cycles)
        if fault == "unmasked" and enables == [0]:
            return True
        return high and not (fault == "stays low" and len(enables) == 2)

    def read(method: Callable[[int], int], offset: int) -> int:
        return 0 if fault == "silent status" and offset == regs.IRQ_STATUS else method(offset)

    for name, change in (("write_reg", write), ("wait_irq", wait), ("read_reg", read)):
        patched(monkeypatch, npu, name, change)
    refuses(SelfTestError, words, check_interrupts, npu)


def test_speeds_are_in_their_units(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency is the median, bandwidth the best: with a clock on which calls take 1, 2, 9, 1, 2, 9 ... ms."""
    steps = ((0, spent) for spent in itertools.cycle((1, 2, 9)))
    ticks = itertools.accumulate(itertools.chain.from_iterable(steps))
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 1000))
    found = {each.name: (each.unit, round(each.value, 3)) for each in speed.measure_speed(npu)}
    assert found.pop("memory write") == found.pop("memory read") == ("MiB/s", 4000)
    assert len(found) == 5
    assert set(found.values()) == {("us", 2000)}


@pytest.mark.parametrize("copied", [0, 1 << 15])
def test_speeds_in_cycles(npu: Device, monkeypatch: pytest.MonkeyPatch, copied: int) -> None:
    """On 4 x 4 units, a product that takes twice the cycles that it must; nothing if no cycle is counted."""
    multiplied = 2 * 96**3 // 16
    counted = itertools.accumulate([5, copied, 0, multiplied])
    monkeypatch.setattr(npu.backend, "has_cycles", True)
    monkeypatch.setattr(npu, "counters", lambda: {"busy_cycles": next(counted)})
    found = [(each.name, each.value, each.unit) for each in speed.measure_speed(npu)][7:]
    figures = [("copy within memory", 8, "bytes/cycle"), ("matmul 96x96x96", 50, "% of peak")]
    assert found == (figures if copied else [])


@pytest.mark.parametrize("high", [False, True])
def test_an_interrupt_that_does_not_change(npu: Device, monkeypatch: pytest.MonkeyPatch, high: bool) -> None:
    patched(monkeypatch, npu, "wait_irq", lambda wait, cycles: (wait(cycles), high)[1])
    words = "is high although IRQ_STATUS was cleared" if high else "no interrupt within 1000000 cycles"
    assert words in faults(examined(npu))["interrupts"]


def test_an_interrupt_that_is_lost_once(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    doorbells: list[int] = []

    def write(method: Callable[[int, int], None], offset: int, value: int) -> None:
        if offset == regs.DOORBELL:
            doorbells.append(value)
        method(offset, value)

    patched(monkeypatch, npu, "write_reg", write)
    patched(monkeypatch, npu, "wait_irq", lambda wait, cycles: wait(cycles) and len(doorbells) != 20)
    refuses(SelfTestError, ["no interrupt within", "(round 19)"], check_interrupts, npu)


@pytest.mark.parametrize(
    ("method", "found"), [("matmul", {"matrix engine", "ring"}), ("softmax", {"vector engine", "ring"})]
)
def test_a_wrong_bit_of_a_result(
    npu: Device, monkeypatch: pytest.MonkeyPatch, method: str, found: set[str]
) -> None:
    right = getattr(Device, method)

    def wrong(device: Device, a: Any, *arguments: Any, **options: Any) -> Any:
        if device is npu and isinstance(a, np.ndarray) and a.size > 600:
            a = a.copy()
            a.reshape(-1).view(np.uint8)[-1] ^= 0x10
        elif device is npu and not isinstance(a, np.ndarray):
            return right(device, device.add(a, np.float32(1)), *arguments, **options)
        return right(device, a, *arguments, **options)

    monkeypatch.setattr(Device, method, wrong)
    details = faults(examined(npu))
    assert set(details) == found
    assert all("elements differ; the first is [" in detail for detail in details.values())


@pytest.mark.parametrize("size", [1, 63, 4097, 100_003])
@pytest.mark.parametrize("beyond", [False, True])
def test_a_copy_with_a_wrong_byte(
    npu: Device, monkeypatch: pytest.MonkeyPatch, size: int, beyond: bool
) -> None:
    """The last one, or the one after it."""
    wrong = size - 1 + beyond

    def read(method: Callable[[int, int], np.ndarray], address: int, nbytes: int) -> np.ndarray:
        data = method(address, nbytes)
        if nbytes == size + 64:
            data[3 + wrong] ^= 1
        return data

    patched(monkeypatch, npu, "read_mem", read)
    assert faults(examined(npu)) == {"copies": f"copy of {size} bytes: 1 are wrong, first {wrong}"}


@pytest.mark.parametrize("fault", ["long", "wraps"])
def test_a_ring_that_loses_commands(npu: Device, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """It ignores a doorbell for more than four queues full, or one behind the end of the ring."""

    def write(method: Callable[[int, int], None], offset: int, value: int) -> None:
        if offset == regs.RING_TAIL:
            head, size = npu.backend.read_reg(regs.RING_HEAD), npu.backend.read_reg(regs.RING_SIZE)
            waiting = (value - head) % size
            if (fault == "long" and waiting > 4 * npu.capabilities.queue_depth) or (
                fault == "wraps" and value < head
            ):
                return
        method(offset, value)

    patched(monkeypatch, npu, "write_reg", write)
    found = faults(examined(npu))
    assert list(found) == ["ring"]
    assert found["ring"].endswith(" of 1040 commands in the ring ran")


def test_an_error_that_is_not_reported_right(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    patched(
        monkeypatch, npu, "read_reg", lambda read, offset: 5 if offset == regs.ERROR_CODE else read(offset)
    )
    assert "an unknown opcode was reported as" in faults(examined(npu))["error report"]


def test_an_error_that_is_not_reported(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "execute", lambda packets: None)
    refuses(SelfTestError, "an unknown opcode was not reported", check_error, npu, npu)


def test_an_error_that_is_not_cleared(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "clear_error", lambda: None)
    refuses(SelfTestError, r"after clear_error\(\): state ERROR", check_error, npu, npu)


def test_a_check_that_cannot_be_made_fails_alone(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(method: Callable[[int, np.ndarray], None], address: int, data: np.ndarray) -> None:
        if data.size == 1 << 16:
            raise NpuTransferError("card", "memory write", address, 5, data.size, 5)
        method(address, data)

    patched(monkeypatch, npu, "write_mem", write)
    done = examined(npu)
    assert list(faults(done)) == ["memory march"]
    assert "after 5 of 65536 bytes" in faults(done)["memory march"]
    assert done.speeds == ()


def test_a_check_that_fails_leaves_a_working_device(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reset, whatever state the check has left it in."""

    def broken(device: Device, twin: Device) -> str:
        device.execute(NpuCommandPacket(0x66))
        return ""

    monkeypatch.setattr("echo_npu.selftest.run.check_copies", broken)
    assert list(faults(examined(npu))) == ["copies"]


def test_a_check_is_named_before_it_begins(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs is the last one that was named; a device with a fault has no speed."""
    started: list[str] = []

    def late(device: Device, twin: Device) -> str:
        raise SelfTestError(f"began after {started[-1]}")

    monkeypatch.setattr("echo_npu.selftest.run.check_copies", late)
    done = run_selftest(npu, npu, march_bytes=1, on_start=started.append)
    assert faults(done) == {"copies": "began after copies"}
    assert started == NAMES


def call(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["selftest", *words], env={"NO_COLOR": "1", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = call("--backend", "cmodel", "--config", CONFIG)
    assert status == 0
    assert all(name in out for name in NAMES)
    assert "register read" in out
    status, out, _ = call("--backend", "cmodel", "--config", CONFIG, "--json", "--march", "2")
    facts = json.loads(out)
    assert status == 0
    assert facts["passed"] is True
    assert [check["name"] for check in facts["checks"]] == NAMES
    assert "2 MiB of weight memory" in facts["checks"][3]["detail"]
    assert {"name", "value", "unit"} == set(facts["speeds"][0])
    assert facts["facts"]["capabilities"]["array_rows"] == 4


def test_the_command_fails_with_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "echo_npu.selftest.run.check_copies", lambda npu, twin: 1 // len(npu.config[:0]) and ""
    )
    with pytest.raises(ZeroDivisionError):  # a mistake of the runtime is no fault of the device
        call("--backend", "cmodel", "--config", CONFIG)

    def failing(npu: Device, twin: Device) -> str:
        raise SelfTestError("no [red] byte")

    monkeypatch.setattr("echo_npu.selftest.run.check_copies", failing)
    status, out, _ = call("--backend", "cmodel", "--config", CONFIG)
    assert status == 1
    assert "FAILED" in out
    assert "no [red] byte" in out


def test_the_command_shows_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(Progress, "update", lambda progress, task, *, description: shown.append(description))
    assert call("--backend", "cmodel", "--config", CONFIG)[0] == 0
    assert shown == [*NAMES, "speed"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--backend", "fpga", "--device", "/dev/none"], 1, "/dev/none_user cannot be opened"),
        (["--backend", "fpga", "--transport", "pci"], 2, "transport is 'pci'; it is one of xdma, uio"),
        (["--backend", "asic"], 2, "needs the PCI address"),
        (["--backend", "cmodel", "--device", "x"], 2, "cmodel has no option 'device'"),
        (["--backend", "cmodel", "--march", "0"], 2, "from 1 to 256"),
        (["--backend", "fpga", "--registers", "6"], 2, "registers is 6; it must be a multiple of 4"),
        (["--backend", "fpga", "--memory-base", "0x64"], 2, "memory_base is 100; it must be a multiple of"),
        (["--backend", "fpga", "--memory-base", "-1"], 2, "'-1': it must be a whole number from 0"),
        (["--backend", "fpga", "--clock-mhz", "1e-7"], 2, "'1e-7': it must be a number from 1e-06"),
        (["--backend", "fpga", "--clock-mhz", "nan"], 2, "'nan': it must be a number from 1e-06"),
        (["--backend", "fpga", "--bar", "2"], 2, "fpga has no option 'bar'"),
        (["--backend", "asic", "--bar", "6"], 2, "bar is 6; it must lie in 0..5"),
        (["--backend", "asic", "--iova", "5"], 2, "iova is 5; it must be a multiple of 4096"),
    ],
)
def test_what_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, message: str
) -> None:
    monkeypatch.delenv("ECHO_NPU_DEVICE", raising=False)
    found, out, err = call(*words)
    assert found == status
    assert message in (out + err).replace("\n", "")
    assert "Traceback" not in err


def test_the_command_takes_every_option_of_the_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reaches the backend as it was typed; the twin has the same configuration."""
    typed: dict[str, tuple[str, object]] = {
        "device": ("/dev/none", "/dev/none"),
        "transport": ("uio", "uio"),
        "registers": ("0x10000", 0x10000),
        "memory_base": ("0x880000000", 0x8_8000_0000),
        "memory_file": ("/dev/udmabuf1", "/dev/udmabuf1"),
        "bar": ("2", 2),
        "iova": ("0x100000000", 1 << 32),
        "clock_mhz": ("75", 75.0),
    }
    options = {field.name for kind in (FpgaOptions, AsicOptions) for field in fields(kind)}
    assert set(typed) == options
    opened: dict[str, object] = {}
    twins: list[dict[str, Any]] = []
    usual = echo_npu.open

    def record(backend: str, **given: Any) -> Device:
        if backend == "cmodel":
            twins.append(given)
            return usual("cmodel", **given)
        opened.update(given)
        raise NpuTransferError("card", "memory write", 0, 0, 4, 5)

    monkeypatch.setattr(echo_npu, "open", record)
    words = [word for name, (text, _) in typed.items() for word in (f"--{name.replace('_', '-')}", text)]
    status, _, _ = call("--backend", "fpga", "--config", CONFIG, *words)
    assert status == 1
    assert twins == [{"config": CONFIG}]
    assert opened == {"config": CONFIG, **{name: value for name, (_, value) in typed.items()}}


def counting(monkeypatch: pytest.MonkeyPatch, npu: Device, change: Callable[[dict[str, int]], None]) -> None:
    """Let a device count as one with cycles does, and then as `change` says."""
    right = Device.counters

    def counters(device: Device) -> dict[str, int]:
        found = right(device)
        if device is npu and found["commands"]:
            beats = {"read_beats": 5000, "write_beats": 4000}
            found |= {"cycles": 900, "busy_cycles": 800, "matrix_busy": 300, **beats}
            change(found)
        return found

    monkeypatch.setattr(Device, "counters", counters)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, ""),
        ({"commands": 7}, "commands counts 7 in place of 2"),
        ({"macs": 0}, "macs counts 0 in place of 53760"),
        ({"read_beats": 1249}, "read_beats counts 1249, although a copy alone takes 1250"),
        ({"write_beats": 0}, "write_beats counts 0, although a copy alone takes 1250"),
        ({"matrix_busy": 0}, "none 0: matrix_busy 0, busy_cycles 800, cycles 900"),
        ({"matrix_busy": 801}, "at most the next one, and none 0: matrix_busy 801, busy_cycles 800"),
        ({"busy_cycles": 901}, "busy_cycles 901, cycles 900"),
        ({"cycles": 0, "matrix_busy": 0}, ""),
    ],
)
def test_counters_that_are_wrong(
    npu: Device, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int], words: str
) -> None:
    counting(monkeypatch, npu, lambda found: found.update(wrong))
    with echo_npu.open("cmodel", config=npu.config) as twin:
        if words:
            refuses(SelfTestError, words, check_counters, npu, twin)
        else:
            assert "2 commands, 53760 multiply-adds" in check_counters(npu, twin)


def test_counters_that_are_not_cleared(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    clears = iter([npu.clear_counters, lambda: None])
    monkeypatch.setattr(npu, "clear_counters", lambda: next(clears)())
    assert faults(examined(npu)) == {"counters": "macs is 53760 after the counters were cleared"}


@pytest.mark.parametrize("name", [name.lower() for name in regs.COUNTERS])
def test_a_counter_that_is_not_cleared(npu: Device, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Those of cycles and of the host's beats go on."""
    right = npu.counters
    monkeypatch.setattr(npu, "counters", lambda: right() | ({} if right()["commands"] else {name: 7}))
    with echo_npu.open("cmodel", config=npu.config) as twin:
        if name in ("cycles", "host_beats"):
            assert "2 commands" in check_counters(npu, twin)
        else:
            refuses(SelfTestError, f"{name} is 7 after the counters were cleared", check_counters, npu, twin)


@pytest.mark.parametrize(
    ("method", "wrong_for", "words"),
    [
        ("matmul", lambda b, options: options.get("trans_b"), "matmul of fp32, transposed"),
        ("matmul", lambda b, options: isinstance(b, PackedTensor), "matmul by q8_0"),
        ("matmul", lambda b, options: getattr(b, "dtype", None) == np.int8, "matmul of int8"),
        ("add", lambda y, options: True, "add"),
        ("mul", lambda y, options: True, "mul by a row"),
        ("gelu", lambda none, options: True, "gelu"),
        ("sum", lambda axis, options: True, "sum"),
        ("softmax", lambda none, options: True, "softmax"),
        ("rms_norm", lambda weight, options: True, "rms_norm"),
        ("embedding", lambda ids, options: True, "embedding"),
    ],
)
def test_every_kind_of_command_is_tried(
    npu: Device, monkeypatch: pytest.MonkeyPatch, method: str, wrong_for: Callable[..., Any], words: str
) -> None:
    """One that gives an element with two wrong bytes is named."""
    right = getattr(Device, method)

    def wrong(device: Device, a: Any, b: Any = None, *rest: Any, **options: Any) -> Any:
        found = right(device, a, *(() if b is None else (b, *rest)), **options)
        if device is npu and isinstance(found, np.ndarray) and wrong_for(b, options):
            found = found.copy()
            found.reshape(-1).view(np.uint8)[:2] ^= 1
        return found

    monkeypatch.setattr(Device, method, wrong)
    (detail,) = faults(examined(npu)).values()
    assert detail.startswith(f"{words}: 1 of ")


def test_a_device_that_does_not_work_on_after_an_error(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    clear = npu.clear_error

    def dead() -> None:
        clear()
        npu.backend.write_reg(regs.WATCHDOG, 0)
        monkeypatch.setattr(npu, "execute", lambda packets: npu.backend.read_mem(1 << 40, 4))

    monkeypatch.setattr(npu, "clear_error", dead)
    assert set(faults(examined(npu))) == {"error report"}
