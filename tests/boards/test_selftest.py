"""`echo-npu selftest` over the files of a card, and the faults that only a card has."""

import json

import pytest
from typer.testing import CliRunner

import echo_npu
from echo_npu import NpuInterruptLostError
from echo_npu.backends.board import card as card_module
from echo_npu.cli import app
from echo_npu.selftest import SelfTest, run_selftest
from tests.boards.slots import CardSlot
from tests.refusals import refuses


def examined(slot: CardSlot) -> SelfTest:
    with slot.open() as npu, echo_npu.open("cmodel", config=slot.config) as twin:
        return run_selftest(npu, twin, march_bytes=1 << 17)


def test_a_card_that_works(slot: CardSlot) -> None:
    done = examined(slot)
    assert done.passed, [check for check in done.checks if not check.passed]
    assert done.facts["card"]["device"] == slot.device


def test_a_card_whose_interrupt_never_arrives(slot: CardSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening names the fault; where interrupts get lost later, the self-test does."""
    slot.behind.silent = True
    refuses(NpuInterruptLostError, "no event arrived", slot.open, clock_mhz=100)
    slot.behind.silent = False
    with slot.open(clock_mhz=100) as npu, echo_npu.open("cmodel", config=slot.config) as twin:
        slot.behind.silent = True
        monkeypatch.setattr(card_module, "_LATE_S", 0.05)
        done = run_selftest(npu, twin, march_bytes=1)
    wrong = {check.name: check.detail for check in done.checks if not check.passed}
    assert "no event arrived" in wrong["interrupts"]
    assert not {"constants", "registers", "memory march"} & set(wrong)


def test_a_card_that_vanishes_halfway(slot: CardSlot) -> None:
    calls = iter(range(10**6))

    def hook(call: str, name: str, offset: int, size: int) -> None:
        slot.behind.gone = slot.behind.gone or (name == "h2c_0" and next(calls) > 20)

    slot.card.hook = hook
    done = examined(slot)
    wrong = [check for check in done.checks if not check.passed]
    assert wrong
    assert wrong[-1] is done.checks[-1]
    assert "the card does not answer any more" in wrong[-1].detail
    assert done.speeds == ()


@pytest.mark.parametrize("folder", ["fuse"], indirect=True)
def test_the_command_on_device_files(slot: CardSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["selftest", "--config", slot.config, "--clock-mhz", "0.1", "--json"]
    result = CliRunner().invoke(app, [*words, "--backend", "fpga", "--device", slot.device])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["passed"] is True
    for name, value in (("BACKEND", "fpga"), ("DEVICE", slot.device), ("TRANSPORT", "xdma")):
        monkeypatch.setenv(f"ECHO_NPU_{name}", value)
    result = CliRunner().invoke(app, words)
    assert json.loads(result.stdout)["facts"]["card"]["device"] == slot.device
    monkeypatch.setenv("ECHO_NPU_TRANSPORT", "pci")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "there is no transport 'pci'" in result.stderr
