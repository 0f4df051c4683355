#!/bin/sh
# Opens a waveform on the signals that matter: runtime/echo_sim/waves/open.sh [waves/<test>.vcd]; without a name, the newest.
set -eu
cd "$(dirname "$0")/../../.."
file=${1:-$(ls -t waves/*.vcd 2>/dev/null | head -n 1)}
if [ -z "$file" ] || [ ! -f "$file" ]; then
    echo "error: no waveform${1:+ $1}; make one with: make SIM=verilator TEST=matmul WAVES=1" >&2
    exit 2
fi
if command -v gtkwave >/dev/null; then
    exec gtkwave "$file" runtime/echo_sim/waves/npu.gtkw
elif command -v surfer >/dev/null; then
    exec surfer "$file"
fi
echo "error: neither gtkwave nor surfer is on PATH; for example: apt-get install gtkwave" >&2
exit 2
