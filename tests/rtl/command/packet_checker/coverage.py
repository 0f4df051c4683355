"""Which answers the drawn packets of each opcode must have had."""

from collections import Counter
from collections.abc import Sequence

from echo_npu.commands.packets import Opcode
from echo_npu.spec.status import ErrorCode
from tests.rtl.command.packet_checker.rules import rules_of


def possible() -> set[tuple[Opcode, ErrorCode]]:
    """Return the answers that the packets of an opcode can have."""
    found = {(opcode, ErrorCode.NONE) for opcode in Opcode}
    found |= {(opcode, code) for opcode in Opcode for rule in rules_of(opcode) for code in rule.codes}
    return {(opcode, code) for opcode, code in found if code != ErrorCode.BAD_OPCODE}


class PacketAnswers:
    """Count the answers to random packets."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[int, int]] = Counter()

    def note(self, case: Sequence[int], error: int) -> None:
        """Count the answer to a case."""
        self._seen[case[0], error] += 1

    def check(self) -> None:
        """Raise AssertionError with all answers that never occurred, or that no rule promises."""
        wanted = possible()
        known = set(Opcode)
        missing = [
            f"{opcode.name}: {code.name}" for opcode, code in sorted(wanted) if not self._seen[opcode, code]
        ]
        if not any(opcode not in known for opcode, _ in self._seen):
            missing.append("an unknown opcode")
        assert not missing, f"random packets never had the answers {', '.join(missing)}"
        odd = [pair for pair in self._seen if pair[0] in known and pair not in wanted]
        assert not odd, f"answers that no rule promises: {odd}"
