"""Every check of the scoreboards fails if the device, the model or the data is wrong, and names which."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from echo_npu.commands.builders import gather_packets, load_program_packets, memcpy_packets, sync_packet
from echo_npu.commands.checks import check_command
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet, packet_bytes
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.model import execution
from echo_npu.model.epilogue import Epilogue, store
from echo_npu.model.execution import CommandExecution
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.numerics import matmul_fp32, matmul_int8
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector import Builder
from echo_sim.config import load_config
from tb.scoreboards.accuracy import Expectation
from tb.scoreboards.commands import STATE_REGISTERS, CommandScoreboard, DeviceState, device_state
from tb.scoreboards.errors import (
    AccuracyError,
    ExactMismatchError,
    ScoreboardError,
    StateMismatchError,
    StrayWriteError,
    UncheckedError,
)
from tb.scoreboards.interrupts import InterruptMismatchError
from tests.refusals import Error, Words, refuses

A, B, DST = 0x1000_0000, 0x0000_4000, 0x1001_0000
M, K, N = 5, 6, 7


@dataclass(frozen=True)
class ReportedWrite:
    """A register write as the monitor reports it."""

    offset: int
    data: int
    strobes: int = 0xF
    response: int = 0


def submission(packet: Packet) -> list[ReportedWrite]:
    """Return the register writes that submit a packet through the command window."""
    words = np.frombuffer(packet_bytes(packet), dtype="<u4")
    writes = [ReportedWrite(regs.CMD_WINDOW + 4 * i, int(word)) for i, word in enumerate(words)]
    return [*writes, ReportedWrite(regs.DOORBELL, 1)]


class Setup:
    """A scoreboard, and a device, a functional model, which is right until a test corrupts it."""

    def __init__(self) -> None:
        self.config = load_config("small")
        self.memory = DeviceMemory()
        self.device = FunctionalModel(self.config, self.memory)
        self.scoreboard = CommandScoreboard(self.config)

    def host_write(self, address: int, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self.scoreboard.mirror(address, raw)
        self.memory.write(address, raw)

    def submit(self, packets: Sequence[Packet]) -> None:
        """Submit to the device and, like the monitor, to the scoreboard."""
        for packet in packets:
            self.write(submission(packet))

    def write(self, writes: Sequence[ReportedWrite]) -> None:
        for write in writes:
            self.device.write_reg(write.offset, write.data)
        self.device.wait_irq(0)
        self.scoreboard.observe(writes)

    def state(self) -> DeviceState:
        return device_state([self.device.read_reg(offset) for offset in STATE_REGISTERS])

    def check(self) -> None:
        self.scoreboard.check(self.memory, self.state())

    def spoil(self, address: int, bits: int = 1) -> None:
        """Change a byte of the device's memory."""
        self.memory.bytes[address] ^= bits

    def product(self) -> list[Packet]:
        """Return a MATMUL of fresh operands."""
        rng = np.random.default_rng(1)
        self.host_write(A, rng.standard_normal((M, K), dtype=np.float32))
        self.host_write(B, rng.standard_normal((K, N), dtype=np.float32))
        return list(matmul_packets(A, B, DST, M, K, N))


@pytest.fixture
def setup() -> Iterator[Setup]:
    """A fresh device and its scoreboard."""
    made = Setup()
    yield made
    made.scoreboard.close()
    made.memory.close()


def add_packet(alpha: float = 2.0) -> NpuCommandPacket:
    """Return an ADD_TENSOR: dst[6] = a + alpha * b."""
    return NpuCommandPacket(Opcode.ADD_TENSOR, 0, A, B, DST, m=6, alpha=alpha)


def copy_packet(nbytes: int = 50) -> NpuCommandPacket:
    """Return a MEMCPY of `nbytes` from A to DST."""
    return NpuCommandPacket(Opcode.MEMCPY, 0, A, 0, DST, m=nbytes)


def test_right_device_passes(setup: Setup) -> None:
    setup.submit([*setup.product(), add_packet(), copy_packet(), NpuCommandPacket(Opcode.NOP)])
    setup.check()
    assert setup.scoreboard.checked == 4
    setup.scoreboard.finish()


def test_error_state_is_checked_too(setup: Setup) -> None:
    setup.submit([NpuCommandPacket(0x77)])
    setup.check()
    setup.write([ReportedWrite(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask)])
    setup.submit([NpuCommandPacket(Opcode.NOP)])
    setup.check()
    setup.scoreboard.finish()


@pytest.mark.parametrize("element", [0, 8, M * N - 1])
def test_one_wrong_bit(setup: Setup, element: int) -> None:
    setup.submit(setup.product())
    setup.spoil(DST + 4 * element)
    refuses(ExactMismatchError, rf"MATMUL.*row {element // N} element {element % N}", setup.check)


def test_result_not_written(setup: Setup) -> None:
    setup.submit(setup.product())
    setup.memory.bytes[DST : DST + 4 * M * N] = 0
    refuses(ExactMismatchError, None, setup.check)


@pytest.mark.parametrize("address", [DST - 1, DST + 4 * M * N, A, 0, 0x1FFF_FFFF])
def test_stray_write(setup: Setup, address: int) -> None:
    setup.submit(setup.product())
    setup.spoil(address, 0x80)
    refuses(StrayWriteError, f"0x{address:08x}", setup.check)


def test_gap_between_strided_rows_is_not_destination(setup: Setup) -> None:
    setup.product()
    setup.submit(matmul_packets(A, B, DST, M, K, N, row_strides=(0, 0, 64)))
    setup.spoil(DST + 4 * N)
    refuses(StrayWriteError, None, setup.check)


def test_blame_goes_to_the_last_writer(setup: Setup) -> None:
    setup.submit([*setup.product(), copy_packet(8)])
    setup.spoil(DST + 4)
    refuses(ExactMismatchError, "MEMCPY", setup.check)


@pytest.mark.parametrize(
    "wrong",
    [
        {"retired": 7},
        {"state": State.BUSY},
        {"state": State.ERROR, "error_code": ErrorCode.OVERLAP},
        {"error_index": 1},
        {"error_address": 0x40},
    ],
)
def test_wrong_registers(setup: Setup, wrong: dict[str, int]) -> None:
    setup.submit([NpuCommandPacket(Opcode.NOP)])
    refuses(StateMismatchError, None, setup.scoreboard.check, setup.memory, setup.state()._replace(**wrong))


def test_error_with_another_code(setup: Setup) -> None:
    setup.submit([NpuCommandPacket(Opcode.NOP, 1)])
    with pytest.raises(StateMismatchError, match=r"BAD_OPCODE.*BAD_FLAGS"):
        setup.scoreboard.check(setup.memory, setup.state()._replace(error_code=ErrorCode.BAD_OPCODE))


def test_bus_error_that_the_device_hides(setup: Setup) -> None:
    packets = setup.product()
    setup.scoreboard.expect_fault(ErrorCode.READ_RESPONSE, A, command=0)
    setup.submit(packets)
    refuses(StateMismatchError, "READ_RESPONSE", setup.check)


def test_order_of_sums_is_exact_only(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that adds in the opposite order is accurate enough, and still wrong."""
    packets = setup.product()
    monkeypatch.setattr(execution, "matmul_fp32", lambda a, b: matmul_fp32(a[:, ::-1], b[::-1]))
    writes = [write for packet in packets for write in submission(packet)]
    for write in writes:
        setup.device.write_reg(write.offset, write.data)
    setup.device.wait_irq(0)
    monkeypatch.undo()
    setup.scoreboard.observe(writes)
    refuses(ExactMismatchError, None, setup.check)


def one_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = matmul_fp32(a, b)
    result[-1, -1] = np.nan
    return result


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, b: matmul_fp32(a, b) * np.float32(1 + 1e-5),
        lambda a, b: matmul_fp32(a[:, :-1], b[:-1]),
        one_nan,
    ],
    ids=["scale", "lost product", "one NaN"],
)
def test_wrong_matmul_model(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., np.ndarray]
) -> None:
    """Device and model agree, and both are wrong."""
    packets = setup.product()
    monkeypatch.setattr(execution, "matmul_fp32", wrong)
    refuses(AccuracyError, "MATMUL", setup.submit, packets)


COLUMNS, ROWS = 0x8000, 0x9000


def full_product(setup: Setup, dtype: DataType, out: OutType, **steps: Any) -> list[Packet]:
    """Return a MATMUL of fresh operands of a type, with scales and biases placed for the flags that use
    them."""
    rng = np.random.default_rng(1)
    for address, shape in ((A, (M, K)), (B, (K, N))):
        values = 40 * rng.standard_normal(shape, dtype=np.float32)
        stored = (values.view(np.uint32) >> 16) if dtype == DataType.BF16 else values
        setup.host_write(address, stored.astype(dtype.storage))
    setup.host_write(COLUMNS, 5000 * rng.standard_normal((2, N), dtype=np.float32))
    setup.host_write(ROWS, rng.standard_normal(M, dtype=np.float32))
    return list(matmul_packets(A, B, DST, M, K, N, dtype=dtype, out=out, **steps))


TYPES = [(dtype, out) for dtype in DataType for out in (OutType.FLOAT32, OutType.OWN)]
STEPS: dict[str, dict[str, Any]] = {
    "alpha": {"alpha": np.float32(0.01)},
    "row_scale": {"row_scales": ROWS},
    "column_scale": {"column_vectors": COLUMNS, "column_scale": True},
    "bias": {"column_vectors": COLUMNS, "bias": True},
    "relu": {"relu": True},
}


@pytest.mark.parametrize(("dtype", "out"), [*TYPES, (DataType.INT8, OutType.INT32)])
def test_every_type_of_product_passes(setup: Setup, dtype: DataType, out: OutType) -> None:
    setup.submit(full_product(setup, dtype, out))
    if out != OutType.INT32:
        for step in STEPS.values():
            setup.submit(full_product(setup, dtype, out, **step))
    setup.check()
    setup.scoreboard.finish()


@pytest.mark.parametrize(("dtype", "out"), TYPES)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_the_model_forgets(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, dtype: DataType, out: OutType, step: str
) -> None:
    packets = full_product(setup, dtype, out, **STEPS[step])
    nothing: Any = False if step == "relu" else None
    monkeypatch.setattr(execution, "Epilogue", lambda **fields: Epilogue(**{**fields, step: nothing}))
    refuses(AccuracyError, "MATMUL", setup.submit, packets)


def test_scales_and_biases_in_the_wrong_order(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(**fields: Any) -> Epilogue:
        return Epilogue(**{**fields, "column_scale": fields["bias"], "bias": fields["column_scale"]})

    packets = full_product(
        setup, DataType.INT8, OutType.FLOAT32, column_vectors=COLUMNS, column_scale=True, bias=True
    )
    monkeypatch.setattr(execution, "Epilogue", swapped)
    refuses(AccuracyError, "MATMUL", setup.submit, packets)


@pytest.mark.parametrize("out", [OutType.FLOAT32, OutType.INT32])
def test_one_wrong_sum_of_int8(setup: Setup, monkeypatch: pytest.MonkeyPatch, out: OutType) -> None:
    """Sums are exact: a sum that is off by one is wrong."""
    packets = full_product(setup, DataType.INT8, out)
    monkeypatch.setattr(execution, "matmul_int8", lambda a, b: matmul_int8(a, b) + 1)
    refuses(AccuracyError, "MATMUL", setup.submit, packets)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.FP16])
def test_a_narrow_result_that_is_cut_off(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, dtype: DataType
) -> None:
    """Two units in the last place are too much."""

    def cut(values: np.ndarray, operands: DataType, out: OutType) -> np.ndarray:
        right = store(values, operands, out)
        return (right.view(np.uint16) - np.uint16(2)).view(right.dtype)

    packets = full_product(setup, dtype, OutType.OWN)
    monkeypatch.setattr(execution, "store", cut)
    refuses(AccuracyError, "MATMUL", setup.submit, packets)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.FP16, DataType.INT8])
def test_one_wrong_bit_of_a_narrow_result(setup: Setup, dtype: DataType) -> None:
    setup.submit(full_product(setup, dtype, OutType.OWN))
    setup.spoil(DST + (M * N - 1) * dtype.itemsize)
    refuses(ExactMismatchError, rf"MATMUL.*row {M - 1} element {N - 1}", setup.check)


def test_wrong_add_model(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.product()
    monkeypatch.setattr(execution, "add_fp32", lambda a, b, alpha: a + b)
    refuses(AccuracyError, "ADD_TENSOR", setup.submit, [add_packet(2.0)])


def test_wrong_copy_model(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.product()
    real = CommandExecution._bytes

    def shifted(
        self: CommandExecution, operand: execution.MemoryOperand, batch: tuple[int, int]
    ) -> np.ndarray:
        view = real(self, operand, batch)
        return np.roll(view, 1, axis=-1) if operand.address == A else view

    monkeypatch.setattr(CommandExecution, "_bytes", shifted)
    refuses(AccuracyError, "MEMCPY", setup.submit, [copy_packet()])


def overlapping(opcode: Opcode) -> list[Packet]:
    """Return a copy or a product of 3 batches, each of which begins 4 bytes after the one before."""
    fields = {"batch0": 3, "src1_batch0_stride": 200, "dst_batch0_stride": 4}
    packet = NpuCommandPacket(opcode, Flags.EXT, A, B if opcode == Opcode.MATMUL else 0, DST, m=4, k=3, n=2)
    return [packet, ExtensionPacket(**fields)]


@pytest.mark.parametrize("opcode", [Opcode.MEMCPY, Opcode.MATMUL])
def test_the_later_batch_wins(setup: Setup, opcode: Opcode) -> None:
    """The second check knows which bytes remain from each batch, and compares all of them."""
    setup.host_write(A, np.random.default_rng(3).standard_normal(200, dtype=np.float32))
    setup.host_write(B, np.random.default_rng(4).standard_normal(200, dtype=np.float32))
    packet, extension = overlapping(opcode)
    command = check_command(packet, extension)
    expectation = Expectation(command, setup.memory.bytes)
    setup.submit([packet, extension])
    setup.check()
    expectation.check(setup.memory.bytes)
    size = command.dst.extent(command.batch)
    for place in range(3, size, 4):  # the sign of each float
        setup.spoil(DST + place, 0x80)
        refuses(AccuracyError, None, expectation.check, setup.memory.bytes)
        setup.spoil(DST + place, 0x80)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (np.inf, 1.0, 1.0),
        (np.inf, -np.inf, np.inf),
        (np.nan, 1.0, 0.0),
        (1.0, 1.0, np.inf),
        (1e-40, 0.0, 0.0),  # a flushed subnormal
    ],
)
def test_accuracy_of_special_values(setup: Setup, a: float, b: float, result: float) -> None:
    """A model that gives a value of the wrong class, or flushes a subnormal, is not accurate."""
    setup.host_write(A, np.full(6, a, dtype=np.float32))
    setup.host_write(B, np.full(6, b, dtype=np.float32))
    command = check_command(add_packet(1.0))
    expectation = Expectation(command, setup.memory.bytes)
    setup.submit([add_packet(1.0)])
    expectation.check(setup.memory.bytes)
    setup.host_write(DST, np.full(6, result, dtype=np.float32))
    refuses(AccuracyError, None, expectation.check, setup.memory.bytes)


def test_device_worked_on_other_data(setup: Setup) -> None:
    packets = setup.product()
    setup.spoil(A + 3, 0x40)
    setup.submit(packets)
    refuses((ExactMismatchError, StrayWriteError), None, setup.check)


def test_lost_submission(setup: Setup) -> None:
    setup.device.write_reg(regs.DOORBELL, 1)
    setup.device.wait_irq(0)
    refuses(StateMismatchError, r"retired 1.*retired 0", setup.check)


def test_partial_register_write_is_refused(setup: Setup) -> None:
    refuses(
        ScoreboardError, "strobes", setup.scoreboard.observe, [ReportedWrite(regs.CMD_WINDOW, 1, strobes=1)]
    )


def test_nothing_checked(setup: Setup) -> None:
    refuses(UncheckedError, "checked no command", setup.scoreboard.finish)


@pytest.mark.parametrize(
    ("packets", "left"),
    [
        (matmul_packets(A, B, DST, M, K, N), "MATMUL"),
        ([NpuCommandPacket(0x77)], "error state"),
        ([NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, A, 0, DST, m=4)], "extension"),
    ],
    ids=["command", "error", "unfinished command"],
)
def test_what_is_left_unchecked(setup: Setup, packets: list[Packet], left: str) -> None:
    setup.submit([NpuCommandPacket(Opcode.NOP)])
    setup.check()
    setup.submit(packets)
    refuses(UncheckedError, left, setup.scoreboard.finish)


def test_a_failure_is_reported_once(setup: Setup) -> None:
    """`finish` does not hide what `check` found behind another error."""
    setup.submit(setup.product())
    setup.spoil(DST)
    refuses(ExactMismatchError, None, setup.check)
    setup.scoreboard.finish()


def vector_packets(setup: Setup, *, seg_len: int = 8) -> list[Packet]:
    """Load a program that doubles eight numbers; return the command that runs it, wrong for another
    `seg_len`."""
    b = Builder("double")
    with b.chunks(advance=[b.stream(0)]):
        b.add(b.out, b.stream(0), b.stream(0))
    program = b.build()
    setup.host_write(B, np.frombuffer(program.code, np.uint8))
    command = vector_command(
        0, rows=1, cols=8, inputs=[Stream(A)], output=Stream(DST, seg_len=seg_len), passes=program.passes
    )
    return [*load_program_packets(B, len(program), 0), *command.packets()]


def test_vector_command_passes(setup: Setup) -> None:
    setup.host_write(A, np.arange(8, dtype=np.float32))
    setup.submit(vector_packets(setup))
    setup.check()
    assert np.array_equal(setup.memory.bytes[DST : DST + 32].view(np.float32), 2 * np.arange(8))
    assert setup.scoreboard.checked == 2


def test_vector_command_with_a_wrong_bit(setup: Setup) -> None:
    setup.submit(vector_packets(setup))
    setup.spoil(DST + 12)
    refuses(ExactMismatchError, "row 0 element 3", setup.check)


def test_destination_of_a_broken_program_is_undefined(setup: Setup) -> None:
    setup.submit(vector_packets(setup, seg_len=9))
    setup.spoil(DST + 4)
    setup.check()
    assert setup.state().error_code == ErrorCode.BAD_PROGRAM
    setup.spoil(DST + 36)
    refuses(StrayWriteError, None, setup.check)


@pytest.fixture
def gather(setup: Setup) -> list[Packet]:
    """Return a GATHER of two rows of ten bytes."""
    setup.host_write(A, np.arange(40, dtype=np.uint8))
    setup.host_write(B, np.array([3, 0], np.int32))
    return list(gather_packets(A, B, DST, 2, 10, 4))


def test_gather_passes(setup: Setup, gather: list[Packet]) -> None:
    setup.submit(gather)
    setup.check()


def test_wrong_gather_model(setup: Setup, monkeypatch: pytest.MonkeyPatch, gather: list[Packet]) -> None:
    real = CommandExecution._gather

    def wrong(self: CommandExecution, command: execution.CheckedCommand, limit: int) -> None:
        real(self, command, limit)
        self._memory.bytes[DST + 9] ^= 1

    monkeypatch.setattr(CommandExecution, "_gather", wrong)
    refuses(AccuracyError, "did not copy every byte", setup.submit, gather)


def test_destination_of_a_bad_index_is_undefined(setup: Setup) -> None:
    setup.host_write(B, np.array([3, 4], np.int32))
    setup.submit(gather_packets(A, B, DST, 2, 10, 4))
    setup.spoil(DST + 19)
    setup.check()
    assert setup.state().error_code == ErrorCode.BAD_INDEX
    assert setup.state().error_address == B + 4
    setup.spoil(DST + 20)
    refuses(StrayWriteError, None, setup.check)


BESIDE = DST + 0x1000


@pytest.mark.parametrize(
    ("behind", "undefined"),
    [
        (matmul_packets(A, B, BESIDE, 2, 2, 2), True),
        (matmul_packets(A, B, BESIDE, 2, 2, 2, row_strides=(0, 0, 16)), True),
        (memcpy_packets(A, BESIDE, 16), False),  # the engine that failed
        ([sync_packet(), *matmul_packets(A, B, BESIDE, 2, 2, 2)], False),
        ([packet for at in (64, 0) for packet in matmul_packets(A, B, BESIDE + at, 2, 2, 2)], True),
        # The matrix engine holds two.
        ([packet for at in (64, 128, 0) for packet in matmul_packets(A, B, BESIDE + at, 2, 2, 2)], False),
    ],
)
@pytest.mark.parametrize("via", ["window", "ring", "tails"])
def test_commands_behind_that_can_be_under_way_are_undefined_too(
    setup: Setup, behind: list[Packet], undefined: bool, via: str
) -> None:
    setup.host_write(B, np.array([9], np.int32))
    failing = gather_packets(A, B, DST, 1, 10, 4)
    packets = [*failing, *behind]
    if via == "window":
        setup.submit(packets)
    else:
        ring = A + 0x10_0000
        for slot, packet in enumerate(packets):
            setup.host_write(ring + 64 * slot, np.frombuffer(packet_bytes(packet), np.uint8))
        # The device may have taken a later tail before it knew of the error.
        tails = [len(failing), len(packets)] if via == "tails" else [len(packets)]
        enable = ReportedWrite(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask)
        start = [ReportedWrite(regs.RING_BASE, ring), ReportedWrite(regs.RING_SIZE, 16), enable]
        setup.write([*start, *(ReportedWrite(regs.RING_TAIL, tail) for tail in tails)])
    setup.spoil(BESIDE + 4)
    if undefined:
        setup.check()
    else:
        refuses(StrayWriteError, None, setup.check)


def test_the_device_stops_before_a_command(setup: Setup) -> None:
    """When the queue overflows, one of three copies is done; the others have no effect."""
    copies = [NpuCommandPacket(Opcode.MEMCPY, 0, A, 0, DST + 64 * i, m=64) for i in range(3)]
    setup.host_write(A, np.arange(64, dtype=np.uint8))
    setup.scoreboard.expect_fault(ErrorCode.QUEUE_FULL, 0, command=1, before=True)
    setup.scoreboard.observe([write for packet in copies for write in submission(packet)])
    setup.memory.bytes[DST : DST + 64] = setup.memory.bytes[A : A + 64]
    state = DeviceState(State.ERROR, ErrorCode.QUEUE_FULL, 1, 0, 1)
    setup.scoreboard.check(setup.memory, state)
    assert setup.scoreboard.taken == 1


def test_the_ring_goes_on_at_the_last_good_tail(setup: Setup) -> None:
    """The model enters the error state at once, the device later: later good tails count for both, bad ones
    do not."""
    base = 0x1FFF_0000
    setup.host_write(base, np.frombuffer(NpuCommandPacket(0x77).pack(), dtype=np.uint8))
    setup.write(
        [
            ReportedWrite(regs.RING_BASE, base),
            ReportedWrite(regs.RING_SIZE, 8),
            ReportedWrite(regs.CONTROL, 8),
        ]
    )
    for tail in (1, 3, 9):
        setup.write([ReportedWrite(regs.RING_TAIL, tail)])
    setup.check()
    setup.write([ReportedWrite(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask | regs.CONTROL_RING_ENABLE.mask)])
    assert setup.scoreboard.expected_register(regs.RING_HEAD) == 3
    assert setup.scoreboard.expected_register(regs.RING_TAIL) == 3
    setup.scoreboard.observe([ReportedWrite(regs.RING_TAIL, 4)])
    assert setup.scoreboard.expected_register(regs.RING_HEAD) == 4


def reset_in_two_copies(setup: Setup) -> None:
    """Four bytes get the value 1, then 2; then a reset comes."""
    setup.host_write(A, np.array([1, 1, 1, 1, 2, 2, 2, 2], dtype=np.uint8))
    setup.scoreboard.keep_history()
    for source in (A, A + 4):
        setup.submit([NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, DST, m=4)])
    setup.write([ReportedWrite(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])


@pytest.mark.parametrize("hard", [False, True])
def test_a_reset_leaves_what_commands_made(setup: Setup, hard: bool) -> None:
    """Any byte may be as before, or as either copy leaves it; the next command works on the actual
    content."""
    reset_in_two_copies(setup)
    setup.memory.bytes[DST : DST + 4] = [0, 1, 2, 1]
    setup.scoreboard.after_reset(setup.memory, hard=hard)
    setup.device = FunctionalModel(setup.config, setup.memory)
    setup.submit([NpuCommandPacket(Opcode.MEMCPY, 0, DST, 0, DST + 64, m=4)])
    setup.check()
    setup.scoreboard.finish()


@pytest.mark.parametrize(
    ("place", "value", "error", "words"),
    [(2, 3, ExactMismatchError, "MEMCPY"), (4, 1, StrayWriteError, None)],
    ids=["another value", "another place"],
)
def test_a_reset_that_leaves_something_else(
    setup: Setup, place: int, value: int, error: Error, words: Words
) -> None:
    reset_in_two_copies(setup)
    setup.memory.bytes[DST + place] = value
    refuses(error, words, setup.scoreboard.after_reset, setup.memory, hard=False)


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_reset_between_batches_that_overlap(setup: Setup, place: int) -> None:
    """A byte of two batches may be as the first one leaves it; a byte of one batch is as before or after."""
    setup.host_write(A, np.arange(1, 9, dtype=np.uint8))
    setup.scoreboard.keep_history()
    setup.submit(memcpy_packets(A, DST, 4, batch=(2, 1), src_batch_strides=(4, 0), dst_batch_strides=(2, 0)))
    setup.write([ReportedWrite(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])
    setup.memory.bytes[DST + place] = 3  # what the first batch leaves at 2
    if place == 2:
        setup.scoreboard.after_reset(setup.memory, hard=False)
    else:
        refuses(ExactMismatchError, "MEMCPY", setup.scoreboard.after_reset, setup.memory, hard=False)


@pytest.mark.parametrize(("row", "passes"), [(0, False), (1, True), (2, False)])
def test_a_reset_between_rows_of_equal_indices(setup: Setup, row: int, passes: bool) -> None:
    """The table's row of two indices may be as the first one leaves it, although the table does not overlap
    itself; a row of one index, or of none, is as before or after."""
    b = Builder("copy")
    b.mov(b.out, b.stream(0))
    program = b.build()
    setup.host_write(B, np.frombuffer(program.code, np.uint8))
    setup.host_write(A, np.array([5, 6, 7, 1, 1, 2], np.int32))
    setup.submit(load_program_packets(B, len(program), 0))
    setup.check()
    setup.scoreboard.keep_history()
    scatter = vector_command(
        0,
        rows=3,
        cols=1,
        inputs=[Stream(A, row_stride=4)],
        output=Stream(DST, row_stride=4),
        passes=program.passes,
        indices=RowIndices(A + 12, table_rows=3, row_stride=4),
    )
    setup.submit(scatter.packets())
    setup.write([ReportedWrite(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])
    assert setup.memory.bytes[DST : DST + 12].view(np.int32).tolist() == [0, 6, 7]
    setup.memory.bytes[DST + 4 * row] = 5
    if passes:
        setup.scoreboard.after_reset(setup.memory, hard=False)
    else:
        refuses(ExactMismatchError, "VECTOR", setup.scoreboard.after_reset, setup.memory, hard=False)


def test_the_interrupt_of_the_model(setup: Setup) -> None:
    """The model's causes are those raised since all were last cleared."""
    setup.scoreboard.restart_interrupts()
    setup.submit([NpuCommandPacket(Opcode.NOP, Flags.IRQ)])
    setup.scoreboard.check_interrupt(0b101, 0b100, True)
    refuses(InterruptMismatchError, None, setup.scoreboard.check_interrupt, 0b001, 0b100, False)
    setup.write([ReportedWrite(regs.IRQ_STATUS, 0b100)])
    setup.scoreboard.check_interrupt(0b001, 0b100, False)
