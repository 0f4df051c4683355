"""Recorded programs on the RTL: the bits of direct calls and of the functional model, one doorbell a run."""

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, DeviceTensor
from echo_npu.commands.vector_command import Stream
from echo_npu.register_ops import RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.vector import Builder

pytestmark = pytest.mark.sim

RNG = np.random.default_rng(8)
WEIGHTS = RNG.standard_normal((24, 24), dtype=np.float32)
FACTORS = RNG.standard_normal(24, dtype=np.float32)
INPUTS = [RNG.standard_normal((10, 24), dtype=np.float32) for _ in range(3)]


def layer(npu: Device, x: DeviceTensor) -> DeviceTensor:
    """Record products, row operations, elementwise operations, reductions and copies: both engines, with
    dependences."""
    normed = npu.rms_norm(x, FACTORS)
    heads = npu.matmul(normed, WEIGHTS).reshape(10, 2, 12).swapaxes(0, 1)
    mixed = npu.permute(npu.attention(heads, heads, heads, causal=True), (1, 0, 2)).reshape(10, 24)
    added = npu.add(npu.matmul(mixed, WEIGHTS, trans_b=True), x)
    return npu.cat([npu.silu(added), npu.sum(added, 0, True)])


def runs(npu: Device, bodies: int = 3) -> list[np.ndarray]:
    with npu.record() as program:
        y = program.input("x", (10, 24))
        for _ in range(bodies):
            y = layer(npu, y)[:10]
        program.output("y", y)
    with program:
        return [program.run(x=x)["y"].to_numpy() for x in INPUTS]


def test_the_bits_of_direct_calls_and_of_the_functional_model(npu: Device, config: str) -> None:
    recorded = runs(npu)
    for x, found in zip(INPUTS, recorded, strict=True):
        y = npu.tensor(x)
        for _ in range(3):
            y = layer(npu, y)[:10]
        assert y.to_numpy().tobytes() == found.tobytes()
    with echo_npu.open("cmodel", config=config) as model:
        assert [each.tobytes() for each in runs(model)] == [each.tobytes() for each in recorded]


def test_a_run_is_one_doorbell_and_uploads_nothing(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with npu.record() as program:
        x = program.input("x", (10, 24))
        layer(npu, x)
    program.run(x=INPUTS[0])
    doorbells: list[WriteReg] = []
    written: list[int] = []
    run, write = npu.backend.run, npu.backend.write_mem

    def spy(ops: list[RegisterOp]) -> list[int]:
        bells = (regs.RING_TAIL, regs.DOORBELL)
        doorbells.extend(op for op in ops if isinstance(op, WriteReg) and op.offset in bells)
        return run(ops)

    def spy_write(address: int, data: np.ndarray) -> None:
        written.append(data.size)
        write(address, data)

    monkeypatch.setattr(npu.backend, "run", spy)
    monkeypatch.setattr(npu.backend, "write_mem", spy_write)
    before = npu.counters()["commands"]
    program.run(x=INPUTS[1])
    assert [bell.offset for bell in doorbells] == [regs.RING_TAIL]
    assert sum(written) == x.nbytes + 64 * len(program.packets)
    assert npu.counters()["commands"] - before == len(program)


def test_a_run_takes_the_same_cycles_every_time(npu: Device) -> None:
    """A run takes fewer cycles than its commands one by one: the next one is fetched and checked
    meanwhile."""
    with npu.record() as program:
        x = program.input("x", (10, 24))
        layer(npu, x)

    def busy() -> int:
        before = npu.counters()["busy_cycles"]
        program.run(x=INPUTS[0])
        return npu.counters()["busy_cycles"] - before

    first, second = busy(), busy()
    assert abs(first - second) < 0.02 * second  # its place in the ring makes a difference of a few cycles
    tensor = npu.tensor(INPUTS[0])
    before = npu.counters()["busy_cycles"]
    layer(npu, tensor)
    assert second < npu.counters()["busy_cycles"] - before


def test_more_vector_programs_than_program_memory_holds(npu: Device) -> None:
    """The program loads them itself, between its commands."""
    outs = [npu.empty((4,)) for _ in range(3)]
    with npu.record() as program:
        for number, out in enumerate(outs):
            b = Builder(f"constant {number}")
            register = b.vector()
            with b.chunks():
                for _ in range(npu.capabilities.program_words // 2):
                    b.mov(register, float(number))
                b.mov(b.out, register)
            npu.vector(b.build(), rows=1, cols=4, output=Stream(out.ptr))
    assert program.listing().count("LOAD_PROGRAM") == 3
    for _ in range(2):
        program.run()
        assert [out.to_numpy().tolist() for out in outs] == [[0.0] * 4, [1.0] * 4, [2.0] * 4]
        npu.memset(outs[0].ptr, 0xFF, 16)
    assert np.array_equal(npu.relu(WEIGHTS), np.maximum(WEIGHTS, 0))
