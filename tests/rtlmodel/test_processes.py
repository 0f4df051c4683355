"""Either side may die at any moment: the other one notices within seconds, and nothing is left behind."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, SimulatorError, matmul_packets
from tests.processes import alive, eventually

pytestmark = [pytest.mark.sim, pytest.mark.usefixtures("usual_signals")]

SECONDS = 8.0  # "within seconds", on a loaded machine
LONG = 1400  # a product of this size simulates for twenty seconds: longer than any of these tests waits

MARK = "ECHO_NPU_TEST_MARK"


class Marked:
    """All descendants of one test program, found by a variable in their environment."""

    def __init__(self) -> None:
        self.value = uuid.uuid4().hex
        self.needle = f"{MARK}={self.value}".encode()

    def pids(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (
                    self.needle in (folder / "environ").read_bytes()
                    and "State:\tZ" not in (folder / "status").read_text()
                ):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def start(self, code: str, config: str) -> subprocess.Popen[str]:
        """Start a program with helpers that open devices; its output can be read line by line."""
        prelude = f"import os, sys, time, echo_npu\nLONG = {LONG}\nconfig = {config!r}\n"
        return subprocess.Popen(
            [sys.executable, "-u", "-c", prelude + textwrap.dedent(code)],
            env={**os.environ, MARK: self.value, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def marked() -> Iterator[Marked]:
    mark = Marked()
    yield mark
    for pid in mark.pids():
        os.kill(pid, signal.SIGKILL)


def sockets(pid: int) -> list[str]:
    """Return the abstract sockets that a process named after itself."""
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if f"@echo-npu-{pid}-" in line]


def simulator_pid(device: Device) -> int:
    return int(device.info()["simulator"]["pid"])


BUSY = """
    npu = echo_npu.open("rtlmodel", config=config)
    print(npu.info()["simulator"]["pid"])
    npu.submit(echo_npu.matmul_packets(0x1000, 0x800000, 0x10000000, LONG, LONG, LONG))
    print("submitted")
    npu.wait()
    print("finished")
"""
IDLE = """
    npu = echo_npu.open("rtlmodel", config=config)
    print(npu.info()["simulator"]["pid"])
    print("submitted")
    time.sleep(1000)
"""


# --- the parent dies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [BUSY, IDLE], ids=["simulating", "idle"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_parent_dies_nothing_is_left(marked: Marked, config: str, code: str, number: int) -> None:
    parent = marked.start(code, config)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert parent.stdout.readline() == "submitted\n"
    time.sleep(random.uniform(0, 0.5))
    assert alive(pid)
    parent.send_signal(number)
    parent.wait(SECONDS)
    assert eventually(lambda: not alive(pid))
    assert eventually(lambda: not marked.pids())
    assert not sockets(parent.pid)
    parent.communicate()


@pytest.mark.parametrize("moment", [0.05, 0.3, 0.6, 0.9, 1.2])
def test_a_parent_killed_while_it_opens_leaves_nothing(marked: Marked, config: str, moment: float) -> None:
    with echo_npu.open("rtlmodel", config=config):
        pass  # so that it is built
    parent = marked.start(BUSY, config)
    time.sleep(moment + random.uniform(0, 0.25))
    parent.kill()
    parent.wait(SECONDS)
    assert eventually(lambda: not marked.pids())
    assert not sockets(parent.pid)
    parent.communicate()


def test_a_fork_of_the_parent_does_not_keep_the_simulator_alive(marked: Marked, config: str) -> None:
    parent = marked.start(
        """
        npu = echo_npu.open("rtlmodel", config=config)
        if os.fork() == 0:
            os.close(1); os.close(2)
            time.sleep(1000)
        print(npu.info()["simulator"]["pid"])
        time.sleep(1000)
        """,
        config,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait(SECONDS)
    assert eventually(lambda: not alive(pid))
    parent.communicate()


@pytest.mark.parametrize(
    "end", ["pass", "raise ValueError('on purpose')", "sys.exit(3)", "npu.close(); npu.close()", "del npu"]
)
def test_a_program_that_just_ends_leaves_nothing(marked: Marked, config: str, end: str) -> None:
    parent = marked.start(
        f"""
        npu = echo_npu.open("rtlmodel", config=config)
        print(npu.info()["simulator"]["pid"], npu.info()["simulator"]["log"])
        {end}
        """,
        config,
    )
    out, _ = parent.communicate(timeout=60)
    pid, log = out.split()
    assert eventually(lambda: not marked.pids())
    assert not alive(int(pid))
    assert not Path(log).parent.exists()


# --- the simulator dies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["idle", "simulating"])
def test_when_the_simulator_dies_the_parent_is_told(npu: Device, when: str) -> None:
    pid = simulator_pid(npu)
    if when == "simulating":
        npu.submit(matmul_packets(0x1000, 0x800000, 0x1000_0000, LONG, LONG, LONG))
        timer = threading.Timer(random.uniform(0.1, 0.6), os.kill, (pid, signal.SIGKILL))
        timer.start()
    else:
        os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(SimulatorError) as caught:
        npu.wait()
    assert time.monotonic() - start < SECONDS
    error = caught.value
    assert error.exit_status == -signal.SIGKILL
    assert error.log_path is not None
    assert error.log_path.exists()
    assert str(error.log_path) in str(error)
    assert "signal 9" in str(error)
    assert error.log_tail
    assert error.log_tail.splitlines()[-1] in str(error)
    with pytest.raises(SimulatorError):  # and it stays dead
        npu.status()
    npu.close()
    npu.close()
    assert not alive(pid)
    assert not sockets(os.getpid())
    for path in error.log_path.parent.iterdir():
        path.unlink()
    error.log_path.parent.rmdir()


def test_the_other_device_does_not_notice(config: str) -> None:
    with (
        echo_npu.open("rtlmodel", config=config) as first,
        echo_npu.open("rtlmodel", config=config) as second,
    ):
        os.kill(simulator_pid(first), signal.SIGKILL)
        with pytest.raises(SimulatorError):
            first.status()
        assert np.array_equal(
            second.matmul(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)), np.eye(3)
        )


def test_a_simulator_that_does_not_answer_is_ended(config: str) -> None:
    with echo_npu.open("rtlmodel", config=config, timeout=1.5) as npu:
        pid = simulator_pid(npu)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(SimulatorError, match=r"did not answer within 1\.5 s"):
            npu.status()
        assert eventually(lambda: not alive(pid))


def test_an_interrupt_ends_a_long_wait(npu: Device) -> None:
    pid = simulator_pid(npu)
    npu.submit(matmul_packets(0x1000, 0x800000, 0x1000_0000, LONG, LONG, LONG))
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        npu.wait()
    assert eventually(lambda: not alive(pid))
    with pytest.raises(SimulatorError, match="interrupt"):
        npu.status()


# --- the parent lives on ------------------------------------------------------------------------------------


def test_close_ends_the_simulator_and_removes_its_folder(config: str) -> None:
    npu = echo_npu.open("rtlmodel", config=config)
    pid, log = simulator_pid(npu), Path(npu.info()["simulator"]["log"])
    assert log.exists()
    assert len(os.listdir("/proc/self/fd")) > 0
    npu.close()
    npu.close()
    assert not alive(pid)
    assert not log.parent.exists()


def test_a_device_that_is_forgotten_is_closed(config: str) -> None:
    npu = echo_npu.open("rtlmodel", config=config)
    pid = simulator_pid(npu)
    del npu
    gc.collect()
    assert eventually(lambda: not alive(pid))


def test_nothing_leaks_over_many_devices(config: str) -> None:
    def resources() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    with echo_npu.open("rtlmodel", config=config):
        pass
    before = resources()
    for _ in range(3):
        with echo_npu.open("rtlmodel", config=config) as npu:
            npu.status()
    assert resources() == before


def test_the_thread_that_opened_a_device_may_end(config: str) -> None:
    """The simulator belongs to the process, not to the thread that started it."""
    opened: list[Device] = []
    thread = threading.Thread(target=lambda: opened.append(echo_npu.open("rtlmodel", config=config)))
    thread.start()
    thread.join()
    time.sleep(1.0)
    with opened[0] as npu:
        npu.submit(echo_npu.nop_packet())
        npu.wait()


def test_a_forked_child_that_ends_does_not_end_the_simulator(npu: Device) -> None:
    child = os.fork()
    if child == 0:
        npu.close()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.7)
    npu.submit(echo_npu.nop_packet())
    npu.wait()
    assert alive(simulator_pid(npu))


@pytest.mark.parametrize("missing", ["g++", "make", "perl"])
def test_a_missing_tool_is_a_simulator_error_that_names_it(
    marked: Marked, config: str, tmp_path: Path, missing: str
) -> None:
    for tool in {"g++", "make", "perl"} - {missing}:
        (tmp_path / tool).symlink_to("/bin/true")
    parent = marked.start(
        f"""
        os.environ["PATH"] = {str(tmp_path)!r}
        os.environ.pop("CXX", None)
        try:
            echo_npu.open("rtlmodel", config=config)
        except echo_npu.SimulatorError as error:
            print(error)
        """,
        config,
    )
    out, err = parent.communicate(timeout=60)
    assert missing in out, err
    assert "Install it" in out


def test_a_forked_child_that_lives_on_does_not_hold_up_the_end_of_a_simulation(config: str) -> None:
    """It has the link too, so that to close the link here says nothing to the simulation."""
    device = echo_npu.open("rtlmodel", config=config)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        began = time.monotonic()
        device.close()
        assert time.monotonic() - began < 4.0, "the simulation was killed, and did not end by itself"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
