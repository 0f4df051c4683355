"""Runs the tests of vector_core for few and for all lanes."""

import pytest

from tb.blocks import run_module


# With two lanes a chunk has more words than a fold has steps, with sixteen fewer.
@pytest.mark.parametrize(("lanes", "vector_length", "row_elements"), [(2, 64, 128), (16, 32, 64)])
def test_vector_core(lanes: int, vector_length: int, row_elements: int) -> None:
    """Random programs, legal and not, at any pace of windows and output; aborts and resets."""
    run_module(__file__, Lanes=lanes, VectorLength=vector_length, RowElements=row_elements)
