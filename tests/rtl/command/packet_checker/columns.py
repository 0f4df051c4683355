"""Products with one column, whose rows lie at every small step. The engine turns those that are dense."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator

from echo_npu.commands.packets import DTYPE_SHIFT, OUT_SHIFT, Flags, Opcode
from echo_npu.spec.data_types import DataType, OutType
from tests.rtl.command.packet_checker.oracle import TURNED, expected
from tests.rtl.command.packet_checker.sound import EXTENSION, FLAGS, K, M, N, sound

STEPS = (0, 1, 2, 3, 4, 8)
"""Bytes from one row to the next: those of each type's element among them."""

SRC2_STEP, DST_STEP = EXTENSION + 7, EXTENSION + 8


def columns(rng: random.Random) -> Iterator[list[int]]:
    """Yield columns of all types and layouts, with all pairs of steps; refused ones among them."""
    types = [*(int(kind) << DTYPE_SHIFT for kind in DataType), int(Flags.HALF_B)]
    layouts = (0, int(Flags.TRANS_A), int(Flags.TRANS_B))
    outs = (OutType.OWN, OutType.FLOAT32)
    turned: Counter[int | None] = Counter()
    for kind, layout, out, m, k, step, dst_step in itertools.product(
        types, layouts, outs, (1, 2, 9), (1, 7), STEPS, STEPS
    ):
        words = sound(rng, Opcode.MATMUL)
        words[FLAGS] = int(Flags.EXT) | kind | layout | out << OUT_SHIFT
        words[M], words[K], words[N] = m, k, 1
        words[EXTENSION + 1] = rng.choice((1, 2))
        words[SRC2_STEP], words[DST_STEP] = step, dst_step
        words[EXTENSION + 13] = words[EXTENSION + 14] = 0
        turned[expected(words).get(TURNED)] += 1
        yield words
    assert min(turned[True], turned[False], turned[None]) > 100, f"turned, not turned, refused: {turned}"
