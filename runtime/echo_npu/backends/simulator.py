"""The simulator as a child process, which leaves nothing behind, whichever process ends first."""

import contextlib
import itertools
import os
import secrets
import shutil
import socket
import struct
import subprocess
import time
import weakref
from pathlib import Path
from typing import Any, Final

from echo_npu.errors import NpuBusError, SimulatorError
from echo_npu.model.memory import DeviceMemory
from echo_sim import protocol

_START_TIMEOUT_S: Final = 60.0
_GRACE_S: Final = 5.0
_STALE_S: Final = 86400.0
_numbers = itertools.count()


class Simulator:
    """A running simulation of the NPU, and the link to it.

    Args:
        config: the hardware configuration; it is built first if it has to be.
        memory: content of the simulated DRAM; the simulator maps it too.
        waves: whether to write a waveform to waves/, or its name there.
        seed: of everything random in the simulation.
        timeout: seconds of wall time that one request may take.

    Raises:
        ValueError: no such configuration.
        SimulatorError: it cannot be built or does not start.
    """

    def __init__(
        self, config: str, memory: DeviceMemory, *, waves: bool | str, seed: int, timeout: float
    ) -> None:
        try:
            from echo_sim import run as runs  # it needs the packages of the extra "sim"
            from echo_sim.build import BuildError
            from echo_sim.tools import ToolMissingError
        except ImportError as error:
            raise SimulatorError(
                f"the simulation needs the Python package {error.name!r}: run `make setup`, or"
                " pip install 'echo-npu[sim]'"
            ) from error
        self._timeout = timeout
        self._failure: SimulatorError | None = None
        name = waves if isinstance(waves, str) else f"rtlmodel-{os.getpid()}-{next(_numbers)}"
        _remove_stale(runs.RUNS)
        address = f"\0echo-npu-{os.getpid()}-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address)  # abstract: there is no file, and the name goes with its last user
            listener.listen(1)
            try:
                self._child = runs.launch(
                    config,
                    "waves" if waves else "fast",
                    test_module="echo_sim.bridge",
                    name=name,
                    seed=seed,
                    env={
                        "ECHO_NPU_MEMORY": memory.share_path,
                        "ECHO_NPU_BRIDGE": address[1:],
                        "COCOTB_REWRITE_ASSERTION_FILES": "",  # it asserts nothing, and starts faster
                    },
                )
            except (BuildError, ToolMissingError) as error:
                raise SimulatorError(f"the simulator could not be built: {error}") from error
            except OSError as error:
                raise SimulatorError(f"the simulator could not be started: {error}") from error
            self.log: Path = self._child.log
            self.waves: Path | None = runs.wave_path(name) if waves else None
            try:
                link = self._accept(listener)
            except BaseException:
                self._child.stop()
                raise
        link.settimeout(timeout)
        self._link: socket.socket | None = link
        self._finalizer = weakref.finalize(self, _end, self._child, link, os.getpid())

    def _accept(self, listener: socket.socket) -> socket.socket:
        listener.settimeout(0.1)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                link, _ = listener.accept()
            except TimeoutError:
                status = self._child.poll()
                if status is None and time.monotonic() < deadline:
                    continue
                self._child.stop()
                what = "ended before it could be used" if status is not None else "did not start in time"
                raise SimulatorError(
                    f"the simulator {what}",
                    exit_status=status,
                    log_tail=self._child.log_tail(),
                    log_path=self.log,
                ) from None
            credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            if struct.unpack("3i", credentials)[0] == self._child.pid:
                return link
            link.close()  # an abstract name is open to every process of the machine

    @property
    def pid(self) -> int:
        """Process id of the simulator."""
        return int(self._child.pid)

    def request(
        self, head: dict[str, Any], data: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a request, wait for the reply.

        Raises:
            NpuBusError: the device refused a register access.
            ValueError: the simulator refused an argument.
            SimulatorError: it is gone, or did not answer in time. Every later request raises the same error.
        """
        if self._failure is not None:
            raise self._failure
        if self._link is None:
            raise SimulatorError("the simulator is closed")
        try:
            protocol.send(self._link, head, data)
            reply, content = protocol.receive(self._link)
        except protocol.LinkClosedError:
            raise self._broken("the simulator ended") from None
        except protocol.GarbledMessageError as error:
            raise self._broken(f"the simulator's answer is garbled, and it was ended: {error}") from None
        except TimeoutError:
            raise self._broken(
                f"the simulator did not answer within {self._timeout:g} s and was ended"
            ) from None
        except BaseException:  # an interrupt: half a message may be on its way, so nothing more can be asked
            self._broken("the simulator was ended by an interrupt in this process")
            raise
        if "error" not in reply:
            return reply, content
        if reply["kind"] == "bus":
            raise NpuBusError(reply["offset"], reply["access"])
        if reply["kind"] == "value":
            raise ValueError(reply["error"])
        raise self._broken(f"the simulator failed: {reply['error']}")

    def _broken(self, message: str) -> SimulatorError:
        """End the child process, and keep and return the error with its log."""
        self._finalizer.detach()
        if self._link is not None:
            self._link.close()
            self._link = None
        try:
            status: int | None = self._child.wait(1.0)
        except subprocess.TimeoutExpired:  # it is ended here, so its status says nothing about the cause
            status = None
        self._child.stop()
        self._failure = SimulatorError(
            message, exit_status=status, log_tail=self._child.log_tail(), log_path=self.log
        )
        return self._failure

    def close(self) -> None:
        """End the simulator. Idempotent; does nothing in a forked child."""
        self._finalizer()
        self._link = None


def _end(child: Any, link: socket.socket, owner: int) -> None:
    """Let the simulator end by itself, which completes its waveform; kill it if it does not."""
    if os.getpid() != owner:
        return
    with contextlib.suppress(OSError):  # it may be gone
        link.shutdown(socket.SHUT_RDWR)  # a forked child may have the link too
    link.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    child.stop()
    shutil.rmtree(child.log.parent, ignore_errors=True)


def _remove_stale(runs: Path) -> None:
    """Remove the run folders of processes that were killed, once they are a day old."""
    for folder in runs.glob("rtlmodel-*"):
        try:
            alive = Path(f"/proc/{folder.name.split('-')[1]}").exists()
            if not alive and time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
