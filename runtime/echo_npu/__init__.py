"""The runtime of the ECHO NPU: open a device on any backend, move data, run commands.

import echo_npu
with echo_npu.open("rtlmodel", config="default") as npu:
    c = npu.matmul(a, b)
"""

from echo_npu.backends import (
    get_backend_info,
    get_backend_name,
    list_backends,
    set_default_backend,
)
from echo_npu.commands.builders import (
    add_packets,
    gather_packets,
    load_program_packets,
    memcpy_packets,
    nop_packet,
    sync_packet,
)
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.device import Device
from echo_npu.devices import (
    close_devices,
    configure,
    device_count,
    get_device,
    memcpy_peer,
    open,  # noqa: A004  (the public name; this module does not use the builtin)
    open_device,
    set_device,
)
from echo_npu.driver.recorded_program import RecordedProgram
from echo_npu.driver.transfer import MemcpyKind
from echo_npu.errors import (
    BackendError,
    DeviceClosedError,
    NpuBusError,
    NpuCardBusyError,
    NpuCardError,
    NpuCardIdentityError,
    NpuCardLostError,
    NpuCardMissingError,
    NpuCardPermissionError,
    NpuCardResetError,
    NpuDeviceError,
    NpuError,
    NpuHostError,
    NpuInterruptLostError,
    NpuOutOfMemoryError,
    NpuPointerError,
    NpuProgramMemoryError,
    NpuRecordingError,
    NpuTimeoutError,
    NpuTransferError,
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
    "NpuCardBusyError",
    "NpuCardError",
    "NpuCardIdentityError",
    "NpuCardLostError",
    "NpuCardMissingError",
    "NpuCardPermissionError",
    "NpuCardResetError",
    "NpuCommandPacket",
    "NpuDeviceError",
    "NpuError",
    "NpuHostError",
    "NpuInterruptLostError",
    "NpuOutOfMemoryError",
    "NpuPointerError",
    "NpuProgramMemoryError",
    "NpuRecordingError",
    "NpuStatus",
    "NpuTimeoutError",
    "NpuTransferError",
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
    "close_devices",
    "configure",
    "device_count",
    "gather_packets",
    "get_backend_info",
    "get_backend_name",
    "get_device",
    "list_backends",
    "load_program_packets",
    "matmul_packets",
    "memcpy_packets",
    "memcpy_peer",
    "nop_packet",
    "open",
    "open_device",
    "set_default_backend",
    "set_device",
    "sync_packet",
]
