"""Runs the tests of stream_window for few and for all lanes."""

import pytest

from tb.blocks import run_module

VECTOR_LENGTH = 32


@pytest.mark.parametrize(("lanes", "row_elements"), [(4, 64), (16, 128)])
def test_stream_window(lanes: int, row_elements: int) -> None:
    """Random rows of every kind, with stalls; room, drain, abort."""
    beat_bits = (VECTOR_LENGTH // lanes).bit_length() - 1
    run_module(
        __file__,
        Lanes=lanes,
        RowElements=row_elements,
        BeatBits=beat_bits,
        for_tests={"VectorLength": VECTOR_LENGTH},
    )
