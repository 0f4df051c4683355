"""Made-up coverage data in Verilator's format."""

from pathlib import Path

SOURCE = "rtl/cells/skid_buffer.sv"


def record(
    kind: str,
    text: str,
    line: int,
    count: int,
    *,
    lines: str = "",
    top: str = "npu_tb",
    file: str = SOURCE,
    column: int = 3,
) -> bytes:
    """Return one point's line. `lines` are those that run with it ("3,5-7")."""
    fields = {
        "f": f"/somewhere/else/{file}",
        "l": str(line),
        "n": str(column),
        "t": kind,
        "page": f"v_{kind}/skid_buffer__W8",
        "o": text,
        **({"S": lines} if lines else {}),
        "h": f"{top}.dut.u_skid",
    }
    name = "".join(f"\x01{key}\x02{value}" for key, value in fields.items())
    return f"C '{name}' {count}\n".encode()


def write(path: Path, *records: bytes) -> Path:
    """Write a file of these points."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"# SystemC::Coverage-3\n" + b"".join(records))
    return path
