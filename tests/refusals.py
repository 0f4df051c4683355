"""Calls that must be refused."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(
    error: type[Exception] | tuple[type[Exception], ...],
    words: str | list[str] | None,
    call: Callable[..., Any],
    *args: Any,
    **options: Any,
) -> None:
    """Assert that `call(*args, **options)` raises `error`, with a message that says why.

    Args:
        error: the exception.
        words: a regular expression that the message matches; or texts, all of which it has; None: any message.
    """
    __tracebackhide__ = True
    with pytest.raises(error, match=words if isinstance(words, str) else None) as caught:
        call(*args, **options)
    missing = [word for word in words if word not in str(caught.value)] if isinstance(words, list) else []
    assert not missing, f"{missing} not in: {caught.value}"
