# SPDX-License-Identifier: Apache-2.0
# What Vivado reads of the NPU, from rtl/npu.f.

# The repository.
set npu_root [file normalize [file join [file dirname [info script]] .. ..]]

# Return the absolute paths of the sources of echo_npu_ip in order of dependency. The clock gate is that of FPGAs.
proc npu_sources {} {
    global npu_root
    set found {}
    set list [open [file join $npu_root rtl npu.f]]
    while {[gets $list line] >= 0} {
        set name [string trim [regsub {(//|#).*$} $line {}]]
        if {$name eq ""} continue
        if {$name eq "cells/clock_gate.sv"} {
            lappend found [file join $npu_root ip fpga clock_gate.sv]
        } else {
            lappend found [file join $npu_root rtl $name]
        }
    }
    close $list
    lappend found [file join $npu_root ip echo_npu_ip.v]
}

# Add the sources and the constraints to the open project.
proc npu_add_sources {} {
    global npu_root
    add_files -norecurse [npu_sources]
    set_property include_dirs [list [file join $npu_root rtl]] [current_fileset]
    add_files -norecurse [glob [file join $npu_root rtl *.svh]]
    set_property file_type {Verilog Header} [get_files *.svh]
    add_files -norecurse -fileset constrs_1 [file join $npu_root ip npu.xdc]
    set_property USED_IN {synthesis implementation out_of_context} [get_files npu.xdc]
    set_property top echo_npu_ip [current_fileset]
    update_compile_order -fileset sources_1
}
