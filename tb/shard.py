"""Shards: parts of a campaign that run separately."""

import re
from typing import NamedTuple


class Shard(NamedTuple):
    """Part `part` of `parts`, counted from 1."""

    part: int
    parts: int

    def __str__(self) -> str:
        return f"{self.part}/{self.parts}"


WHOLE = Shard(1, 1)


def parse_shard(text: str) -> Shard:
    """Parse "I/N", such as "1/4". Raise ValueError unless 1 <= I <= N."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard {text}: it must be I/N with 1 <= I <= N")
    return Shard(int(match[1]), int(match[2]))
