"""Copies of the RTL with changes in them, and what Verilator needs for one."""

from pathlib import Path
from typing import Final

SELECTOR_FILE: Final = "mutation_pkg.svh"
"""Every such copy has this file at its top. It selects a change."""
WITHOUT_LOOKING_BACK: Final = ("-fno-dedup", "-fno-reorder")
"""Arguments of Verilator for a tree with changes.

Each change adds a level to a block's statements, which are ordered again at every level, and to the logic
between two registers, which is searched for duplicates on every way through it. All 1,300 changes of one file
keep each of the two passes busy for more than three minutes. Without them Verilator takes 16 seconds.
"""


def verilator_args(rtl: Path) -> tuple[str, ...]:
    """Return the arguments of Verilator that RTL in a folder needs if there are changes in it."""
    return WITHOUT_LOOKING_BACK if (rtl / SELECTOR_FILE).exists() else ()
