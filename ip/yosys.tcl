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
# The mapping of `make synth` (scripts/synth/flow.py), where the reasons stand: without share, and abc in the place of abc9.
set ecp5 {synth_ecp5 -nowidelut -noccu2}
yosys {*}$ecp5 -top $top -run :coarse
yosys proc -latches error
yosys flatten
yosys opt_expr
yosys opt_clean
yosys opt -nodffe -nosdff
yosys fsm
yosys opt
yosys wreduce
yosys peepopt
yosys opt_clean
yosys techmap -map +/cmp2lut.v -D LUT_WIDTH=4
yosys opt_expr
yosys opt_clean
yosys techmap -map +/mul2dsp.v -D DSP_A_MAXWIDTH=18 -D DSP_B_MAXWIDTH=18 -D DSP_A_MINWIDTH=2 -D DSP_B_MINWIDTH=2 \
    -D {DSP_NAME=$__MUL18X18}
yosys chtype -set {$mul} {t:$__soft_mul}
yosys techmap -map +/lattice/dsp_map_18x18.v
yosys alumacc
yosys opt
yosys memory -nomap
yosys opt_clean
yosys techmap -map ip/read_ports.v -D MOST_READ_PORTS=8
yosys {*}$ecp5 -top $top -run map_ram:map_luts
yosys techmap -map +/lattice/latches_map.v
yosys abc -lut 4
yosys clean
yosys {*}$ecp5 -top $top -run map_cells: -json $name.json
