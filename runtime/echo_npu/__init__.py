"""The runtime of the ECHO NPU: open a device on any backend, move data, run commands.

import echo_npu
with echo_npu.open("rtlmodel", config="default") as npu:
    c = npu.matmul(a, b)
"""

from typing import Any

from echo_npu.backends import (
    get_backend_class,
    get_backend_info,
    get_backend_name,
    list_backends,
    set_default_backend,
)
from echo_npu.commands.packets import (
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    add_packets,
    gather_packets,
    load_program_packets,
    matmul_packets,
    memcpy_packets,
    nop_packet,
    sync_packet,
)
from echo_npu.device import Device
from echo_npu.driver.recorded_program import RecordedProgram
from echo_npu.driver.transfer import MemcpyKind
from echo_npu.errors import (
    BackendError,
    DeviceClosedError,
    NpuBusError,
    NpuDeviceError,
    NpuError,
    NpuHostError,
    NpuOutOfMemoryError,
    NpuPointerError,
    NpuProgramMemoryError,
    NpuRecordingError,
    NpuTimeoutError,
    RtlMismatchError,
    SimulatorError,
)
from echo_npu.ops.block_linear import BlockLinear
from echo_npu.ops.packed import PackedTensor
from echo_npu.ops.quantized_linear import QuantizedLinear
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.status import ErrorCode, NpuStatus, State
from echo_npu.tensor import DeviceTensor

__version__ = "0.1.0"


def open(  # noqa: A001  (the public name; this module does not use the builtin)
    backend: str | None = None, config: str = "default", *, ring_slots: int | None = None, **options: Any
) -> Device:
    """Open a device.

    Args:
        backend: a name of `list_backends()`; None: the one of `get_backend_name()`.
        config: the hardware configuration: a file of rtl/configs without its ending, `random-<seed>`, the
            path of a TOML file, or `lockstep-` and one of these.
        ring_slots: length of the command ring; None: the default of `Device`.
        options: options of the backend; for rtlmodel see `echo_npu.backends.rtlmodel.Options`.

    Raises:
        BackendError: no such backend.
        ValueError: no such configuration (the message lists those that exist), or a wrong option value.
        TypeError: an option that the backend does not have, or a configuration that is no string.
        SimulatorError: rtlmodel could not be built or started.
    """
    chosen = get_backend_class(backend)
    if not isinstance(config, str):
        raise TypeError(f"config must be a name or a path as text, got {config!r} ({type(config).__name__})")
    if options.get("trace") is not None and not chosen.has_cycles:
        raise ValueError(f"the backend {chosen.name} has no cycles, so it has no timeline to trace")
    opened = chosen.open(config, options)
    try:
        return Device(opened, config=config, **({} if ring_slots is None else {"ring_slots": ring_slots}))
    except BaseException:
        opened.close()
        raise


__all__ = [
    "BackendError",
    "BlockLinear",
    "Blocks",
    "DataType",
    "Device",
    "DeviceClosedError",
    "DeviceTensor",
    "ErrorCode",
    "ExtensionPacket",
    "Flags",
    "MemcpyKind",
    "NpuBusError",
    "NpuCommandPacket",
    "NpuDeviceError",
    "NpuError",
    "NpuHostError",
    "NpuOutOfMemoryError",
    "NpuPointerError",
    "NpuProgramMemoryError",
    "NpuRecordingError",
    "NpuStatus",
    "NpuTimeoutError",
    "Opcode",
    "OutType",
    "PackedTensor",
    "Packet",
    "QuantizedLinear",
    "RecordedProgram",
    "RtlMismatchError",
    "SimulatorError",
    "State",
    "add_packets",
    "gather_packets",
    "get_backend_info",
    "get_backend_name",
    "list_backends",
    "load_program_packets",
    "matmul_packets",
    "memcpy_packets",
    "nop_packet",
    "open",
    "set_default_backend",
    "sync_packet",
]
