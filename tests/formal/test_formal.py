"""Run the quick proofs of tests/formal whole and the others for a few clocks; each of them can fail.

`make formal` runs all of them whole.
"""

import re
from typing import NamedTuple

import pytest

from tb.formal import PROOFS, WRAPPERS, build_model, check_bounded, prove
from tb.repository import ROOT

QUICK = (
    "sync_fifo-4",
    "sync_fifo-4-ram",
    "ram_queue",
    "skid_buffer",
    "round_robin-5",
    "host_write_buffer",
    "host_read_buffer",
)


class BrokenLine(NamedTuple):
    """One change of one line of a block, and the property that it breaks within `steps` clocks."""

    name: str
    proof: str
    source: str
    property: str
    steps: int
    line: str
    broken: str


FAULTS_TEXT = """
element overwritten when one leaves: sync_fifo-4, rtl/cells/sync_fifo.sv, TagOrder, 6
- if (push_i) storage_q[
+ if (push_i && !pop_i) storage_q[
element twice: sync_fifo-4, rtl/cells/sync_fifo.sv, CountExact, 6
- if (pop_i)  read_q
+ if (pop_i && !push_i) read_q
element read too late: sync_fifo-4-ram, rtl/cells/sync_fifo.sv, TagOrder, 6
- (push_i && empty_o)
+ (push_i && !empty_o)
element shown that is old: sync_fifo-4-ram, rtl/cells/ram_1r1w.sv, TagOrder, 6
- if (read_i && write_i[0] && write_addr_i == read_addr_i)
+ if (read_i && write_i[0] && write_addr_i == read_addr_i && !read_addr_i[0])
second element lost: skid_buffer, rtl/cells/skid_buffer.sv, TakesTwo, 6
- spare_valid_q <= 1'b1;
+ spare_valid_q <= 1'b0;
newer element first: skid_buffer, rtl/cells/skid_buffer.sv, TagOrder, 6
- if (spare_valid_q) data_q <= spare_q;
+ if (spare_valid_q && !valid_i) data_q <= spare_q;
winner stays first: round_robin-5, rtl/cells/round_robin.sv, ServedInTurn, 9
- '0 : index_o + 1'b1;
+ '0 : index_o;
two winners: round_robin-5, rtl/cells/round_robin.sv, GrantOneHot, 6
- candidates & (~candidates + 1'b1)
+ candidates
element overwritten before it is taken: ram_queue, rtl/cells/ram_queue.sv, OutputStable, 6
- assign fetch   = stored != '0 && (ready_i || !valid_q);
+ assign fetch   = stored != '0;
address ahead of its data: host_write_buffer, rtl/memory/host_write_buffer.sv, DataAtHand, 6
- assign awvalid_o = !aw_empty && whole_q != '0;
+ assign awvalid_o = !aw_empty;
read without room for its data: host_read_buffer, rtl/memory/host_read_buffer.sv, RoomForData, 14
- 32'(claimed_q) + 32'(ar_i.len) < DataBeats;
+ 32'(claimed_q) < DataBeats;
turn that passes on behind the host only: memory_controller, rtl/memory/memory_controller.sv, WriteInTurn, 7
- .advance_i(order_push),
+ .advance_i(order_push && aw_grant[0]),
response not taken: memory_controller, rtl/memory/memory_controller.sv, TakesResponses, 6
- assign m_axi_bready  = 1'b1;
+ assign m_axi_bready  = m_axi_bid[7:4] != 4'(ClientHost);
data of an earlier burst swallowed: axi_slave_write, rtl/host/axi_slave.sv, WSwallowed, 7
- if (write_count_q == '0) write_state_d = WriteDrain;
+ write_state_d = WriteDrain;
burst of 17 beats at one address: axi_slave_write, rtl/host/axi_slave.sv, AwExpected, 6
- legal_burst = len <= 8'd15;
+ legal_burst = len <= 8'd16;
data without an address passed on: axi_slave_write, rtl/host/axi_slave.sv, WPassed, 6
- assign w_pass      = data_count_q != '0;
+ assign w_pass      = 1'b1;
refusal of another burst: axi_slave_write, rtl/host/axi_slave.sv, RefusalOrder, 6
- {aw_in.id, RespDecErr} :
+ {m_b_i.id, RespDecErr} :
a beat too few: axi_slave_read, rtl/host/axi_slave.sv, RefusalOrder, 6
- assign refuse_last = beat_q == ar_in.len;
+ assign refuse_last = beat_q + 8'd1 >= ar_in.len;
beat not waited for: axi_slave_read, rtl/host/axi_slave.sv, RStable, 6
- .ready_i(s_axi_rready)
+ .ready_i(1'b1)
refusal that never begins: axi_slave_read, rtl/host/axi_slave.sv, Progress, 6
- if (ar_valid && !ar_legal && read_count_q == '0) begin
+ if (ar_valid && !ar_legal && read_count_q != '0) begin
refusal that never begins: axi_slave_response, rtl/host/axi_slave.sv, ReadInTime, 16
- if (ar_valid && !ar_legal && read_count_q == '0) begin
+ if (ar_valid && !ar_legal && read_count_q != '0) begin
response not waited for: register_block, rtl/regs/npu_regs.sv, BStable, 6
- if(s_axil_bready) axil_resp_acked = '1;
+ axil_resp_acked = '1;
reads overtake writes: register_block, rtl/regs/npu_regs.sv, WriteInTime, 6
- if(axil_arvalid && !axil_prev_was_rd) begin
+ if(axil_arvalid) begin
answer in another's place: register_block, rtl/regs/npu_regs.sv, AnswerOrder, 6
- axil_resp_buffer_rdata[axil_resp_wptr[0:0]] <= cpuif_rd_data;
+ axil_resp_buffer_rdata[axil_resp_rptr[0:0]] <= cpuif_rd_data;
doorbell of another register: register_block, rtl/host/register_block.sv, DoorbellOnce, 6
- hwif_out.DOORBELL.submit.swmod;
+ hwif_out.RING_TAIL.slot.swmod;
event lost beside another: register_block, rtl/host/register_block.sv, EventKept, 6
- = irq_done_i && !return_to_reset;
+ = irq_done_i && !irq_error_i && !return_to_reset;
asleep in reset: gated_register_block, rtl/host/register_block.sv, SameOutputs, 4
- .enable_i(awake),
+ .enable_i(left_q != '0),
asleep while data is to come: gated_memory_controller, rtl/memory/memory_controller.sv, SameOutputs, 9
- = ar_request != '0 || aw_request != '0 || !order_empty
+ = ar_request != '0 || aw_request != '0
address asked for asleep: gated_memory_controller, rtl/memory/memory_controller.sv, SameOutputs, 6
- = ar_request != '0 || aw_request != '0 || !order_empty
+ = ar_request != '0 || !order_empty
"""
"""Name: proof, source, property, steps; then the line and what it becomes."""

FAULTS = [
    BrokenLine(name, proof, source, broken_property, int(steps), line, broken)
    for name, proof, source, broken_property, steps, line, broken in re.findall(
        r"^(.+): (.+), (.+), (.+), (\d+)\n- (.+)\n\+ (.+)$", FAULTS_TEXT, re.MULTILINE
    )
]


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
def test_fault_is_found(fault: BrokenLine) -> None:
    """A block with one wrong line has a run that breaks the property of that line."""
    text = (ROOT / fault.source).read_text(encoding="utf-8")
    assert text.count(fault.line) == 1, "the line to be broken is not there, or not once"
    name = f"{fault.proof}-fault-{FAULTS.index(fault)}"
    model = build_model(PROOFS[fault.proof], name, {fault.source: text.replace(fault.line, fault.broken)})
    answer = check_bounded(model, fault.steps)
    assert not answer.good
    assert fault.property in answer.named


def test_every_wrapper_is_proven_and_broken() -> None:
    """Every wrapper belongs to a proof and finds a fault."""
    assert 3 * len(FAULTS) == len(FAULTS_TEXT.strip().splitlines()), "a fault is not written as the others"
    wrappers = {
        path.stem
        for path in (ROOT / WRAPPERS).glob("*.sv")
        if f"module {path.stem}_formal" in path.read_text()
    }
    assert wrappers == {proof.wrapper for proof in PROOFS.values()}
    assert wrappers == {PROOFS[fault.proof].wrapper for fault in FAULTS}
