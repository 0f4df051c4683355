"""Epilogues of random commands and their results, for the testbenches of the modules that execute them."""

import random
from dataclasses import replace

import numpy as np

from echo_npu.model.epilogue import Epilogue, store
from echo_npu.spec.data_types import DataType, OutType
from tests.rtl.matrix.arithmetic import Words, draw_words
from tests.rtl.matrix.commands import MatrixCommand


def draw_epilogue(command: MatrixCommand) -> MatrixCommand:
    """Return the command with random steps after its sums; int32 results take none."""
    kind = random.choice(list(DataType))
    results = [OutType.FLOAT32, OutType.OWN, *([OutType.INT32] if kind == DataType.INT8 else [])]
    result = random.choice(results)
    chance = 0.0 if result == OutType.INT32 else random.choice((0.0, 0.5, 1.0))
    use_alpha, row_scale, col_scale, bias, relu = (random.random() < chance for _ in range(5))
    return replace(
        command,
        kind=kind,
        result=result,
        use_alpha=use_alpha,
        row_scale=row_scale,
        col_scale=col_scale,
        bias=bias,
        relu=relu,
        alpha=int(draw_words(1)[0]),
    )


def stored(command: MatrixCommand, sums: Words, row_scale: int, column_scales: Words, bias: Words) -> bytes:
    """Return sums of one row as they are stored, after every step of the command."""
    if command.result == OutType.INT32:
        return sums.tobytes()
    steps = Epilogue(
        alpha=_float(command.alpha) if command.use_alpha else None,
        row_scale=np.array([row_scale], np.uint32).view(np.float32) if command.row_scale else None,
        column_scale=column_scales.view(np.float32) if command.col_scale else None,
        bias=bias.view(np.float32) if command.bias else None,
        relu=command.relu,
    )
    row = sums.view(np.int32 if command.kind == DataType.INT8 else np.float32)[None]
    return store(steps.apply(row), command.kind, command.result).tobytes()


def _float(bits: int) -> np.float32:
    return np.array([bits], np.uint32).view(np.float32)[0]
