"""Parts of a campaign, in the form of the command line."""

import pytest

from tb.shard import WHOLE, Shard, parse_shard


def test_parts_count_from_one() -> None:
    assert parse_shard("2/3") == Shard(part=2, parts=3)
    assert parse_shard("1/1") == WHOLE
    assert str(Shard(2, 3)) == "2/3"


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "-1/2", "1/2/3", "a/b", ""])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"--shard {text}"):
        parse_shard(text)
