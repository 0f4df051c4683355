"""The capability registers: the runtime's only source for the sizes of the hardware."""

from dataclasses import dataclass

from echo_npu.backends.base import Backend
from echo_npu.errors import NpuError
from echo_npu.register_ops import ReadReg
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import Blocks, DataType
from echo_npu.spec.memory_map import MemoryMap, memory_map

_SUPPORTED_MAJOR = 1


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The values of the capability registers.

    `data_width` is bits, `scratch_*` are bytes. `data_types` are the labels of the `DataType`s that operands
    of a matrix product can have, `block_formats` those of the `Blocks` that its right operand can have, and
    `half_b` tells whether the right operand can be float16 beside a float32 left one.
    `vector_length` and `row_elements` are elements of a vector register and of a row register,
    `program_words` are instructions of program memory, `memory` tells where device memory lies.
    """

    version: tuple[int, int]
    array_rows: int
    array_cols: int
    vector_lanes: int
    data_width: int
    data_types: tuple[str, ...]
    block_formats: tuple[str, ...]
    half_b: bool
    queue_depth: int
    ring_max_slots: int
    scratch_a: int
    scratch_b: int
    scratch_acc: int
    vector_length: int
    row_elements: int
    program_words: int
    memory: MemoryMap


def read_capabilities(backend: Backend) -> Capabilities:
    """Read the capabilities; NpuError if this is no ECHO NPU, or one of another major version."""
    offsets = (
        regs.ID, regs.VERSION, regs.CAP_ARRAY, regs.CAP_VECTOR, regs.CAP_TYPES, regs.CAP_QUEUE,
        regs.CAP_SCRATCH_A, regs.CAP_SCRATCH_B, regs.CAP_SCRATCH_ACC,
        regs.CAP_VECTOR_LENGTH, regs.CAP_VECTOR_ROW, regs.CAP_PROGRAM, regs.CAP_MEMORY,
    )  # fmt: skip
    ident, version, array, vector, types, queue, *sizes = backend.run([ReadReg(offset) for offset in offsets])
    expected = regs.REGISTERS["ID"].reset
    if ident != expected:
        raise NpuError(f"register ID reads 0x{ident:08x}; an ECHO NPU has 0x{expected:08x}")
    major, minor = regs.VERSION_MAJOR.get(version), regs.VERSION_MINOR.get(version)
    if major != _SUPPORTED_MAJOR:
        raise NpuError(
            f"the device has version {major}.{minor}; this runtime knows version {_SUPPORTED_MAJOR}"
        )
    return Capabilities(
        version=(major, minor),
        array_rows=regs.CAP_ARRAY_ROWS.get(array),
        array_cols=regs.CAP_ARRAY_COLS.get(array),
        vector_lanes=regs.CAP_VECTOR_LANES.get(vector),
        data_width=regs.CAP_VECTOR_DATA_WIDTH.get(vector),
        data_types=tuple(dtype.label for dtype in DataType if types >> dtype & 1),
        block_formats=tuple(
            each.label for each in Blocks if each and types >> (regs.CAP_TYPES_Q8_0.shift - 1 + each) & 1
        ),
        half_b=bool(regs.CAP_TYPES_HALF_B.get(types)),
        queue_depth=regs.CAP_QUEUE_DEPTH.get(queue),
        ring_max_slots=(1 << regs.CAP_QUEUE_RING_MAX_SLOTS_LOG2.get(queue)) - 1,
        scratch_a=sizes[0],
        scratch_b=sizes[1],
        scratch_acc=sizes[2],
        vector_length=sizes[3],
        row_elements=sizes[4],
        program_words=sizes[5],
        memory=memory_map(
            regs.CAP_MEMORY_WEIGHT_MIB.get(sizes[6]), regs.CAP_MEMORY_ACTIVATION_MIB.get(sizes[6])
        ),
    )
