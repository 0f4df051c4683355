"""How Yosys maps word-level cells to gates: what netlists and the tables of silicon have in common."""

TO_GATES = (
    "opt",
    "wreduce",
    "peepopt",
    "opt_clean",
    "alumacc",
    "opt",
    "memory_map t:$mem_v2 c:large_* %d",
    "opt -fast -full",
    "techmap",
    "opt -fast",
)
"""The order is that of `synth`. Memories whose names begin with `large_` stay memories."""
