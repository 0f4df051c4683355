"""Common setting of faults and fuzz: initial memory, vector programs, legal commands and the probe of the
device."""

import random
from typing import Final

import numpy as np

from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import packet_bytes
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ALL_IRQS, END_IRQS, State
from echo_sim.config import load_config
from tb.faults.packets import Slots
from tb.faults.prediction import PredictedDevice, commands, effort
from tb.faults.script import Script
from tb.stimulus.programs import ProgramMaker

RING: Final = 0x1008_0000
"""Base of rings; memory after them is zero, which is NOPs."""
RING_SLOTS: Final = 64
PROBE: Final = 0x0070_0000
"""Operands of the probe; no drawn command uses this memory."""
DROP: Final = regs.CONTROL_CLEAR_ERROR.mask

NO_LIMITS: Final = ((regs.GUARD_SIZE, 0), (regs.WATCHDOG, 0))
"""Register writes that lift all limits on commands."""

RESET_CLOCKS: Final = (1, 1, 2, 3, 10)
"""Durations of rst_n low, in clocks, to draw from."""

READY, PROBING = 0, 1
"""Numbers of the routines that every batch has."""


class FaultStage:
    """Memory, legal commands and common routines of a batch, drawn from `rng`.

    Attributes:
        maker: draws the legal commands.
        pool: packets of legal commands.
        device: functional model in the state in which a case begins.
        hardware: the configuration.
        routines: READY brings a device after reset to the state in which a case begins; PROBING checks that
            an idle device works.
        first: case that makes a new device ready.
    """

    def __init__(self, config: str, rng: random.Random, pool: int, device: PredictedDevice) -> None:
        self.config = config
        self.device = device
        self.hardware = load_config(config)
        self.maker = ProgramMaker(rng, self.hardware)
        self._loads = [packet_bytes(packet) for command in self.maker.loads() for packet in command]
        kinds = [kind for kind in self.maker.kinds if kind != self.maker.load]
        self.pool: list[Slots] = []
        device.power()
        for start, end in list(device.memory.extents()):
            device.memory.bytes[start:end] = 0
        for address, data in self.maker.images.items():
            device.memory.write(address, np.frombuffer(data, dtype=np.uint8))
        device.programs.loaded = self.hardware.program_words
        while len(self.pool) < pool:
            slots = [packet_bytes(packet) for packet in self.maker.draw(kinds)]
            (_, command), *_ = commands(slots, device.programs, blocks=device.has_blocks)
            if command is not None and effort(command) < EFFORT:
                self.pool.append(slots)
        self.pool += [[load] for load in self._loads]
        left, right, _ = self._probe_operands()
        self.images = {
            **self.maker.images,
            PROBE: left.tobytes(),
            PROBE + 4096: right.tobytes(),
        }
        for address in (PROBE, PROBE + 4096):
            device.memory.write(address, np.frombuffer(self.images[address], dtype=np.uint8))
        device.take_back()
        self.routines = [self._ready(), self._probing()]
        self.first = Script()
        self.first.write((regs.IRQ_ENABLE, END_IRQS))
        self.first.insert(self.routines[READY])
        self.first.insert(self.routines[PROBING])

    def _ready(self) -> Script:
        """Load the programs of the legal commands; no other words of program memory are ever loaded."""
        script = Script()
        script.write((regs.IRQ_ENABLE, END_IRQS))
        for load in self._loads:
            script.packet(load)
        script.wait()
        return script

    def ready(self, script: Script) -> None:
        """Start a case, or continue after a hard reset."""
        script.call(READY, self.routines[READY])
        device = self.device
        device.power()
        device.write_reg(regs.IRQ_ENABLE, END_IRQS)
        for load in self._loads:
            device.submit(load)
        device.drain()
        device.peek(regs.STATUS)  # as the script does

    def _probe_operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = np.random.default_rng(1)
        left = values.integers(-8, 9, (6, 9)).astype(np.float32)
        right = values.integers(-8, 9, (9, 5)).astype(np.float32)
        return left, right, left @ right  # integers, so the sum is exact in any order

    def _probing(self) -> Script:
        """Compute a product, copy it, and check both results."""
        left, _, product = self._probe_operands()
        script = Script()
        m, k, n = *left.shape, product.shape[1]
        first, second = PROBE + 8192, PROBE + 12288
        script.allow([(first, first + product.nbytes), (second, second + product.nbytes - 1)])
        script.write(*NO_LIMITS, (regs.IRQ_ENABLE, END_IRQS), (regs.IRQ_STATUS, ALL_IRQS))
        script.sync_window()
        for packet in (
            *matmul_packets(PROBE, PROBE + 4096, first, m, k, n),
            *memcpy_packets(first, second, product.nbytes - 1),
        ):
            script.packet(packet_bytes(packet))
        script.wait()
        wanted = [(State.DONE, 3, "STATUS after the probe"), (0, 0xFF, "ERROR_CODE after the probe")]
        script.read([regs.STATUS, regs.ERROR_CODE], wanted)
        raw = product.tobytes()
        script.check([(first, raw), (second, raw[:-1])], "the probe")
        script.forbid()
        return script

    def probe(self, script: Script) -> None:
        """Check that an idle device works. Afterwards nothing limits commands."""
        for offset, value in NO_LIMITS:
            self.device.write_reg(offset, value)
        script.call(PROBING, self.routines[PROBING])

    def finish(self, script: Script) -> None:
        """End a case by checking that the device works."""
        self.probe(script)
        self.device.take_back()


EFFORT: Final = 2500.0
"""Approximate clock cycles that a legal command may take."""
