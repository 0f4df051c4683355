"""A memory with scales and bias of a matrix command behind a read channel, for testbenches."""

from collections import deque
from typing import Any

from tests.rtl.channels import ReadChannel
from tests.rtl.matrix.arithmetic import Words, draw_words
from tests.rtl.matrix.commands import MatrixCommand
from tests.rtl.transfers import Transfer


class Vectors:
    """Scales and bias of one command at its addresses, float32 as bits."""

    def __init__(self, command: MatrixCommand) -> None:
        self.row_scales, self.column_scales, self.bias = (
            draw_words(length) for length in (command.m, command.n, command.n)
        )
        self._command = command

    def transfers(self, m0: int, mb: int, n0: int, nb: int) -> list[tuple[Transfer, Words]]:
        """Return the transfers that bring a block's vectors, in order, with their words."""
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


class VectorChannel(ReadChannel):
    """A read channel that brings one row of float32 at a time.

    Attributes: expected (transfers to come, with their words).
    """

    def __init__(self, dut: Any, prefix: str) -> None:
        super().__init__(dut, prefix, depth=1)

    def forget(self) -> None:
        """Begin as after a reset."""
        super().forget()
        self.expected: deque[tuple[Transfer, Words]] = deque()

    @property
    def idle(self) -> bool:
        """Return whether everything expected has come."""
        return not self.expected and not self.owners

    @property
    def on_its_way(self) -> bool:
        """Return whether data has yet to come."""
        return bool(self.owners)

    def follow(self) -> None:
        """Judge the request at the last clock edge, and bring its data."""
        self.took()
        transfer = self.wanted()
        if transfer is None:
            return
        assert self.expected, f"{transfer} is not wanted"
        assert transfer == self.expected[0][0]
        if self.accepted:
            self.bring(self, [self.expected.popleft()[1].tobytes()])
