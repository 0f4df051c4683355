// What main programs share about npu_tb.
#pragma once

namespace echo {

// Whether a change of tick is one edge of the clock, as a waveform should show it, or a whole cycle.
#if VM_TRACE
constexpr bool kClockFalls = true;
#else
constexpr bool kClockFalls = false;
#endif

// Puts the board in reset with idle masters. Inputs that are not written are random.
template <typename Top>
void set_idle(Top& top) {
    top.tick = top.rst_n = top.bfm_req = top.trace_enable = 0;
    top.bus_clk = top.bus_enable = top.axil_external = 0;
    top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = top.s_axil_arvalid = top.s_axil_rready = 0;
    top.s_axi_awvalid = top.s_axi_wvalid = top.s_axi_bready = top.s_axi_arvalid = top.s_axi_rready = 0;
}

}  // namespace echo
