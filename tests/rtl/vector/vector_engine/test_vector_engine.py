"""Run the tests of vector_engine with a wide bus."""

from tb.blocks import run_module


def test_vector_engine() -> None:
    """A beat brings several words of a program; each goes to its place."""
    # The engine's output is not observed.
    run_module(__file__, verilator_args=["-Wno-PINCONNECTEMPTY"], DataWidth=128)
