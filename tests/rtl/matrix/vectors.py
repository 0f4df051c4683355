"""The memory that holds scales and bias of a matrix command, behind a read channel, for testbenches."""

import random
from collections import deque
from typing import Any

import numpy as np

from tests.rtl.matrix.arithmetic import Words, draw_words
from tests.rtl.matrix.commands import MatrixCommand
from tests.rtl.transfers import Transfer


class Vectors:
    """Scales and bias of one command, where the command says that they are. All float32 as bits."""

    def __init__(self, command: MatrixCommand) -> None:
        self.row_scales, self.column_scales, self.bias = (
            draw_words(length) for length in (command.m, command.n, command.n)
        )
        self._command = command

    def transfers(self, m0: int, mb: int, n0: int, nb: int) -> list[tuple[Transfer, Words]]:
        """The transfers that bring what a block needs, in order, and the words that they bring."""
        command = self._command
        wanted = []
        if command.col_scale:
            wanted.append((command.columns + 4 * n0, self.column_scales[n0 : n0 + nb]))
        if command.bias:
            behind = 4 * command.n if command.col_scale else 0
            wanted.append((command.columns + behind + 4 * n0, self.bias[n0 : n0 + nb]))
        if command.row_scale:
            wanted.append((command.row_scales + 4 * m0, self.row_scales[m0 : m0 + mb]))
        return [(Transfer(addr, 4 * words.size, 1, 0), words) for addr, words in wanted]


class VectorChannel:
    """The ports of a read channel that brings one row of float32 at a time.

    Attributes: accepting, bringing (chances in a clock), wanted (transfers to come), asked (how many were).
    """

    def __init__(self, dut: Any, prefix: str) -> None:
        names = ("desc_valid_o", "desc_ready_i", "desc_o", "valid_i", "ready_o", "data_i", "row_last_i")
        if not prefix:
            names = (*names[:3], "data_valid_i", "data_ready_o", "data_i", "data_row_last_i")
        self._desc_valid, self._desc_ready, self._desc, self._valid, self._ready, self._data, self._last = (
            getattr(dut, prefix + name) for name in names
        )
        self.accepting = self.bringing = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.wanted: deque[tuple[Transfer, Words]] = deque()
        self._beats: deque[tuple[int, bool]] = deque()
        self._accept = self._bring = False

    @property
    def idle(self) -> bool:
        """Whether all that was wanted has come."""
        return not self.wanted and not self._beats

    @property
    def on_its_way(self) -> bool:
        """Whether data has yet to come."""
        return bool(self._beats)

    def drive(self, *, abort: bool = False) -> None:
        """Choose the inputs of the coming clock edge."""
        self._accept = not self._beats and not abort and random.random() < self.accepting
        self._bring = bool(self._beats) and not abort and random.random() < self.bringing
        width = len(self._data)
        data, last = self._beats[0] if self._bring else (random.getrandbits(width), random.getrandbits(1))
        self._desc_ready.value, self._valid.value = int(self._accept), int(self._bring)
        self._data.value, self._last.value = data, int(last)

    def follow(self) -> None:
        """Judge what was asked for at the clock edge just passed, and bring it."""
        if self._bring and self._ready.value:
            self._beats.popleft()
        if self._desc_valid.value:
            assert self.wanted, f"{Transfer.of(self._desc)} is not wanted"
            assert Transfer.of(self._desc) == self.wanted[0][0]
        if self._desc_valid.value and self._accept:
            words = self.wanted.popleft()[1]
            step = len(self._data) // 32
            raw = np.concatenate([words, np.zeros(-words.size % step, np.uint32)]).tobytes()
            size = 4 * step
            starts = range(0, len(raw), size)
            for at in starts:
                self._beats.append((int.from_bytes(raw[at : at + size], "little"), at == starts[-1]))
