"""The simulations that a worker of a cluster keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from echo_npu.backends.rtlfarm import remote
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO, MemoryPage
from echo_npu.backends.rtlmodel import Options
from tests.processes import eventually


class _Runner:
    """In place of a simulation."""

    def __init__(self, config: str, options: Options) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@dataclass(frozen=True)
class _Chunk:
    """What a worker looks at in a chunk."""

    config: str
    pages: Mapping[int, MemoryPage]


@pytest.fixture(autouse=True)
def without_simulations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(remote, "ChunkRunner", _Runner)
    yield
    for run in ("one", "other"):
        remote.end_runners(run)
    remote._over.clear()


def _runner(config: str, run: str) -> _Runner:
    """Return the simulation that a chunk gets, which ends at once."""
    kept = remote._take(config, Options(), run)
    remote._give_back(kept)
    assert isinstance(kept.runner, _Runner)
    return kept.runner


def test_a_simulation_is_used_again_and_two_at_a_time_are_two() -> None:
    first = remote._take("small", Options(), "one")
    assert remote._take("small", Options(), "one") is not first
    remote._give_back(first)
    assert remote._take("small", Options(), "one") is first


@pytest.mark.parametrize(
    ("config", "options"), [("default", Options()), ("small", Options(latency=3)), ("small", Options(seed=5))]
)
def test_another_configuration_takes_its_place(config: str, options: Options) -> None:
    first = _runner("small", "one")
    other = remote._take(config, options, "one")
    assert other.runner is not first
    assert first.closed == 1
    remote._give_back(other)
    assert _runner("small", "one") is not first


def test_pages_come_from_whichever_block_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own content, and pages of zeros from nowhere."""
    ran: list[_Chunk] = []

    def run(_: object, chunk: _Chunk) -> str:
        ran.append(chunk)
        return "result"

    monkeypatch.setattr(_Runner, "run", run, raising=False)
    monkeypatch.setattr(remote, "hardware_of", lambda _: "here")
    pages = {number: MemoryPage(bytes([number]) * PAGE) for number in (3, 5, 8)}
    unneeded = MemoryPage(bytes([9]) * PAGE)
    blocks = [
        {pages[5].digest: pages[5].content, unneeded.digest: unneeded.content},
        {pages[number].digest: pages[number].content for number in (3, 8)},
    ]
    digests = {number: page.digest for number, page in pages.items()} | {6: ZERO.digest}
    packed = remote.PackedChunk(_Chunk("small", {}), digests, "here")  # type: ignore[arg-type]
    assert remote.run_packed(packed, blocks, Options(), "one") == "result"  # type: ignore[comparison-overlap]
    assert {number: page.content for number, page in ran[0].pages.items()} == {
        3: b"\3" * PAGE, 5: b"\5" * PAGE, 6: bytes(PAGE), 8: b"\b" * PAGE,
    }  # fmt: skip


def test_the_end_of_a_run_ends_its_own_simulations() -> None:
    first = _runner("small", "one")
    assert _runner("small", "other") is first
    remote.end_runners("one")
    assert first.closed == 0
    remote.end_runners("other")
    assert first.closed == 1


def test_an_idle_simulation_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "IDLE_S", 0.05)
    busy = remote._take("small", Options(), "one")
    idle = _runner("small", "one")
    assert eventually(lambda: idle.closed == 1)
    assert isinstance(busy.runner, _Runner)
    assert busy.runner.closed == 0


def test_a_run_that_has_ended_starts_no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it ends while one is being started."""
    remote.end_runners("one")
    with pytest.raises(remote.RunOverError):
        remote._take("small", Options(), "one")
    started: list[_Runner] = []

    class _Slow(_Runner):
        def __init__(self, config: str, options: Options) -> None:
            super().__init__(config, options)
            started.append(self)
            remote.end_runners("other")

    monkeypatch.setattr(remote, "ChunkRunner", _Slow)
    with pytest.raises(remote.RunOverError):
        remote._take("small", Options(), "other")
    assert [each.closed for each in started] == [1]
