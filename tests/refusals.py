"""Calls that must be refused."""

from collections.abc import Callable
from typing import Any

import pytest

Error = type[Exception]
Words = str | list[str] | None
"""A regular expression that the message matches, texts that it contains, or None for any message."""


def refuses(
    error: Error | tuple[Error, ...], words: Words, call: Callable[..., Any], *args: Any, **options: Any
) -> None:
    """Assert that `call(*args, **options)` raises `error` with a message that says why."""
    __tracebackhide__ = True
    with pytest.raises(error, match=words if isinstance(words, str) else None) as caught:
        call(*args, **options)
    missing = [word for word in words if word not in str(caught.value)] if isinstance(words, list) else []
    assert not missing, f"{missing} not in: {caught.value}"
