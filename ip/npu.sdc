# SPDX-License-Identifier: Apache-2.0
# Constraints of npu_top for synthesis to a technology library. Times are in nanoseconds.
# npu_clock_period may be set before this file is read.
if {![info exists npu_clock_period]} { set npu_clock_period 20.0 }

create_clock -name clk -period $npu_clock_period [get_ports clk]
set_clock_uncertainty [expr {0.02 * $npu_clock_period}] [get_clocks clk]

# All ports but test_enable are synchronous to clk, rst_n included. No output depends on an input within a clock, so each
# side may have its share of the period.
set npu_inputs [remove_from_collection [all_inputs] [get_ports {clk test_enable}]]
set_input_delay -clock clk [expr {0.4 * $npu_clock_period}] $npu_inputs
set_output_delay -clock clk [expr {0.4 * $npu_clock_period}] [all_outputs]

# Constant in use; high for a scan test.
set_case_analysis 0 [get_ports test_enable]
