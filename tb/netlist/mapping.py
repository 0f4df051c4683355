"""How Yosys maps word-level cells to gates: what netlists and the tables of silicon have in common."""

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
