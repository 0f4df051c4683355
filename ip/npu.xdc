# SPDX-License-Identifier: Apache-2.0
# Constraints of echo_npu_ip alone, out of context. In a block design the clock comes from its source, which constrains it.
# 10 ns is a wish, not a result: no board has run it.
create_clock -name aclk -period 10.000 [get_ports aclk]

# aresetn is synchronous: it comes from a reset synchronizer on aclk, such as proc_sys_reset, and is timed like all inputs.
set_input_delay -clock aclk 4.000 [get_ports -filter {DIRECTION == IN && NAME != "aclk"}]
set_output_delay -clock aclk 4.000 [all_outputs]
