"""Runs the tests of stream_input for few and for all lanes."""

import pytest

from tb.blocks import run_module

VECTOR_LENGTH = 32


@pytest.mark.parametrize(("data_width", "lanes", "row_elements"), [(64, 4, 64), (256, 16, 128)])
def test_stream_input(data_width: int, lanes: int, row_elements: int) -> None:
    """Random streams with stalls, what they ask memory for, aborts."""
    beat_bits = (VECTOR_LENGTH // lanes).bit_length() - 1
    run_module(
        __file__,
        DataWidth=data_width,
        Lanes=lanes,
        RowElements=row_elements,
        BeatBits=beat_bits,
        for_tests={"VectorLength": VECTOR_LENGTH},
    )
