# SPDX-License-Identifier: Apache-2.0
# An example: a project with the NPU between a Zynq UltraScale+ processor and its DDR memory.
#   vivado -mode batch -source ip/vivado/block_design.tcl -tclargs PART FOLDER
# The processor's boot loader must leave the first 512 MiB of DDR to the NPU.
if {[llength $argv] != 2} { error "usage: block_design.tcl PART FOLDER" }
lassign $argv npu_part npu_folder
source [file join [file dirname [info script]] sources.tcl]

create_project echo_npu $npu_folder -part $npu_part
npu_add_sources

create_bd_design system
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps]
set_property -dict {
    CONFIG.PSU__USE__M_AXI_GP0 1
    CONFIG.PSU__USE__M_AXI_GP1 0
    CONFIG.PSU__USE__M_AXI_GP2 0
    CONFIG.PSU__USE__S_AXI_GP2 1
    CONFIG.PSU__USE__IRQ0 1
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 100
} $ps
set npu [create_bd_cell -type module -reference echo_npu_ip npu]
# A legal configuration with the width of the processor's port.
set_property -dict {
    CONFIG.ArrayRows 8
    CONFIG.ArrayCols 8
    CONFIG.VectorLanes 8
    CONFIG.VectorLength 64
    CONFIG.RowElements 2048
    CONFIG.DataWidth 128
    CONFIG.BlockM 32
    CONFIG.BlockKTiles 4
    CONFIG.BlockNTiles 8
    CONFIG.AccEntries 128
} $npu
set reset [create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset]
# One master, for registers and the host window; its slaves are the NPU's two ports.
set hosts [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect hosts]
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 2} $hosts
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory]
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1} $memory

set clock [get_bd_pins ps/pl_clk0]
connect_bd_net $clock [get_bd_pins npu/aclk] [get_bd_pins reset/slowest_sync_clk] [get_bd_pins hosts/aclk] \
    [get_bd_pins memory/aclk] [get_bd_pins ps/maxihpm0_fpd_aclk] [get_bd_pins ps/saxihp0_fpd_aclk]
connect_bd_net [get_bd_pins ps/pl_resetn0] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins npu/aresetn] [get_bd_pins hosts/aresetn] \
    [get_bd_pins memory/aresetn]
connect_bd_net [get_bd_pins npu/irq] [get_bd_pins ps/pl_ps_irq0]
connect_bd_intf_net [get_bd_intf_pins ps/M_AXI_HPM0_FPD] [get_bd_intf_pins hosts/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins hosts/M00_AXI] [get_bd_intf_pins npu/s_axil]
connect_bd_intf_net [get_bd_intf_pins hosts/M01_AXI] [get_bd_intf_pins npu/s_axi]
connect_bd_intf_net [get_bd_intf_pins npu/m_axi] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins ps/S_AXI_HP0_FPD]

# The NPU's address 0 must be the first byte of its memory: assign_bd_address maps the processor's whole DDR from 0 on,
# so the boot loader reserves the first 512 MiB. A base register in front of the port is the alternative.
assign_bd_address -offset 0xA0000000 -range 64K [get_bd_addr_segs npu/s_axil/reg0]
assign_bd_address -offset 0x400000000 -range 512M [get_bd_addr_segs npu/s_axi/reg0]
assign_bd_address -target_address_space npu/m_axi [get_bd_addr_segs ps/SAXIGP2/HP0_DDR_LOW]

validate_bd_design
save_bd_design
make_wrapper -top -import [get_files system.bd]
close_project
