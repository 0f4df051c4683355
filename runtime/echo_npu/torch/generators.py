"""Random draws: generators that are reproducible, whose numbers the host draws."""

import weakref
from typing import Any, Final

import torch

from echo_npu.devices import get_device
from echo_npu.torch.devices import check_index

_HostGenerator: Final[Any] = torch._C.Generator
_defaults: Final[dict[int, torch.Generator]] = {}
_seed: int | None = None


class Generator(_HostGenerator):  # type: ignore[misc]
    """`torch.Generator`, which also takes the device "echo_npu"."""

    _npu: torch.device | None

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make a generator; the numbers of one for echo_npu are drawn on the CPU.

        Raises:
            RuntimeError: there is no such device.
        """
        wanted = torch.device(device)
        on_npu = wanted.type == "echo_npu"
        made = _HostGenerator.__new__(cls, torch.device("cpu") if on_npu else wanted)
        index = get_device() if wanted.index is None else wanted.index
        if on_npu:
            check_index(index)
        made._npu = torch.device("echo_npu", index) if on_npu else None
        _made[made._cdata] = made
        return made

    @property
    def device(self) -> torch.device:
        """The device whose tensors it fills."""
        given: torch.device = super().device
        return given if self._npu is None else self._npu

    def clone_state(self) -> "Generator":
        """Return a generator of the same device that goes on with the same draws."""
        made: Generator = Generator(self.device)
        made.set_state(self.get_state())
        return made


_made: Final[weakref.WeakValueDictionary[int, Generator]] = weakref.WeakValueDictionary()
"""By the address of what PyTorch holds: it hands an operator another object than the caller's."""


def host_generator(index: int, given: torch.Generator | None) -> torch.Generator:
    """Return the generator that an operator draws from.

    Raises:
        RuntimeError: it is another device's.
    """
    if given is None:
        return default_generator(index)
    device = _made.get(given._cdata, given).device  # type: ignore[attr-defined]
    if device != torch.device("echo_npu", index):
        raise RuntimeError(f"expected a generator of echo_npu:{index} but found one of {device}")
    return given


def default_generator(index: int) -> torch.Generator:
    """Return the generator of a device."""
    if index not in _defaults:
        _defaults[index] = Generator(torch.device("echo_npu", index))
        if _seed is not None:
            _defaults[index].manual_seed(_seed)
    return _defaults[index]


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices, also of those that are not open yet."""
    global _seed
    torch.Generator().manual_seed(seed)  # refuses what is no seed
    _seed = seed
    for each in _defaults.values():
        each.manual_seed(seed)
