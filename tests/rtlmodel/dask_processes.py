"""A Dask cluster of processes that a test can kill, and a network to it that a test can cut."""

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np

import echo_npu
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from tests.rtlmodel import killing_preload

_MARK = "ECHO_NPU_TEST_CLUSTER"


def free_port() -> int:
    """Return a port of this machine that nothing listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class CuttableProxy:
    """Forwards connections to a port of this machine; what passes can be held up or cut off."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._closed or self._refuses:
                    raise ConnectionRefusedError
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            self._start(self._forward, near, far)

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, contextlib.suppress(OSError, ValueError):
            for source, sink in ((near, far), (far, near)):
                selector.register(source, selectors.EVENT_READ, sink)
            while True:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(1 << 16)
                    self._passes.wait()
                    if not data:
                        raise OSError
                    key.data.sendall(data)
        near.close()
        far.close()

    def hold(self, seconds: float) -> None:
        """Forward nothing for so long; nothing gets lost."""
        self._passes.clear()
        time.sleep(seconds)
        self._passes.set()

    def cut(self, seconds: float) -> None:
        """End all connections, and take no new ones for so long."""
        self._refuses = True
        self._end_all()
        time.sleep(seconds)
        self._refuses = False

    def _end_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in (sock for pair in pairs for sock in pair):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self._passes.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_all()
        for thread in self._threads:
            thread.join()


class DaskProcesses:
    """A scheduler and workers, each of which starts again when it ends, as under a service manager.

    Args:
        folder: for what they write.
        workers: how many.
        preload: a module that prepares each worker.

    Attributes: proxy (through which workers and client reach the scheduler), address (of the proxy).
    """

    def __init__(self, folder: Path, workers: int, preload: str | None = killing_preload.__file__) -> None:
        self._folder = folder
        self._preload = ("--preload", str(preload))
        self._mark = uuid.uuid4().hex
        self._port = free_port()
        self._ended = threading.Event()
        self._workers = workers
        self.start_scheduler()
        self.proxy = CuttableProxy(self._port)
        self.address = f"tcp://127.0.0.1:{self.proxy.port}"
        self._managers = [threading.Thread(target=self._manage, daemon=True) for _ in range(workers)]
        for manager in self._managers:
            manager.start()

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    _MARK: self._mark,
                    killing_preload.FOLDER: str(self._folder),
                    "TMPDIR": str(self._folder),
                },
            )

    def start_scheduler(self) -> None:
        self._scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port))

    def kill_scheduler(self) -> None:
        self._scheduler.kill()
        self._scheduler.wait()

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start another one at its port."""
        self.kill_scheduler()
        self.start_scheduler()

    def _manage(self) -> None:
        while not self._ended.is_set():
            worker = self._start("dask_worker", self.address, "--nthreads", "1", "--no-nanny", *self._preload)
            while worker.poll() is None and not self._ended.wait(0.1):
                pass
            worker.kill()
            worker.wait()

    def arm(self) -> None:
        """Let each phase of a chunk kill the next worker that comes to it."""
        for phase in killing_preload.PHASES:
            (self._folder / phase).touch()

    @property
    def armed(self) -> list[str]:
        """The phases that have not killed a worker."""
        return [phase for phase in killing_preload.PHASES if (self._folder / phase).exists()]

    def log(self) -> str:
        """Return what the processes have said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> "DaskProcesses":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for manager in self._managers:
            manager.join()
        self.kill_scheduler()
        self.proxy.close()

    def left(self) -> list[int]:
        """Return the processes that are alive: scheduler, workers, and what those have started."""
        found = []
        wanted = f"{_MARK}={self._mark}".encode()
        for each in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (each / "environ").read_bytes():
                    found.append(int(each.name))
        return found

    def simulations(self) -> list[int]:
        """Return the processes that are neither the scheduler nor a worker."""
        found = []
        for pid in self.left():
            with contextlib.suppress(OSError):
                if b"distributed.cli" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found


def products(
    device: echo_npu.Device, count: int, depth: int, harm: Callable[[], None] | None = None
) -> list[bytes]:
    """Return the bytes of `count` products; `harm` is called while the first of them are simulated."""
    rng = np.random.default_rng(2)
    weights = device.tensor(rng.standard_normal((depth, 64)).astype(np.float32))
    found = []
    for number in range(count):
        if harm is not None and number == 4:
            harm()
        rows = device.tensor(rng.standard_normal((4, depth)).astype(np.float32))
        found.append(device.matmul(rows, weights).to_numpy().tobytes())
    return found


def harmed_products(
    device: echo_npu.Device, workers: DaskWorkers, count: int, depth: int, harm: Callable[[], None]
) -> tuple[list[bytes], int]:
    """Return the products, and how many chunks were simulated when `harm` was called."""
    under_way: list[int] = []

    def noted() -> None:
        under_way.append(workers.load.running)
        harm()

    found = products(device, count, depth, noted)
    return found, under_way[0]
