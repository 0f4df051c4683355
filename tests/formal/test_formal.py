"""The proofs of tests/formal: the quick ones whole, all others to a few clocks, and each of them can fail.

`make formal` runs all of them whole.
"""

from __future__ import annotations

import dataclasses

import pytest

from tb.formal import PROOFS, WRAPPERS, build_model, check_bounded, prove
from tb.repository import ROOT

QUICK = ("sync_fifo-4", "ram_queue", "skid_buffer", "round_robin-5", "host_write_buffer", "host_read_buffer")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One change of one line of a block, and the property that it breaks within `steps` clocks."""

    name: str
    proof: str
    source: str
    line: str
    broken: str
    property: str
    steps: int = 6


FAULTS = (
    Fault(
        "element overwritten when one leaves",
        "sync_fifo-4",
        "rtl/cells/sync_fifo.sv",
        "if (push_i) storage_q[",
        "if (push_i && !pop_i) storage_q[",
        "TagOrder",
    ),
    Fault(
        "element twice",
        "sync_fifo-4",
        "rtl/cells/sync_fifo.sv",
        "if (pop_i)  read_q",
        "if (pop_i && !push_i) read_q",
        "CountExact",
    ),
    Fault(
        "second element lost",
        "skid_buffer",
        "rtl/cells/skid_buffer.sv",
        "spare_valid_q <= 1'b1;",
        "spare_valid_q <= 1'b0;",
        "TakesTwo",
    ),
    Fault(
        "newer element first",
        "skid_buffer",
        "rtl/cells/skid_buffer.sv",
        "if (spare_valid_q) data_q <= spare_q;",
        "if (spare_valid_q && !valid_i) data_q <= spare_q;",
        "TagOrder",
    ),
    Fault(
        "winner stays first",
        "round_robin-5",
        "rtl/cells/round_robin.sv",
        "'0 : index_o + 1'b1;",
        "'0 : index_o;",
        "ServedInTurn",
        steps=9,
    ),
    Fault(
        "two winners",
        "round_robin-5",
        "rtl/cells/round_robin.sv",
        "candidates & (~candidates + 1'b1)",
        "candidates",
        "GrantOneHot",
    ),
    Fault(
        "element overwritten before it is taken",
        "ram_queue",
        "rtl/cells/ram_queue.sv",
        "assign fetch   = stored != '0 && (ready_i || !valid_q);",
        "assign fetch   = stored != '0;",
        "OutputStable",
    ),
    Fault(
        "address ahead of its data",
        "host_write_buffer",
        "rtl/memory/host_write_buffer.sv",
        "assign awvalid_o = !aw_empty && whole_q != '0;",
        "assign awvalid_o = !aw_empty;",
        "DataAtHand",
    ),
    Fault(
        "read without room for its data",
        "host_read_buffer",
        "rtl/memory/host_read_buffer.sv",
        "32'(claimed_q) + 32'(arlen_i) < DataBeats;",
        "32'(claimed_q) < DataBeats;",
        "RoomForData",
        steps=14,
    ),
    Fault(
        "turn that passes on behind the host only",
        "memory_controller",
        "rtl/memory/memory_controller.sv",
        ".advance_i(order_push),",
        ".advance_i(order_push && aw_grant[0]),",
        "WriteInTurn",
        steps=7,
    ),
    Fault(
        "response not taken",
        "memory_controller",
        "rtl/memory/memory_controller.sv",
        "assign m_axi_bready  = 1'b1;",
        "assign m_axi_bready  = m_axi_bid[7:4] != 4'(ClientHost);",
        "TakesResponses",
    ),
    Fault(
        "data of an earlier burst swallowed",
        "axi_slave_write",
        "rtl/host/axi_slave.sv",
        "if (write_count_q == '0) write_state_d = WriteDrain;",
        "write_state_d = WriteDrain;",
        "WSwallowed",
        steps=7,
    ),
    Fault(
        "burst of 17 beats at one address",
        "axi_slave_write",
        "rtl/host/axi_slave.sv",
        "legal_burst = len <= 8'd15;",
        "legal_burst = len <= 8'd16;",
        "AwExpected",
    ),
    Fault(
        "data without an address passed on",
        "axi_slave_write",
        "rtl/host/axi_slave.sv",
        "assign w_pass      = data_count_q != '0;",
        "assign w_pass      = 1'b1;",
        "WPassed",
    ),
    Fault(
        "refusal of another burst",
        "axi_slave_write",
        "rtl/host/axi_slave.sv",
        "{aw_in.id, RespDecErr} :",
        "{m_bid_i, RespDecErr} :",
        "RefusalOrder",
    ),
    Fault(
        "a beat too few",
        "axi_slave_read",
        "rtl/host/axi_slave.sv",
        "assign refuse_last = beat_q == ar_in.len;",
        "assign refuse_last = beat_q + 8'd1 >= ar_in.len;",
        "RefusalOrder",
    ),
    Fault(
        "beat not waited for",
        "axi_slave_read",
        "rtl/host/axi_slave.sv",
        ".ready_i(s_axi_rready)",
        ".ready_i(1'b1)",
        "RStable",
    ),
    Fault(
        "refusal that never begins",
        "axi_slave_read",
        "rtl/host/axi_slave.sv",
        "if (ar_valid && !ar_legal && read_count_q == '0) begin",
        "if (ar_valid && !ar_legal && read_count_q != '0) begin",
        "Progress",
    ),
    Fault(
        "refusal that never begins",
        "axi_slave_response",
        "rtl/host/axi_slave.sv",
        "if (ar_valid && !ar_legal && read_count_q == '0) begin",
        "if (ar_valid && !ar_legal && read_count_q != '0) begin",
        "ReadInTime",
        steps=16,
    ),
    Fault(
        "response not waited for",
        "register_block",
        "rtl/regs/npu_regs.sv",
        "if(s_axil_bready) axil_resp_acked = '1;",
        "axil_resp_acked = '1;",
        "BStable",
    ),
    Fault(
        "reads overtake writes",
        "register_block",
        "rtl/regs/npu_regs.sv",
        "if(axil_arvalid && !axil_prev_was_rd) begin",
        "if(axil_arvalid) begin",
        "WriteInTime",
    ),
    Fault(
        "answer in another's place",
        "register_block",
        "rtl/regs/npu_regs.sv",
        "axil_resp_buffer_rdata[axil_resp_wptr[0:0]] <= cpuif_rd_data;",
        "axil_resp_buffer_rdata[axil_resp_rptr[0:0]] <= cpuif_rd_data;",
        "AnswerOrder",
    ),
    Fault(
        "doorbell of another register",
        "register_block",
        "rtl/host/register_block.sv",
        "hwif_out.DOORBELL.submit.swmod;",
        "hwif_out.RING_TAIL.slot.swmod;",
        "DoorbellOnce",
    ),
    Fault(
        "event lost beside another",
        "register_block",
        "rtl/host/register_block.sv",
        "= irq_done_i && !return_to_reset;",
        "= irq_done_i && !irq_error_i && !return_to_reset;",
        "EventKept",
    ),
)


@pytest.mark.parametrize("name", QUICK)
def test_proof(name: str) -> None:
    """Bounded check, induction and cover points."""
    for question, answer in prove(PROOFS[name]).items():
        assert answer.good, f"{question}: {answer.named}"


@pytest.mark.parametrize("name", sorted({fault.proof for fault in FAULTS} - set(QUICK)))
def test_bounded(name: str) -> None:
    """No assertion of the larger blocks fails in the first clocks."""
    answer = check_bounded(build_model(PROOFS[name]), 4)
    assert answer.good, answer.named


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.proof}-{fault.name}".replace(" ", "_"))
def test_fault_is_found(fault: Fault) -> None:
    """A block with one line wrong has a run that breaks the property which that line is there for."""
    text = (ROOT / fault.source).read_text(encoding="utf-8")
    assert text.count(fault.line) == 1, "the line to be broken is not there, or not once"
    name = f"{fault.proof}-fault-{FAULTS.index(fault)}"
    model = build_model(PROOFS[fault.proof], name, {fault.source: text.replace(fault.line, fault.broken)})
    answer = check_bounded(model, fault.steps)
    assert not answer.good
    assert fault.property in answer.named


def test_every_wrapper_is_proven_and_broken() -> None:
    """No wrapper lies unused, and each has a fault that it finds."""
    wrappers = {
        path.stem
        for path in (ROOT / WRAPPERS).glob("*.sv")
        if f"module {path.stem}_formal" in path.read_text()
    }
    assert wrappers == {proof.wrapper for proof in PROOFS.values()}
    assert wrappers == {PROOFS[fault.proof].wrapper for fault in FAULTS}
