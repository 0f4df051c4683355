"""The engines: results to the bit of the functional model, and a device that works on after an error."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu import formats
from echo_npu.commands.builders import memcpy_packets, nop_packet
from echo_npu.commands.packets import NpuCommandPacket
from echo_npu.device import Device
from echo_npu.errors import NpuDeviceError
from echo_npu.formats.packed import PackedMatrix
from echo_npu.ops.packed import PackedTensor
from echo_npu.selftest.records import SelfTestError
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State

_SHAPE: Final = (37, 83, 29)
"""M, K and N: ragged against every array."""
_TYPES: Final = {"fp32": np.float32, "bf16": np.uint16, "fp16": np.float16, "int8": np.int8}

Call = Callable[[Device], Any]


def _same(npu: Device, twin: Device, call: Call, what: str) -> None:
    """Raise SelfTestError unless both devices give the same bits."""
    ours, theirs = (np.ascontiguousarray(call(device)) for device in (npu, twin))
    if ours.tobytes() != theirs.tobytes():
        wrong = np.flatnonzero(ours.reshape(-1).view(np.uint8) != theirs.reshape(-1).view(np.uint8))
        place = np.unravel_index(int(wrong[0]) // ours.itemsize, ours.shape)
        raise SelfTestError(
            f"{what}: {len(np.unique(wrong // ours.itemsize))} of {ours.size} elements differ; the first is "
            f"{[int(index) for index in place]}: {ours[place]} in place of {theirs[place]}"
        )


def _drawn(name: str, *shape: int) -> NDArray[Any]:
    random = np.random.default_rng(shape)
    if name == "int8":
        return random.integers(-128, 128, shape).astype(np.int8)
    values = random.standard_normal(shape, dtype=np.float32)
    if name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(_TYPES[name])


def check_copies(npu: Device, twin: Device) -> str:
    """Copy bytes within memory, at odd addresses and of odd lengths."""
    sizes = (1, 63, 4097, 100_003)
    data = np.random.default_rng(1).integers(0, 256, 1 << 17, dtype=np.uint8)
    source, target = npu.malloc(data.size, "weight"), npu.malloc(data.size, "activation")
    try:
        for size in sizes:
            npu.backend.write_mem(source, data)
            npu.backend.write_mem(target, np.zeros(size + 64, np.uint8))
            npu.execute(memcpy_packets(source + 5, target + 3, size))
            found = npu.backend.read_mem(target, size + 64)
            expected = np.concatenate([np.zeros(3, np.uint8), data[5 : 5 + size], np.zeros(61, np.uint8)])
            wrong = np.flatnonzero(found != expected)
            if wrong.size:
                raise SelfTestError(
                    f"copy of {size} bytes: {wrong.size} are wrong, first {int(wrong[0]) - 3}"
                )
    finally:
        npu.free(source)
        npu.free(target)
    return f"{len(sizes)} sizes, to {sizes[-1]} bytes"


def check_products(npu: Device, twin: Device) -> str:
    """Multiply matrices of every type, stored either way, and by weights in every block format."""
    m, k, n = _SHAPE
    for name in npu.capabilities.data_types:
        for transposed in (False, True):
            a, b = _drawn(name, m, k), _drawn(name, *((n, k) if transposed else (k, n)))
            call = partial(Device.matmul, a=a, b=b, trans_b=transposed)
            _same(npu, twin, call, f"matmul of {name}{', transposed' * transposed}")
    for block in npu.capabilities.block_formats:
        call = partial(_block_product, _drawn("fp32", m, 96), formats.pack(_drawn("fp32", 48, 96), block))
        _same(npu, twin, call, f"matmul by {block}")
    return ", ".join((*npu.capabilities.data_types, *npu.capabilities.block_formats))


def _block_product(a: NDArray[np.float32], packed: PackedMatrix, npu: Device) -> Any:
    return npu.matmul(a, PackedTensor.upload(npu, packed))


def check_vector(npu: Device, twin: Device) -> str:
    """Run vector programs of each kind: elementwise, reduction, rows, gather, and a broadcast."""
    x, y, ids = _drawn("fp32", 19, 67), _drawn("fp32", 19, 67), np.array([3, 0, 18, 3, 7], np.int32)
    calls: dict[str, Call] = {
        "add": lambda device: device.add(x, y, alpha=-0.5),
        "mul by a row": lambda device: device.mul(x, y[:1]),
        "gelu": lambda device: device.gelu(x),
        "sum": lambda device: device.sum(x, 0, False),
        "softmax": lambda device: device.softmax(x),
        "rms_norm": lambda device: device.rms_norm(x, y[0]),
        "embedding": lambda device: device.embedding(x, ids),
    }
    for name, call in calls.items():
        _same(npu, twin, call, name)
    return ", ".join(calls)


def check_ring(npu: Device, twin: Device) -> str:
    """Submit more than the queue holds through the ring until it wraps, then a chain for both engines."""
    slots = npu.capabilities.queue_depth * 4 + 1

    def chain(device: Device) -> NDArray[np.float32]:
        a = device.tensor(_drawn("fp32", 24, 24))
        with device.record() as program:
            x = a
            for _ in range(8):
                x = device.softmax(device.matmul(x, a))
        with program:
            program.run()
            return np.asarray(x.to_numpy(), np.float32)

    npu.submit_batch(nop_packet())
    npu.wait()
    batches = npu.backend.read_reg(regs.RING_SIZE) // slots + 1
    before = npu.counters()["commands"]
    for _ in range(batches):
        npu.submit_batch([nop_packet()] * slots)
        npu.wait()
    ran = npu.counters()["commands"] - before
    if ran != batches * slots:
        raise SelfTestError(f"{ran} of {batches * slots} commands in the ring ran")
    _same(npu, twin, chain, "a chain of products and softmax")
    return f"{batches} batches of {slots}, a chain of 16 operations"


def check_error(npu: Device, twin: Device) -> str:
    """Submit a command that no device takes: it must be reported, and the next one run."""
    try:
        npu.execute(NpuCommandPacket(0x66))
    except NpuDeviceError as error:
        if error.code != ErrorCode.BAD_OPCODE:
            raise SelfTestError(f"an unknown opcode was reported as: {error}") from None
    else:
        raise SelfTestError("an unknown opcode was not reported")
    npu.clear_error()
    if npu.status().state != State.IDLE:
        raise SelfTestError(f"after clear_error(): {npu.status()}")
    npu.execute(nop_packet())
    return "BAD_OPCODE, cleared"
