"""The simulations that a worker of a cluster keeps."""

from collections.abc import Iterator

import pytest

from echo_npu.backends.rtlfarm import remote
from echo_npu.backends.rtlmodel import Options
from tests.processes import eventually


class _Runner:
    """In place of a simulation."""

    def __init__(self, config: str, options: Options) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


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


def test_another_configuration_takes_its_place() -> None:
    first = _runner("small", "one")
    assert _runner("default", "one") is not first
    assert first.closed == 1


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
