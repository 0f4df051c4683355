"""The least cycles of a matrix product, as docs/performance.md defines them."""

from dataclasses import dataclass

from echo_npu.driver.capabilities import Capabilities
from echo_npu.spec.data_types import DataType, OutType


def macs_per_element(dtype: DataType) -> int:
    """Return the multiply-accumulates that one processing element does in a cycle."""
    return 4 if dtype == DataType.INT8 else 1


def peak_macs(capabilities: Capabilities, dtype: DataType) -> int:
    """Return the multiply-accumulates that the array does in a cycle at most."""
    return capabilities.array_rows * capabilities.array_cols * macs_per_element(dtype)


def bus_bytes(capabilities: Capabilities) -> int:
    """Return the bytes that the memory bus moves in a cycle at most, in each direction."""
    return capabilities.data_width // 8


@dataclass(frozen=True, slots=True)
class Bound:
    """The least cycles of a product, for each resource that it uses.

    Attributes:
        compute: macs / peak.
        read: bytes of both operands, each once, / bytes that the bus reads in a cycle.
        write: bytes of the result, once, / bytes that the bus writes in a cycle.
    """

    compute: float
    read: float
    write: float

    @property
    def cycles(self) -> float:
        """The largest of the three."""
        return max(self.compute, self.read, self.write)

    @property
    def limit(self) -> str:
        """Which of the three it is: "compute", "read" or "write"."""
        limits = {"compute": self.compute, "read": self.read, "write": self.write}
        return max(limits, key=limits.__getitem__)


def product_bound(
    capabilities: Capabilities,
    dtype: DataType,
    m: int,
    k: int,
    n: int,
    *,
    out: OutType = OutType.FLOAT32,
    batch: int = 1,
) -> Bound:
    """Return the bound of `batch` products [m, k] @ [k, n], each with operands of its own.

    Args:
        dtype: of the operands.
        out: of the results.
    """
    width = bus_bytes(capabilities)
    return Bound(
        compute=batch * m * k * n / peak_macs(capabilities, dtype),
        read=batch * (m * k + k * n) * dtype.itemsize / width,
        write=batch * m * n * out.itemsize(dtype) / width,
    )
