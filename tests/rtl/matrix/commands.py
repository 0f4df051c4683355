"""Matrix commands in the form of matrix_command_t, for the testbenches of the matrix engine's parts."""

import random
from dataclasses import dataclass, field

from echo_npu.spec.contract import MAX_DIM
from echo_npu.spec.data_types import Blocks, DataType, OutType


@dataclass(frozen=True)
class MatrixOperand:
    """Address and strides, in bytes, of a matrix that repeats over two batch dimensions."""

    addr: int = 0
    row_stride: int = 0
    batch0_stride: int = 0
    batch1_stride: int = 0


@dataclass(frozen=True)
class MatrixCommand:
    """matrix_command_t: its members in their order, so that `bits` is the value of a port of that type."""

    src1: MatrixOperand = field(default_factory=MatrixOperand)
    src2: MatrixOperand = field(default_factory=MatrixOperand)
    dst: MatrixOperand = field(default_factory=MatrixOperand)
    batch0: int = 1
    batch1: int = 1
    m: int = 1
    k: int = 1
    n: int = 1
    trans_a: bool = False
    trans_b: bool = False
    kind: DataType = DataType.FP32
    src1_half: bool = False
    src2_half: bool = False
    blocks: Blocks = Blocks.NONE
    result: OutType = OutType.FLOAT32
    use_alpha: bool = False
    row_scale: bool = False
    col_scale: bool = False
    bias: bool = False
    relu: bool = False
    alpha: int = 0
    row_scales: int = 0
    columns: int = 0

    @property
    def left_type(self) -> DataType:
        """Return the type of src1 in memory."""
        return DataType.FP16 if self.src1_half else self.kind

    @property
    def right_type(self) -> DataType:
        """Return the type of src2 in memory, without blocks."""
        return DataType.FP16 if self.src2_half else self.kind

    @property
    def size(self) -> int:
        """Return the bytes of a result element."""
        return self.result.itemsize(self.kind)

    @property
    def steps(self) -> dict[str, bool]:
        """Return which steps of the epilogue the command has, in the order of the members."""
        steps = self.use_alpha, self.row_scale, self.col_scale, self.bias, self.relu
        return dict(zip(("ALPHA", "ROW_SCALE", "COL_SCALE", "BIAS", "RELU"), steps, strict=True))

    def bits(self, width: int) -> int:
        """Return the command as a number. AssertionError: the port is not `width` bits wide."""
        members: list[tuple[int, int]] = []
        for operand in (self.src1, self.src2, self.dst):
            parts = operand.addr, operand.row_stride, operand.batch0_stride, operand.batch1_stride
            members += [(part, 32) for part in parts]
        members += [(self.batch0, 16), (self.batch1, 16), (self.m, 25), (self.k, 25), (self.n, 25)]
        members += [(self.trans_a, 1), (self.trans_b, 1), (self.kind, 2)]
        members += [(self.src1_half, 1), (self.src2_half, 1), (self.blocks, 2), (self.result, 2)]
        members += [(step, 1) for step in self.steps.values()]
        members += [(self.alpha, 32), (self.row_scales, 32), (self.columns, 32)]
        assert sum(bits for _, bits in members) == width, "matrix_command_t has other members"
        word = 0
        for value, bits in members:
            assert 0 <= value < 1 << bits
            word = word << bits | value
        return word


def drawn_start(size: int) -> int:
    """Draw where a part of `size` elements of a dimension begins: all magnitudes are equally likely."""
    return min(random.getrandbits(random.randint(0, MAX_DIM.bit_length())), MAX_DIM - size)


def drawn_block_start(block: int, size: int) -> int:
    """Draw where a block of `size` elements begins: mostly it is the first or the second one."""
    return drawn_start(size + 9) if random.random() < 0.1 else random.choice((0, block))
