"""The functional model in this process: bit-exact results, no cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import Backend, check_register, refuse_options
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory, memory_map_of
from echo_sim.config import NpuConfig, load_config


class CmodelBackend(Backend):
    """`FunctionalModel` behind the five primitives."""

    name = "cmodel"
    description = "functional model in numpy: bit-exact, has no cycles"
    has_cycles = False
    shares_memory = True

    def __init__(self, config: NpuConfig) -> None:
        self.memory = DeviceMemory(memory_map_of(config))
        self.model = FunctionalModel(config, self.memory)

    @classmethod
    def open(cls, config: str, options: Mapping[str, Any]) -> CmodelBackend:
        refuse_options(cls.name, options)
        return cls(load_config(config))

    def read_reg(self, offset: int) -> int:
        check_register(offset)
        return self.model.read_reg(offset)

    def write_reg(self, offset: int, value: int) -> None:
        check_register(offset, value)
        self.model.write_reg(offset, value)

    def read_mem(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        return self.memory.read(address, nbytes)

    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        self.memory.write(address, data)

    def wait_irq(self, timeout_cycles: int) -> bool:
        return self.model.wait_irq(timeout_cycles)

    @property
    def shared_memory(self) -> DeviceMemory:
        return self.memory

    def close(self) -> None:
        self.memory.close()


BACKEND = CmodelBackend
