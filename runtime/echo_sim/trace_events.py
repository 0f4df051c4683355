"""The events that the simulation records, in the order of their cycles.

    kind        cycle        channel            a            b                     c
    LEVELS      of a change  -                  Level bits   -                     -
    START, DONE of a pulse   engine             -            -                     -
    RETIRE      of a pulse   -                  -            -                     -
    QUEUE       of a change  -                  in window    in ring               -
    TRANSFER    end          write << 8 | client  start      beats | bursts << 32  first address
    WINDOW      start        -                  read beats   write beats           multiply-accumulates
    CUT         of the end   -                  the record was full: nothing after it was kept

runtime/echo_sim/board/npu_trace.cpp writes them.
"""

from typing import Final

import numpy as np

from echo_sim.contract import TRACE_LEVELS

EVENT: Final = np.dtype(
    [("cycle", "<u8"), ("kind", "<u4"), ("channel", "<u4"), ("a", "<u8"), ("b", "<u8"), ("c", "<u8")]
)

LEVELS: Final = TRACE_LEVELS
"""The meanings of the bits of LEVELS, from bit 0. Each is a performance counter too."""
