"""The pyuvm environment: legal programs pass, a planted bug is found, shrunk, saved and replayed."""

import itertools
from pathlib import Path

import pytest

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec import registers as regs
from tb.stimulus.steps import (
    CommandStep,
    Fault,
    HostRead,
    HostWrite,
    Recover,
    RegisterRead,
    Reset,
    Step,
    StepProgram,
)
from tb.uvm.program_campaign import ProgramCampaign
from tb.uvm.sequences import SEQUENCES

CONFIG = "small"
PLANTED = "tests.tb.uvm.cocotb_planted"


READS = StepProgram(
    (
        HostWrite(0x0200_0000, b"abc"),
        HostRead(0x0200_0000, 3),
        RegisterRead(regs.ID),
        RegisterRead(regs.IRQ_ENABLE),
    ),
    {},
    {},
)


COPY = CommandStep((NpuCommandPacket(Opcode.MEMCPY, 0, 0x1000_2000, 0, 0x1000_3000, m=64).pack(),))
REFUSED = Fault(0x1000_2000, 0x1000_2008)
MISSED = Fault(0x1000_2040, 0x1000_2048)
JUDGED: dict[str, tuple[tuple[Step, ...], str]] = {
    "interrupt": ((COPY,), "InterruptMismatchError"),
    "address": ((REFUSED, COPY, Recover()), "WrongErrorError"),
    "accepted": ((MISSED, COPY, Recover()), "WrongErrorError"),
    "stray": ((COPY, Reset(hard=False, after=10)), "StrayWriteError"),
    "half": ((COPY, Reset(hard=True, after=10)), "ExactMismatchError"),
}
"""Program and expected finding by the planted bug. Without the bug the program passes."""


def judged(bug: str) -> StepProgram:
    """Return the program of a planted bug."""
    return StepProgram(JUDGED[bug][0], {0x1000_2000: bytes(range(64))}, {})


def pairs(program: StepProgram) -> set[tuple[int, int]]:
    """Return the opcodes of each pair of consecutive commands."""
    packets = [step.packets[0] for step in program.steps if isinstance(step, CommandStep)]
    return set(itertools.pairwise(NpuCommandPacket.unpack(packet).opcode for packet in packets))


@pytest.mark.sim
def test_programs_pass() -> None:
    """A few fixed programs of each sequence pass, and those in which other tests plant bugs."""
    programs = [ProgramCampaign(CONFIG, name).drawn(seed) for name in SEQUENCES for seed in range(1, 3)]
    programs += [READS, *map(judged, JUDGED)]
    assert ProgramCampaign(CONFIG, name="uvm-test").programs(programs) == [None] * len(programs)


@pytest.mark.sim
def test_planted_bug_is_found_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some long programs trigger the bug. The shortest one shrinks to the two commands that cause it."""
    monkeypatch.setenv("PLANTED_BUG", "gather")
    campaign = ProgramCampaign(CONFIG, "long", PLANTED, "uvm-test-planted", tmp_path)
    meets = {seed: (Opcode.ADD_TENSOR, Opcode.GATHER) in pairs(campaign.drawn(seed)) for seed in range(300)}
    seeds = [*[seed for seed in meets if meets[seed]][:2], *[seed for seed in meets if not meets[seed]][:2]]
    found = campaign.seeds(seeds)
    hit = [(seed, failure) for seed, failure in zip(seeds, found, strict=True) if failure is not None]
    assert hit, "the environment does not see the planted bug"
    assert {seed for seed, _ in hit} <= {seed for seed in seeds if meets[seed]}
    seed, failure = min(hit, key=lambda each: len(campaign.drawn(each[0]).steps))
    assert failure.kind == "ExactMismatchError"
    path, short = campaign.keep(seed, failure)
    packets = [step.packets[0] for step in short.steps if isinstance(step, CommandStep)]
    opcodes = [NpuCommandPacket.unpack(packet).opcode for packet in packets]
    assert opcodes == [Opcode.ADD_TENSOR, Opcode.GATHER]
    assert len(short.steps) == 2
    saved = StepProgram.load(path)
    assert saved == short
    again = campaign.programs([saved])[0]
    assert again is not None
    assert again.kind == failure.kind
    sound = ProgramCampaign(CONFIG, name="uvm-test-sound").programs([saved])
    assert sound == [None], "without the bug it passes"


@pytest.mark.sim
@pytest.mark.parametrize(("bug", "kind"), [("host", "HostReadError"), ("register", "RegisterMismatchError")])
def test_every_port_is_judged(monkeypatch: pytest.MonkeyPatch, bug: str, kind: str) -> None:
    """The host's reads are compared: of memory, and of both kinds of registers."""
    monkeypatch.setenv("PLANTED_BUG", bug)
    wanted = HostRead if bug == "host" else RegisterRead
    write, *reads = READS.steps
    programs = [StepProgram((write, step), {}, {}) for step in reads if isinstance(step, wanted)]
    found = ProgramCampaign(CONFIG, suite=PLANTED, name="uvm-test-ports").programs(programs)
    assert [failure and failure.kind for failure in found] == [kind] * len(programs)


@pytest.mark.sim
@pytest.mark.parametrize("bug", JUDGED)
def test_errors_resets_and_interrupts_are_judged(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    """The effects of errors, resets and interrupts are compared."""
    monkeypatch.setenv("PLANTED_BUG", bug)
    (found,) = ProgramCampaign(CONFIG, suite=PLANTED, name="uvm-test-judged").programs([judged(bug)])
    assert found is not None, "it was not found"
    assert found.kind == JUDGED[bug][1]


@pytest.mark.sim
def test_an_error_without_a_recover_fails() -> None:
    """A program must state where it expects errors."""
    program = StepProgram((CommandStep((NpuCommandPacket(0x77).pack(),)),), {}, {})
    recovered = StepProgram((*program.steps, Recover(), COPY), {}, {})
    bad, good = ProgramCampaign(CONFIG, name="uvm-test-recover").programs([program, recovered])
    assert bad is not None
    assert bad.kind == "UnexpectedErrorState"
    assert good is None
