"""What the simulator answers to requests that there are not."""

import asyncio
from typing import Any
from unittest.mock import MagicMock

import pytest

from echo_sim import bridge


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> bridge.Server:
    """A server without a simulation."""
    for part in ("Dram", "RegisterPort", "HostWindow", "TraceRecorder"):
        monkeypatch.setattr(bridge, part, MagicMock())
    return bridge.Server(MagicMock())


def answered(server: bridge.Server, head: dict[str, Any]) -> dict[str, Any]:
    return asyncio.run(server.answer(head, bytearray()))[0]


@pytest.mark.parametrize("word", ["dram", "simulating", "answer", "", None])
def test_a_request_that_there_is_not_is_refused_by_its_name(served: bridge.Server, word: object) -> None:
    refused = answered(served, {"do": word})
    assert refused == {"error": f"there is no request {word!r}", "kind": "value"}


def test_the_words_of_the_protocol_are_requests(served: bridge.Server) -> None:
    assert answered(served, {"do": "memory_timing", "set": {"seed": 1}}) == {}
    assert "cycle" in answered(served, {"do": "trace_stop"})
