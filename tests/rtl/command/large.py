"""The memory of the largest device."""

from echo_npu.spec.memory_map import memory_map

MEMORY_MIB = 8192
"""Of weights, and of activations."""

OPTIONS = tuple(f"-DNPU_{region}_MIB={MEMORY_MIB}" for region in ("WEIGHT", "ACTIVATION"))
"""What Verilator is told."""

MEMORY = memory_map(MEMORY_MIB, MEMORY_MIB)
