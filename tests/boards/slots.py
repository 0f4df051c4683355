"""Cards in slots: the fpga backend, opened on a card over FUSE or over calls answered in this process."""

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import echo_npu
from echo_npu import Device
from echo_npu.backends.base import Backend
from echo_npu.backends.fpga import FpgaBackend
from tests.boards.fuse import FuseMount, fuse_is_missing
from tests.boards.hardware import HardwareBehind
from tests.boards.xdma_card import NAMES, XdmaCalls, XdmaCard

CLOCK_MHZ = 0.1
"""A million cycles without progress are ten seconds: simulated hardware is slow."""


def shown_in(folder: Path) -> Path | None:
    """Return a folder where files of a card can be shown; None, with a warning, on a machine without FUSE."""
    if not (reason := fuse_is_missing(folder)):
        return folder
    warnings.warn(f"{reason}; the card is a stand-in that answers calls in this process", stacklevel=2)
    return None


class CardSlot:
    """An XDMA card, and how to open it."""

    def __init__(self, card: XdmaCard, config: str, folder: Path | None) -> None:
        self.card = card
        self.config = config
        self.folder = folder

    @property
    def behind(self) -> HardwareBehind:
        return self.card.behind

    @property
    def device(self) -> str:
        """What the names of the files begin with."""
        return str((self.folder or Path("/dev")) / "xdma0")

    def open(self, *, ring_slots: int | None = None, **options: Any) -> Device:
        """Open the card as a program does."""
        options = {"device": self.device, "clock_mhz": CLOCK_MHZ, **options}
        if self.folder is not None:
            return echo_npu.open(
                "fpga", config=self.config, ring_slots=ring_slots, transport="xdma", **options
            )
        backend = FpgaBackend.open_with(XdmaCalls(self.card, self.device), self.config, options)
        try:
            slots = {} if ring_slots is None else {"ring_slots": ring_slots}
            return Device(backend, config=self.config, **slots)
        except BaseException:
            backend.close()
            raise


@contextmanager
def inserted(backend: Backend, config: str, folder: Path | None, memory_base: int = 0) -> Iterator[CardSlot]:
    """Put a card with a backend behind it into a slot; its files are in `folder`, None: no files."""
    card = XdmaCard(HardwareBehind(backend), memory_base)
    with ExitStack() as stack:
        stack.callback(backend.close)
        if folder is not None:
            names = {f"xdma0_{name}": name for name in NAMES}

            def let_time_pass(name: str) -> None:
                if not card.ready(name):
                    card.behind.advance()
                    time.sleep(0.0005)

            stack.enter_context(FuseMount(folder, names, card, let_time_pass))
        yield CardSlot(card, config, folder)
