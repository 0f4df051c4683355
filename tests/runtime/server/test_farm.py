"""The device server on a farm: clients write device memory by themselves, and every chunk is checked."""

import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from echo_npu.cli.app import app
from echo_npu.commands.command import Command
from echo_npu.model.memory import DeviceMemory
from echo_npu.server.protocol import AnswerStatus, RequestKind
from tests.processes import eventually
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, simulations
from tests.runtime.server.server_client import AnswerError, ServerClient, node, opened

__all__ = ["simulations"]

_ROUNDS = 6


def _graphs(client: ServerClient) -> None:
    """Run a graph again and again, with inputs that the client changes in every way that it has."""
    rng = np.random.default_rng(5)
    weights = client.put(rng.standard_normal((40, 64)).astype(np.float32))
    rows, product, total = client.room((3, 64)), client.room((3, 40)), client.room((3, 40))
    client.write(total, np.zeros((3, 40)))
    sums = np.zeros((3, 40), np.float32)
    for number in range(_ROUNDS):
        values = rng.integers(-4, 5, (3, 64)).astype(np.float32)
        client.write(rows, values)
        if number == 3:
            client.write(weights, np.ones((40, 64)))
        if number == 4:
            client.write(total, np.zeros((3, 40)))
            sums[:] = 0
        if number:
            client.run(7)
        else:
            client.graph(node("MUL_MAT", product, weights, rows), node("ADD", total, total, product), key=7)
        sums += client.read(product).reshape(3, 40)
        assert np.array_equal(client.read(total).reshape(3, 40), sums)
        if number == 4:
            client.ask(RequestKind.COUNTERS)  # waits for all chunks
    assert (client.read(product).reshape(3, 40) == values.sum(axis=1, keepdims=True)).all()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A socket, in the folder in which the farm keeps what it finds."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "server.sock"


def _served(path: Path, client: threading.Thread, *words: str) -> int:
    """Run the command while a thread is its client; return the exit status."""
    client.start()
    command = ["serve", "--backend", "rtlfarm", "--config", CONFIG, "--socket", str(path), "--idle", "0.5"]
    status = CliRunner().invoke(app, [*command, "--jobs", "2", *words]).exit_code
    client.join()
    return status


@pytest.mark.usefixtures("usual_signals")
def test_what_clients_write_by_themselves_is_in_the_chunks(
    path: Path, simulations: type[ModelSimulation]
) -> None:
    done: list[int] = []

    def clients() -> None:
        assert eventually(path.exists, 60)
        for number in range(2):
            with opened(path) as client:
                _graphs(client)
                done.append(number)

    assert _served(path, threading.Thread(target=clients)) == 0
    assert done == [0, 1]
    assert sum(len(each.timing) - 1 for each in simulations.made) >= 2
    assert all(each.closed for each in simulations.made)
    assert not list(path.parent.glob("failures/*"))


@pytest.mark.usefixtures("usual_signals")
def test_a_difference_ends_the_device_and_is_the_exit_status(
    path: Path, simulations: type[ModelSimulation]
) -> None:
    answers: list[AnswerError] = []

    def wrong(_command: Command, memory: DeviceMemory) -> None:
        memory.bytes[5] = 1

    simulations.harm = wrong

    def clients() -> None:
        assert eventually(path.exists, 60)
        with opened(path) as client:
            x = client.put(np.ones(5, np.float32))
            client.graph(node("ADD", client.room((5,)), x, x))
            for _ in range(2):
                try:
                    client.ask(RequestKind.COUNTERS)
                except AnswerError as error:
                    answers.append(error)
        with opened(path) as client:  # whose own work nobody looks at
            x = client.put(np.ones(5, np.float32))
            client.graph(node("ADD", client.room((5,)), x, x))
        with opened(path) as client:
            simulations.harm = None
            _graphs(client)

    assert _served(path, threading.Thread(target=clients)) == 1
    assert [each.status for each in answers] == [AnswerStatus.DEVICE_FAILED] * 2
    assert "memory differs" in str(answers[0])
    assert len(list(path.parent.glob("failures/*.chunk"))) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--backend", "cmodel", "--jobs", "2"), "the backend cmodel has no option 'jobs'"),
        (("--backend", "rtlfarm", "--jobs", "9999"), "jobs is 9999"),
        (("--backend", "rtlfarm", "--executor", "here"), "executor is 'here'"),
    ],
)
def test_options_that_no_device_could_open_with_are_refused_at_once(
    words: tuple[str, ...], reason: str, path: Path
) -> None:
    result = CliRunner().invoke(app, ["serve", "--socket", str(path), "--idle", "0", *words])
    assert result.exit_code == 2
    assert reason in result.stderr
    assert not path.exists()
