"""The operations as methods of `Device`: each one hands over to the function of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from numpy.typing import DTypeLike

from echo_npu.locking import Locked, locked
from echo_npu.ops import copy, elementwise, matmul
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device


def _device(methods: OpMethods) -> Device:
    return cast("Device", methods)


class OpMethods(Locked):
    """What `Device` inherits. The documentation is with the functions."""

    @locked
    def matmul(
        self,
        a: Any,
        b: Any,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        alpha: float | None = None,
        out_dtype: DTypeLike | None = None,
        out: DeviceTensor | None = None,
    ) -> Any:
        """`a @ b`, with the shapes of `numpy.matmul`. See `echo_npu.ops.matmul.matmul`."""
        return matmul.matmul(
            _device(self), a, b, trans_a=trans_a, trans_b=trans_b, alpha=alpha, out_dtype=out_dtype, out=out
        )

    @locked
    def add(self, a: Any, b: Any, alpha: float = 1.0, *, out: DeviceTensor | None = None) -> Any:
        """`a + alpha * b`. See `echo_npu.ops.elementwise.add`."""
        return elementwise.add(_device(self), a, b, alpha, out=out)

    @locked
    def copy(self, src: Any, *, out: DeviceTensor | None = None) -> Any:
        """A copy of `src` that the device makes. See `echo_npu.ops.copy.copy`."""
        return copy.copy(_device(self), src, out=out)
