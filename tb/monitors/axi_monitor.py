"""Traffic and protocol violations on the memory bus, counted by the memory model."""

from echo_sim.native import Dram


class ProtocolViolationError(AssertionError):
    """The device violated AXI4 on m_axi."""


class AxiMonitor:
    """Passive observer of m_axi."""

    def __init__(self, dram: Dram) -> None:
        self._dram = dram
        dram.clear_statistics()

    def traffic(self) -> dict[str, int]:
        """Return bursts, beats and bytes each way, peaks and errors since the last `finish`."""
        return self._dram.statistics()

    def finish(self) -> None:
        """Check the traffic at the end of a test and reset the counters.

        Raises ProtocolViolationError: AXI4 was violated, an access left memory, or bursts are still
        outstanding although the device is idle.
        """
        figures = self._dram.statistics()
        violations = self._dram.violations()
        self._dram.clear_statistics()
        if figures["violations"]:
            raise ProtocolViolationError(
                f"{figures['violations']} violations on m_axi: " + "; ".join(violations[:5])
            )
        if figures["decode_errors"]:
            raise ProtocolViolationError(f"{figures['decode_errors']} bursts on m_axi went outside of memory")
        if figures["outstanding"]:
            raise ProtocolViolationError(
                f"{figures['outstanding']} bursts on m_axi are still under way at the end"
            )
