"""Random sequences of a Device's calls: whatever came before, a reset gives a device that works."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
    ErrorCode,
    NpuCommandPacket,
    NpuDeviceError,
    Opcode,
    State,
    memcpy_packets,
    nop_packet,
)
from echo_npu.commands.vector_command import Stream
from echo_npu.spec import registers as regs
from echo_npu.vector.assembler import assemble
from echo_sim.numerals import choose_seed

FIRST = choose_seed(1)
TRIALS = 6
CALLS = 40
WRONG = {"bad": {ErrorCode.BAD_DIMENSION}, "stray": {ErrorCode.PROTECTED}}
"""Errors of the calls that submit what is wrong. With a watchdog any command may end in TIMEOUT too."""


class Calls:
    """A device, and the calls that may follow one another on it."""

    def __init__(self, npu: Device, rng: random.Random) -> None:
        self.npu = npu
        self.rng = rng
        self.watchdog = 0

    def product(self) -> None:
        m, k, n = (self.rng.randint(1, 12) for _ in range(3))
        a, b = np.full((m, k), 2, np.float32), np.full((k, n), 3, np.float32)
        assert np.all(self.npu.matmul(a, b) == 6 * k)

    def kernel(self) -> None:
        n = self.rng.randint(1, 70)
        assert np.allclose(np.asarray(self.npu.softmax(np.zeros((2, n), np.float32))), 1 / n)

    def program(self) -> None:
        """A program of its own, which must be loaded first."""
        term = self.rng.randint(1, 1000)
        lines = (".stream x s0", "loop: chunks", f"    add o, x, {term}.0", "next loop, x", "    end")
        words = assemble(f".name plus_{term}\n" + "\n".join(lines) + "\n")
        source, result = self.npu.tensor(np.ones(20, np.float32)), self.npu.empty(20)
        self.npu.vector(words, rows=1, cols=20, inputs=[Stream(source.ptr)], output=Stream(result.ptr))
        assert np.all(result.to_numpy() == term + 1)

    def ring(self) -> None:
        self.npu.submit_batch([nop_packet()] * self.rng.choice((1, 7, 1500)))
        self.npu.wait()

    def recorded(self) -> None:
        with self.npu.record() as program:
            x = program.input("x", (3, 4))
            program.output("y", self.npu.add(x, x))
        assert np.all(program.run(x=np.ones((3, 4), np.float32))["y"].to_numpy() == 2)

    def bad(self) -> None:
        self.npu.submit(NpuCommandPacket(Opcode.MATMUL, m=0, k=1, n=1))
        self.npu.wait()

    def stray(self) -> None:
        ring = self.npu.backend.read_reg(regs.RING_BASE)
        self.npu.submit(memcpy_packets(0x1000, ring or 0x1000_0000, 4))
        self.npu.wait()

    def long(self) -> None:
        self.npu.execute(memcpy_packets(0x1000, 0x1800_0000, 1 << 20))

    def limit(self) -> None:
        self.watchdog = self.rng.choice((0, 1, 30, 1000, 100_000, 2**32 - 1))
        self.npu.limit(watchdog_cycles=self.watchdog, protect_ring=self.rng.random() < 0.5)

    def clear_error(self) -> None:
        self.npu.clear_error()

    def reset(self) -> None:
        self.npu.reset()
        status = self.npu.status()
        assert (status.state, status.error_code) == (State.IDLE, ErrorCode.NONE)

    def any(self) -> Callable[[], None]:
        """Return a call to make next."""
        work = (self.product, self.kernel, self.program, self.ring, self.recorded, self.long)
        return self.rng.choice((*work, self.bad, self.stray, self.limit, self.clear_error, self.reset))

    def allowed(self, call: str) -> set[ErrorCode]:
        """Return the errors that a call may end in."""
        overdue = {ErrorCode.TIMEOUT} if self.watchdog and call != "reset" else set()
        return overdue | WRONG.get(call, set())


def outcome(call: Callable[[], None]) -> NpuDeviceError | None:
    """Return the device error that a call ends in, if any."""
    try:
        call()
    except NpuDeviceError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(FIRST, FIRST + TRIALS))
def test_a_device_works_after_any_calls(seed: int) -> None:
    """Again: SEED=<seed> python -m pytest tests/runtime/test_device_sequences.py -k "<seed>"."""
    rng = random.Random(seed)
    with echo_npu.open("cmodel", config="small") as npu:
        calls = Calls(npu, rng)
        for _ in range(CALLS):
            call = calls.any()
            error = outcome(call)
            if error is not None:
                if error.code not in calls.allowed(call.__name__):
                    raise error
                rng.choice((npu.clear_error, calls.reset))()
        npu.limit()
        calls.reset()
        calls.watchdog = 0
        for call in (calls.product, calls.kernel, calls.program, calls.ring, calls.recorded):
            call()
