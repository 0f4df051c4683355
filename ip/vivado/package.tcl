# SPDX-License-Identifier: Apache-2.0
# Package echo_npu_ip for Vivado's catalogue: component.xml (IP-XACT) with copies of the sources.
#   vivado -mode batch -source ip/vivado/package.tcl -tclargs PART FOLDER
if {[llength $argv] != 2} { error "usage: package.tcl PART FOLDER" }
lassign $argv npu_part npu_folder
source [file join [file dirname [info script]] sources.tcl]

create_project -in_memory -part $npu_part
npu_add_sources

# The buses, clock, reset and interrupt are inferred, from the prefixes and attributes in echo_npu_ip.v.
ipx::package_project -root_dir $npu_folder -vendor echo -library npu -taxonomy /UserIP -import_files -force
set core [ipx::current_core]
set_property name echo_npu_ip $core
set_property display_name {ECHO NPU} $core
set_property description {Matrix and vector engine with its own memory controller} $core
set_property version 1.0 $core

# The register window is 64 KiB; the host window reaches both memory regions.
foreach {bus range} {s_axil 65536 s_axi 536870912} {
    set map [ipx::get_memory_maps $bus -of_objects $core]
    set_property range $range [lindex [ipx::get_address_blocks -of_objects $map] 0]
}
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project
