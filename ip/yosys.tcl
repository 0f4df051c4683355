# SPDX-License-Identifier: Apache-2.0
# Edalize's template of the target synth: Yosys reads the sources with slang's front end, all in one unit.
# edalize_yosys_procs.tcl calls the commands of Yosys' own front end; here they only collect what slang is to read.
set sources {}
set options {}
proc read_verilog {args} { lappend ::sources [lindex $args end] }
proc verilog_defaults {args} { foreach each [lrange $args 1 end] { lappend ::options -I [string range $each 2 end] } }
proc verilog_defines {define} { lappend ::options -D [string range $define 2 end] }
proc chparam {set name value top} { lappend ::options -G $name=$value }

source edalize_yosys_procs.tcl
set_defines
set_incdirs
read_files
set_params

yosys read_slang --single-unit -D SYNTHESIS {*}$options --top $top {*}$sources
# The mapping of `make synth` (scripts/synth/flow.py), where the reasons stand: abc in the place of abc9.
set ecp5 {synth_ecp5 -nowidelut -noccu2}
yosys {*}$ecp5 -top $top -run :map_luts
yosys techmap -map +/lattice/latches_map.v
yosys abc -lut 4
yosys clean
yosys {*}$ecp5 -top $top -run map_cells: -json $name.json
