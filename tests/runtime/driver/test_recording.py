"""Recording and replay on the functional model: bits, memory, programs, doorbells, and what is refused."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
    DeviceClosedError,
    DeviceTensor,
    ErrorCode,
    NpuCommandPacket,
    NpuDeviceError,
    NpuProgramMemoryError,
    NpuRecordingError,
    Opcode,
    matmul_packets,
)
from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.register_ops import RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.vector import Builder, Program
from tests.refusals import refuses

Ops = Callable[[Device, DeviceTensor], DeviceTensor]

RNG = np.random.default_rng(4)
SQUARE = RNG.standard_normal((12, 12), dtype=np.float32)
VECTOR = RNG.standard_normal(12, dtype=np.float32)
COS, SIN = Device.rope_tables(12, 4)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


OPERATIONS: dict[str, Ops] = {
    "matmul": lambda npu, x: npu.matmul(x, SQUARE, alpha=0.5),
    "matmul of views": lambda npu, x: npu.matmul(x.T, x[:, :5]),
    "add": lambda npu, x: npu.add(x, SQUARE, 0.25),
    "broadcast": lambda npu, x: npu.mul(x, VECTOR),
    "exp": lambda npu, x: npu.exp(x),
    "gelu": lambda npu, x: npu.gelu(x),
    "where": lambda npu, x: npu.where(npu.gt(x, 0.0), x, -1.0),
    "clamp": lambda npu, x: npu.clamp(x, -0.5, 0.5),
    "pow": lambda npu, x: npu.pow(npu.abs(x), 1.5),
    "copy": lambda npu, x: npu.copy(x[::2, 1:]),
    "permute": lambda npu, x: npu.permute(x, (1, 0)),
    "cat": lambda npu, x: npu.cat([x, x[:3]], 0),
    "full": lambda npu, x: npu.add(x, npu.full((12, 12), 2.5)),
    "sum": lambda npu, x: npu.sum(x.reshape(3, 4, 12), (0, 2)),
    "mean": lambda npu, x: npu.mean(x, 0, True),
    "argmax": lambda npu, x: npu.argmax(x),
    "softmax": lambda npu, x: npu.softmax(x, causal=True, mask=SQUARE),
    "rms_norm": lambda npu, x: npu.rms_norm(x, VECTOR),
    "layer_norm": lambda npu, x: npu.layer_norm(x, VECTOR, VECTOR),
    "rope": lambda npu, x: npu.rope(x.reshape(12, 3, 4), COS, SIN),
    "attention": lambda npu, x: npu.attention(*(x.reshape(3, 12, 4),) * 3, causal=True),
    "embedding": lambda npu, x: npu.embedding(x, np.array([3, 0, 11], np.int32)),
    "scatter_rows": lambda npu, x: npu.scatter_rows(npu.copy(x), np.array([3, 0, 3], np.int32), x[4:7]),
    "conv2d": lambda npu, x: npu.conv2d(
        x.reshape(1, 1, 12, 12), SQUARE[:2, :9].copy().reshape(2, 1, 3, 3), VECTOR[:2], padding=1
    ),
    "max_pool2d": lambda npu, x: npu.max_pool2d(x.reshape(1, 1, 12, 12), 2),
    "avg_pool2d": lambda npu, x: npu.avg_pool2d(x.reshape(1, 1, 12, 12), 3, padding=1),
    "softmax_backward": lambda npu, x: npu.softmax_backward(x, npu.softmax(x)),
    "layer_norm_backward": lambda npu, x: npu.layer_norm_backward(x, x, VECTOR)[1],
    "cross_entropy": lambda npu, x: npu.cross_entropy(x, np.arange(12, dtype=np.int32)),
    "adamw_step": lambda npu, x: npu.adamw_step(
        npu.copy(x), x, npu.full((12, 12), 0.0), npu.full((12, 12), 0.0), step=1
    )[0],
    "quantize": lambda npu, x: npu.dequantize(*npu.quantize(x)),
    "cast": lambda npu, x: npu.cast(npu.cast(x, np.float16), np.float32),
}


def register_writes(device: Device, monkeypatch: pytest.MonkeyPatch, offset: int) -> list[int]:
    """Record the values written to one register from here on."""
    seen: list[int] = []
    run = device.backend.run

    def spy(ops: list[RegisterOp]) -> list[int]:
        seen.extend(op.value for op in ops if isinstance(op, WriteReg) and op.offset == offset)
        return run(ops)

    monkeypatch.setattr(device.backend, "run", spy)
    return seen


def memory_writes(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record `(address, bytes)` of each write of the host to memory from here on."""
    seen: list[tuple[int, int]] = []
    write = device.backend.write_mem

    def spy(address: int, data: np.ndarray) -> None:
        seen.append((address, data.size))
        write(address, data)

    monkeypatch.setattr(device.backend, "write_mem", spy)
    return seen


def used(device: Device) -> dict[str, int]:
    return {name: figures.used for name, figures in device.memory_statistics().items()}


def layer(npu: Device, x: DeviceTensor) -> DeviceTensor:
    hidden = npu.silu(npu.matmul(npu.rms_norm(x, VECTOR), SQUARE))
    return npu.softmax(npu.add(hidden, x))


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_run_has_the_bits_of_direct_calls(npu: Device, name: str) -> None:
    function = OPERATIONS[name]
    inputs = [RNG.standard_normal((12, 12), dtype=np.float32) for _ in range(2)]
    expected = [function(npu, npu.tensor(values)).to_numpy() for values in inputs]
    with npu.record() as program:
        x = program.input("x", (12, 12))
        program.output("y", function(npu, x))
    for _ in range(2):  # the second round finds what the first one left behind
        for values, result in zip(inputs, expected, strict=True):
            assert same_bits(program.run(x=values)["y"].to_numpy(), result)


def test_a_tensor_from_outside_is_an_input_too(npu: Device) -> None:
    x = npu.tensor(SQUARE)
    with npu.record() as program:
        y = layer(npu, x)
    assert program.run() == {}
    assert same_bits(y.to_numpy(), layer(npu, npu.tensor(SQUARE)).to_numpy())
    x.copy_from(2 * SQUARE)
    program.run()
    assert same_bits(y.to_numpy(), layer(npu, npu.tensor(2 * SQUARE)).to_numpy())


def test_an_input_can_come_from_the_device_and_stays(npu: Device) -> None:
    with npu.record() as program:
        x = program.input("x", (3, 4))
        y = program.output("y", npu.mul(x, 2.0))
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    program.run(x=npu.tensor(values))
    assert (y.to_numpy() == 2 * values).all()
    program.run()
    assert (y.to_numpy() == 2 * values).all()
    assert program.inputs == {"x": x}


def test_nothing_runs_while_recording(npu: Device) -> None:
    y = npu.full((4,), 1.0)
    before = npu.counters()["commands"]
    with npu.record() as program:
        npu.add(y, y, out=y)
        npu.wait()
    assert npu.counters()["commands"] == before
    assert (y.to_numpy() == 1).all()
    program.run()
    program.run()
    assert (y.to_numpy() == 4).all()  # state outside of the recording goes on from run to run


def test_a_constant_that_is_overwritten_is_the_same_in_every_run(npu: Device) -> None:
    with npu.record() as program:
        counter = npu.tensor(np.zeros(4, np.float32))
        npu.add(counter, 1.0, out=counter)
        program.output("counter", counter)
    for _ in range(3):
        assert (program.run()["counter"].to_numpy() == 1).all()


def test_a_constant_that_fills_its_block_needs_no_command(npu: Device) -> None:
    with npu.record() as program:
        y = npu.tensor(np.full(16, 3, np.float32))
        npu.copy(y)
    assert len(program) == 1
    program.run()
    assert (y.to_numpy() == 3).all()


def test_the_place_of_a_constant_is_not_used_again_inside(npu: Device) -> None:
    """Otherwise every run would have to restore the constant first."""
    with npu.record() as program:
        x = npu.tensor(SQUARE)
        y = npu.neg(x)
        del x
        npu.exp(y)
    assert len(program) == 2
    for _ in range(2):
        program.run()
        assert same_bits(y.to_numpy(), -SQUARE)


def test_copies_from_the_host_keep_their_place(npu: Device) -> None:
    """The host writes the same tensor between two commands, and by memset."""
    with npu.record() as program:
        x = npu.tensor(np.full(4, 1, np.float32))
        first = npu.neg(x)
        x.copy_from(np.full(4, 2, np.float32))
        second = npu.neg(x)
        npu.memset(x.ptr, 0, x.nbytes)
        third = npu.exp(x)
    for _ in range(2):
        program.run()
        assert [tensor.to_numpy()[0] for tensor in (first, second, third)] == [-1, -2, 1]


def test_packets_of_ones_own(npu: Device) -> None:
    a, b, c = npu.tensor(SQUARE), npu.tensor(SQUARE), npu.empty((12, 12))
    with npu.record() as program:
        npu.submit(matmul_packets(a.ptr, b.ptr, c.ptr, 12, 12, 12))
        npu.memcpy(b, c, c.nbytes)
    program.run()
    assert same_bits(b.to_numpy(), npu.matmul(SQUARE, SQUARE))
    assert len(program) == 2
    assert len(program.packets) == 2


def test_a_listing_says_what_each_command_does(npu: Device) -> None:
    with npu.record() as program:
        x = program.input("x", (3, 12, 12))
        npu.softmax(npu.matmul(x, x))
        npu.copy(x[:, :, :5])
    lines = program.listing().splitlines()
    assert len(lines) == len(program) == 3
    assert f"MATMUL 12x12x12 src1=0x{x.ptr:08x} src2=0x{x.ptr:08x}" in lines[0]
    assert "batch=3x1" in lines[0]
    assert "VECTOR softmax 36x12" in lines[1]
    assert "MEMCPY 36x20 bytes" in lines[2]
    assert "3 commands, inputs ['x'], outputs [], ready" in repr(program)


def test_one_doorbell_and_no_upload(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with npu.record() as program:
        x = program.input("x", (12, 12))
        y = x
        for _ in range(20):
            y = layer(npu, y)
    program.run(x=SQUARE)
    doorbells = register_writes(npu, monkeypatch, regs.RING_TAIL)
    window = register_writes(npu, monkeypatch, regs.DOORBELL)
    writes = memory_writes(npu, monkeypatch)
    loads = npu.counters()["commands"]
    program.run(x=SQUARE)
    assert len(doorbells) == 1
    assert window == []
    assert npu.counters()["commands"] - loads == len(program)  # no vector program was loaded either
    packets = sum(size for address, size in writes if address != x.ptr)
    assert packets == 64 * len(program.packets)
    assert [size for address, size in writes if address == x.ptr] == [x.nbytes]


def test_a_program_longer_than_the_ring_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    with echo_npu.open("cmodel", ring_slots=32) as npu:
        y = npu.full((8,), 0.0)
        with npu.record() as program:
            for _ in range(60):
                npu.add(y, 1.0, out=y)
        doorbells = register_writes(npu, monkeypatch, regs.RING_TAIL)
        program.run()
        assert len(doorbells) > 1
        assert (y.to_numpy() == 60).all()


def test_submit_does_not_wait(npu: Device) -> None:
    y = npu.full((4,), 0.0)
    with npu.record() as program:
        npu.add(y, 1.0, out=y)
    program.submit()
    program.submit()
    npu.wait()
    assert (y.to_numpy() == 2).all()


def filler(number: int, words: int) -> Program:
    """Return a program of `words` instructions that writes `number`."""
    b = Builder(f"fill{number}")
    register = b.vector()
    with b.chunks():
        for _ in range(words - 4):
            b.mov(register, float(number))
        b.mov(b.out, float(number))
    made = b.build()
    assert len(made) == words
    return made


def write(npu: Device, program: Program, out: DeviceTensor) -> None:
    npu.vector(program, rows=1, cols=out.size, output=Stream(out.ptr))


def test_an_evicted_vector_program_is_loaded_again(npu: Device) -> None:
    size = npu.capabilities.program_words
    out, other = npu.empty((4,)), npu.empty((4,))
    with npu.record() as program:
        write(npu, filler(1, size // 2), out)
    for number in range(2, 4):
        program.run()
        assert (out.to_numpy() == 1).all()
        for offset in (0, 10):  # elsewhere in program memory each time
            write(npu, filler(number + offset, size // 2 - 7 * number), other)
        out.copy_from(np.zeros(4, np.float32))
    write(npu, filler(99, size), other)
    program.run()
    assert (out.to_numpy() == 1).all()


def test_more_vector_programs_than_program_memory_holds(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    words = npu.capabilities.program_words // 2 - 1
    outs = [npu.empty((4,)) for _ in range(5)]
    with npu.record() as program:
        for number, out in enumerate(outs):
            write(npu, filler(number, words), out)
    assert "LOAD_PROGRAM" in program.listing()
    doorbells = register_writes(npu, monkeypatch, regs.RING_TAIL)
    for _ in range(2):
        program.run()
        assert [out.to_numpy()[0] for out in outs] == [0, 1, 2, 3, 4]
        npu.memset(outs[0].ptr, 0xFF, 16)
    assert len(doorbells) == 2
    # What was loaded is known again.
    assert same_bits(npu.exp(SQUARE), npu.exp(npu.tensor(SQUARE)).to_numpy())


@pytest.mark.parametrize("parts", [1, 2])
def test_vector_programs_that_fill_program_memory_exactly(npu: Device, parts: int) -> None:
    """They stay loaded from run to run."""
    outs = [npu.empty((4,)) for _ in range(parts)]
    with npu.record() as program:
        for number, out in enumerate(outs):
            write(npu, filler(number, npu.capabilities.program_words // parts), out)
    assert "LOAD_PROGRAM" not in program.listing()
    program.run()
    before = npu.counters()["commands"]
    program.run()
    assert npu.counters()["commands"] == before + parts
    assert [out.to_numpy()[0] for out in outs] == list(range(parts))


def test_programs_are_loaded_together_up_to_the_last_word(npu: Device) -> None:
    out = npu.empty((4,))
    with npu.record() as program:
        for number in range(4):
            write(npu, filler(number, npu.capabilities.program_words // 2), out)
    assert program.listing().count("LOAD_PROGRAM") == 2
    program.run()
    assert (out.to_numpy() == 3).all()


def test_a_vector_program_that_is_too_large(npu: Device) -> None:
    with pytest.raises(NpuProgramMemoryError), npu.record():
        write(npu, filler(1, npu.capabilities.program_words + 1), npu.empty((4,)))


def test_memory_is_reserved_until_the_program_is_closed(npu: Device) -> None:
    npu.submit_batch([echo_npu.nop_packet()])  # the ring takes its memory with the first use
    before = used(npu)
    with npu.record() as program:
        layer(npu, program.input("x", (12, 12)))
    assert used(npu)["activation"] > before["activation"]
    assert used(npu)["weight"] > before["weight"]
    others = [npu.tensor(np.full((12, 12), np.nan, np.float32)) for _ in range(50)]
    program.run(x=SQUARE)
    assert all(np.isnan(other.to_numpy()).all() for other in others)
    del others
    program.close()
    program.close()
    assert used(npu) == before
    refuses(NpuRecordingError, "closed", program.run)


def test_memory_goes_with_the_context_or_the_last_reference(npu: Device) -> None:
    npu.submit_batch([echo_npu.nop_packet()])
    before = used(npu)
    with npu.record() as program:
        layer(npu, program.input("x", (12, 12)))
    with program:
        program.run(x=SQUARE)
    assert program.closed
    assert used(npu) == before
    with npu.record() as program:
        layer(npu, program.input("x", (12, 12)))
    del program
    gc.collect()
    assert used(npu) == before


def test_a_result_outlives_the_program_and_operands_outlive_their_owner(npu: Device) -> None:
    weights = npu.tensor(SQUARE, region="weight")
    with npu.record() as program:
        y = npu.matmul(program.input("x", (12, 12)), weights)
    address = weights.ptr
    weights.free()
    assert npu.malloc(SQUARE.nbytes, "weight") != address
    program.run(x=SQUARE)
    program.close()
    assert npu.malloc(SQUARE.nbytes, "weight") == address
    npu.tensor(np.zeros((12, 12), np.float32))
    assert same_bits(y.to_numpy(), npu.matmul(SQUARE, SQUARE))


def test_what_is_freed_inside_is_used_again_inside(npu: Device) -> None:
    with npu.record() as program:
        y = program.input("x", (64, 64))
        for _ in range(50):
            y = npu.neg(npu.exp(y))
    assert used(npu)["activation"] < 5 * y.nbytes
    expected = np.full((64, 64), 0.5, np.float32)
    for _ in range(50):
        expected = -npu.exp(expected)
    program.run(x=np.full((64, 64), 0.5, np.float32))
    assert same_bits(y.to_numpy(), expected)


def test_a_failed_recording_leaves_nothing_behind(npu: Device) -> None:
    npu.submit_batch([echo_npu.nop_packet()])
    before = used(npu)
    with pytest.raises(ValueError, match="inner dimensions"), npu.record() as program:
        npu.matmul(layer(npu, program.input("x", (12, 12))), SQUARE[:5])
    assert used(npu) == before
    refuses(NpuRecordingError, "closed", program.run)
    assert same_bits(npu.matmul(SQUARE, SQUARE), npu.matmul(SQUARE, SQUARE))


@pytest.mark.parametrize(
    "read",
    [
        lambda npu, x: x.to_numpy(),
        lambda npu, x: npu.matmul(SQUARE, SQUARE),
        lambda npu, x: npu.memcpy(np.zeros(4, np.uint8), x, 4),
    ],
)
def test_a_host_read_inside_a_recording(npu: Device, read: Callable[[Device, DeviceTensor], Any]) -> None:
    with (
        pytest.raises(NpuRecordingError, match=r"read inside a recording.*DeviceTensors"),
        npu.record() as program,
    ):
        read(npu, program.input("x", (12, 12)))


def test_a_recording_inside_a_recording(npu: Device) -> None:
    with npu.record() as outer:
        with pytest.raises(NpuRecordingError, match="under way"), npu.record():
            pass
        refuses(NpuRecordingError, "still being recorded", outer.run)
        refuses(NpuRecordingError, "still being recorded", outer.close)
        refuses(NpuRecordingError, "cannot be reset", npu.reset)
    outer.run()


def test_another_thread_during_a_recording(npu: Device) -> None:
    caught: list[BaseException] = []

    def other() -> None:
        try:
            npu.matmul(SQUARE, SQUARE)
        except NpuRecordingError as error:
            caught.append(error)

    with npu.record():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread is recording" in str(caught[0])
    other()
    assert len(caught) == 1


def test_names(npu: Device) -> None:
    with npu.record() as program:
        x = program.input("x", (3,))
        program.output("y", npu.neg(x))
        refuses(ValueError, "used once", program.input, "x", (3,))
        refuses(ValueError, "identifier", program.input, "a b", (3,))
        refuses(ValueError, "used once", program.output, "y", x)
        refuses(TypeError, "DeviceTensor, got float", program.output, "z", 1.0)
        refuses(NpuRecordingError, "comes from outside", x.copy_from, np.zeros(3, np.float32))
    for call in (lambda: program.input("z", (3,)), lambda: program.output("z", x)):
        refuses(NpuRecordingError, "the recording is over", call)
    refuses(TypeError, "no input 'z'; its inputs are: x", program.run, z=np.zeros(3, np.float32))
    refuses(ValueError, r"shape \(4,\)", program.run, x=np.zeros(4, np.float32))
    refuses(TypeError, "float64", program.run, x=np.zeros(3))
    refuses(TypeError, "got list", program.run, x=[1, 2, 3])


def test_commands_that_a_recording_cannot_hold(npu: Device) -> None:
    entry = npu.load_program(filler(1, 8))
    out = npu.empty((4,))
    command = vector_command(entry, rows=1, cols=4, output=Stream(out.ptr)).packets()
    with npu.record():
        refuses(NpuRecordingError, "inside the recording", npu.submit, command)
        with pytest.raises(NpuRecordingError, match="places vector programs itself"):
            npu.submit(load_program_packets(out.ptr, 1, 0))
        refuses(NpuRecordingError, "recorded together", npu.submit, command[0])


def test_a_bad_packet_is_found_while_recording(npu: Device) -> None:
    packet = NpuCommandPacket(Opcode.MATMUL, 0, 0x1002, 0x2000, 0x1000_0000, m=4, k=4, n=4)
    with npu.record():
        npu.full((4,), 1.0)
        with pytest.raises(NpuDeviceError) as caught:
            npu.submit(packet)
    found = caught.value
    assert (found.code, found.packet, found.address) == (ErrorCode.MISALIGNED, 1, 0x1002)


def test_an_error_in_a_run(npu: Device) -> None:
    with npu.record() as program:
        ids = program.input("ids", (2,), np.int32)
        y = npu.embedding(npu.tensor(SQUARE), ids)
    with pytest.raises(NpuDeviceError) as caught:
        program.run(ids=np.array([0, 12], np.int32))
    assert caught.value.code == ErrorCode.BAD_INDEX
    npu.clear_error()
    program.run(ids=np.array([0, 11], np.int32))
    assert same_bits(y.to_numpy(), SQUARE[[0, 11]])


def test_a_reset_ends_what_was_recorded(npu: Device) -> None:
    with npu.record() as program:
        npu.full((4,), 1.0)
    npu.reset()
    refuses(NpuRecordingError, "reset after the program was recorded", program.run)
    program.close()
    with npu.record() as program:
        y = npu.full((4,), 1.0)
    program.run()
    assert (y.to_numpy() == 1).all()


def test_a_closed_device() -> None:
    with echo_npu.open("cmodel") as npu, npu.record() as program:
        npu.full((4,), 1.0)
    refuses(DeviceClosedError, None, program.run)
    program.close()


def test_an_empty_recording_runs(npu: Device) -> None:
    with npu.record() as program:
        pass
    assert program.run() == {}
    assert (len(program), program.packets, program.listing()) == (0, [], "")


def test_a_recorded_program_runs_inside_a_recording(npu: Device) -> None:
    with npu.record() as inner:
        x = inner.input("x", SQUARE.shape)
        inner.output("y", npu.softmax(x))
    with npu.record() as outer:
        inner.run(x=npu.tensor(SQUARE))
        outer.output("y", npu.exp(inner.outputs["y"]))
    expected = npu.exp(npu.softmax(SQUARE))
    assert same_bits(outer.run()["y"].to_numpy(), expected)
    assert same_bits(inner.run(x=-SQUARE)["y"].to_numpy(), npu.softmax(-SQUARE))
    assert same_bits(outer.run()["y"].to_numpy(), expected)


def test_commands_are_exchanged_for_those_of_another_recording() -> None:
    with echo_npu.open("cmodel") as npu:
        x = npu.tensor(VECTOR)
        first, second = npu.tensor(np.zeros((2, 12), np.float32)), npu.tensor(np.zeros((2, 12), np.float32))
        with npu.record() as program:
            npu.mul(x, 2.0, out=first[0])
            npu.silu(x, out=second[0])
        with npu.record() as other:
            npu.mul(x, 3.0, out=first[1])
        with npu.record() as foreign:
            npu.exp(x, out=first[1])
        program.run()
        assert not program.exchange([0, 1], other)
        assert not program.exchange([0], foreign)
        assert program.exchange([0], other)
        other = foreign = None  # type: ignore[assignment]
        gc.collect()
        second[0].copy_from(np.zeros(12, np.float32))
        program.run()
        assert np.array_equal(first.to_numpy(), [2 * VECTOR, 3 * VECTOR])
        assert np.array_equal(second.to_numpy()[0], npu.silu(VECTOR))
        program.close()
        with pytest.raises(NpuRecordingError):
            program.exchange([0], program)
