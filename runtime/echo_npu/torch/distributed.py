"""The process group "echo_npu": collectives of several processes, each with its own NPU, over host memory.

`torch.distributed.init_process_group("echo_npu")` makes it. A collective copies tensors to the host, where
gloo carries it out, and copies the results back. It also takes tensors of the CPU.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import torch

from echo_npu.torch.devices import all_open

NAME: Final = "echo_npu"

_RELEASE_POLL_S: Final = 0.0002
_RELEASE_TIMEOUT_S: Final = 10.0


def register() -> None:
    """Make the process group known, where this PyTorch has torch.distributed with gloo."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_gloo_available():
        distributed.Backend.register_backend(NAME, _make, devices=[NAME, "cpu"])


def _make(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return _process_group_class()(store, rank, size, timeout)


_classes: Final[list[type[Any]]] = []


def _process_group_class() -> type[Any]:
    """Return the class, made on first use: a PyTorch without torch.distributed has no base for it."""
    if not _classes:
        members = {name: _collective(name) for name in _COLLECTIVES}
        members |= {name: _transfer(name, received) for name, received in _TRANSFERS.items()}
        members |= {"_start_coalescing": _start_coalescing, "_end_coalescing": _end_coalescing}
        members |= {"barrier": _barrier, "__init__": _init, "getBackendName": lambda self: NAME}
        _classes.append(type("NpuProcessGroup", (torch.distributed.ProcessGroup,), members))
    return _classes[0]


_COLLECTIVES: Final = (
    "allreduce",
    "allreduce_coalesced",
    "broadcast",
    "reduce",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "_allgather_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "alltoall",
    "alltoall_base",
    "all_to_all_single",
)
"""The collectives. Each writes to its first argument; the names of its other tensors begin with "input"."""

_TRANSFERS: Final[dict[str, bool]] = {"send": False, "recv": True, "recv_anysource": True}
"""The transfers between two processes, and whether they write to their tensors."""


def _init(self: Any, store: Any, rank: int, size: int, timeout: timedelta) -> None:
    group: Any = torch.distributed.ProcessGroup
    gloo = group.BackendType.GLOO
    group.__init__(self, rank, size)
    # A whole group: it has the collectives under all the names by which PyTorch calls them.
    self._host = group(store, rank, size)
    backend = torch.distributed.ProcessGroupGloo(store, rank, size, timeout)
    self._host._register_backend(torch.device("cpu"), gloo, backend)
    self._host._set_default_backend(gloo)
    # The name of a group is that of its backends; functional collectives find the group by it.
    self._register_backend(torch.device("cpu"), gloo, backend)


def _start_coalescing(self: Any, device: torch.device) -> None:
    """Begin a batch of collectives. Each is over when its call returns, so there is nothing to gather."""


def _end_coalescing(self: Any, device: torch.device) -> Any:
    return _done([])


def _barrier(self: Any, *args: Any, **options: Any) -> Any:
    for each in all_open():
        each.synchronize()
    self._host.barrier().wait()
    return _done([])


def _collective(name: str) -> Callable[..., Any]:
    """Return a method that carries out a collective on copies in host memory, and waits for its end."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        made: list[Any] = []
        given = [_on_host(each, made, copies if number == 0 else None) for number, each in enumerate(args)]
        named = {
            key: _on_host(each, made, None if args or key.startswith("input") else copies)
            for key, each in options.items()
        }
        getattr(self._host, name)(*given, **named).wait()
        for original, copy in copies:
            original.copy_(copy)
        _await_release(made)
        return _done([original for original, _ in copies])

    return method


def _transfer(name: str, received: bool) -> Callable[..., Any]:
    """Return a method that begins a transfer. Its work ends it: both processes may begin to receive before
    either sends."""

    def method(self: Any, tensors: Any, *args: Any, **options: Any) -> Any:
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        given = _on_host(tensors, [], copies if received else None)
        return _transfer_class()(getattr(self._host, name)(given, *args, **options), given, copies)

    return method


def _transfer_class() -> type[Any]:
    """Return the class of a transfer's work, made on first use like that of the process group."""
    if len(_classes) < 2:

        class PeerTransfer(torch.distributed.Work):
            """A transfer under way: gloo's work, the tensors that it uses, and where they are copied to."""

            def __init__(
                self, work: Any, given: Any, copies: list[tuple[torch.Tensor, torch.Tensor]]
            ) -> None:
                super().__init__()
                self._work, self._given, self._copies = work, given, copies
                self._over = False

            def wait(self, timeout: timedelta = timedelta(0)) -> bool:
                if self._over:
                    return True  # gloo would wait for the next transfer
                done = self._work.wait(timeout) if timeout else self._work.wait()
                for original, copy in self._copies:
                    original.copy_(copy)
                self._over = bool(done)
                return self._over

            def is_completed(self) -> bool:
                return self._over or bool(self._work.is_completed())

            def _source_rank(self) -> int:
                return int(self._work._source_rank())

            source_rank = _source_rank

        _classes.append(PeerTransfer)
    return _classes[1]


def _on_host(value: Any, made: list[Any], copies: list[tuple[torch.Tensor, torch.Tensor]] | None) -> Any:
    """Return an argument with dense tensors of the host, and note these, and which of them are to be copied
    back."""
    if isinstance(value, (list, tuple)):
        return [_on_host(each, made, copies) for each in value]
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value  # sparse ones are the CPU's, where gloo writes to them
    made.append(value.detach().cpu().contiguous())
    if copies is not None:
        copies.append((value.detach(), made[-1]))
    return made[-1]


def _await_release(tensors: list[Any]) -> None:
    """Wait until gloo's thread has dropped its references to tensors of a collective that is over.

    If that thread held the last one, it would need Python's lock to drop it; and the end of the group waits
    for that thread, maybe with the lock held: neither would ever go on.
    """
    end = time.monotonic() + _RELEASE_TIMEOUT_S
    while any(each._use_count() > 1 for each in tensors) and time.monotonic() < end:
        time.sleep(_RELEASE_POLL_S)


def _done(results: list[torch.Tensor]) -> Any:
    """Return the work of a collective that is over."""
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(results)
    work: Any = torch._C._distributed_c10d
    return work._create_work_from_future(future)
