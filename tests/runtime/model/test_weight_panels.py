"""Unpacked weights follow memory, whoever writes to it, and take a bounded room."""

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import formats
from echo_npu.commands.vector_command import Stream
from echo_npu.formats import FORMATS, PackedMatrix
from echo_npu.model import weight_panels
from echo_npu.model.blocks import matmul_blocks
from echo_npu.model.weight_panels import WeightPanels
from echo_npu.ops.packed import PackedTensor
from echo_npu.vector import Builder

SHAPE = (80, 96)  # N and K


def weights(seed: int, name: str = "q4_1", shape: tuple[int, int] = SHAPE) -> PackedMatrix:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return formats.pack(values, name)


def rows(shape: tuple[int, int] = (2, SHAPE[1])) -> np.ndarray:
    return np.random.default_rng(9).standard_normal(shape).astype(np.float32)


def expected(packed: PackedMatrix, x: np.ndarray | None = None) -> np.ndarray:
    return matmul_blocks(rows() if x is None else x, packed.data, packed.format, packed.columns)


@pytest.fixture
def npu() -> Iterator[echo_npu.Device]:
    with echo_npu.open("cmodel") as device:
        yield device


# --- who writes ---------------------------------------------------------------------------------------------


def by_host(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    npu.memcpy(address, data, data.nbytes)


def by_primitive(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    npu.backend.write_mem(address, data)


def by_copy_on_the_device(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    source = npu.tensor(data)
    npu.memcpy(address, source.ptr, data.nbytes)


def by_vector_program(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    builder = Builder("moved")
    moved = builder.stream(0)
    with builder.chunks(advance=[moved]):
        builder.mov(builder.out, moved)
    source = npu.tensor(data)
    npu.vector(
        builder.build(), rows=1, cols=data.size // 4, inputs=[Stream(source.ptr)], output=Stream(address)
    )


def by_mapping(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    """As PyTorch's operators of the host do: memory is theirs, and nobody is told."""
    memory: Any = npu.backend
    memory.memory.bytes[address : address + data.nbytes] = data


def by_child(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    """A process that was forked has the same memory."""
    child = os.fork()
    if child == 0:
        by_mapping(npu, address, data)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def by_other_process(npu: echo_npu.Device, address: int, data: np.ndarray) -> None:
    """A simulator, for instance, maps the same file."""
    backend: Any = npu.backend
    page = address // mmap.PAGESIZE * mmap.PAGESIZE
    code = (
        "import mmap, sys\n"
        f"with open({backend.memory.share_path!r}, 'r+b') as file:\n"
        f"    shared = mmap.mmap(file.fileno(), {address - page + data.nbytes}, offset={page})\n"
        f"    shared[{address - page}:] = sys.stdin.buffer.read()\n"
    )
    subprocess.run([sys.executable, "-c", code], input=data.tobytes(), check=True)


WRITERS = [
    by_host, by_primitive, by_copy_on_the_device, by_vector_program, by_mapping, by_child, by_other_process,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
def test_every_write_is_noticed(
    npu: echo_npu.Device, write: Callable[[echo_npu.Device, int, np.ndarray], None]
) -> None:
    """A product after a write of all tiles, and after one of four bytes, has the new weights."""
    first, second = weights(1), weights(2)
    b = PackedTensor.upload(npu, first)
    x = npu.tensor(rows())
    for _ in range(2):
        assert np.array_equal(npu.matmul(x, b).to_numpy(), expected(first))
    write(npu, b.tiles.ptr, second.data.reshape(-1))
    assert np.array_equal(npu.matmul(x, b).to_numpy(), expected(second))
    changed = second.data.copy()
    flat = changed.reshape(-1)
    at = second.format.quants_at
    flat[at : at + 4] ^= 0x35
    write(npu, b.tiles.ptr + at, flat[at : at + 4].copy())
    third = PackedMatrix(second.format, *SHAPE, changed)
    assert not np.array_equal(expected(third), expected(second))
    assert np.array_equal(npu.matmul(x, b).to_numpy(), expected(third))


def test_memory_that_is_allocated_again(npu: echo_npu.Device) -> None:
    """Weights of another content, format and shape at the same address."""
    x = npu.tensor(rows())
    places = set()
    for seed, name in enumerate([*FORMATS, *FORMATS]):
        packed = weights(seed, name)
        b = PackedTensor.upload(npu, packed)
        places.add(b.tiles.ptr)
        assert np.array_equal(npu.matmul(x, b).to_numpy(), expected(packed))
        b.tiles.free()
    assert len(places) == 1


def test_memory_that_is_cleared(npu: echo_npu.Device) -> None:
    backend: Any = npu.backend
    b, x = PackedTensor.upload(npu, weights(1)), rows()
    assert npu.matmul(x, b).any()
    backend.memory.clear()
    assert not npu.matmul(x, b).any()


def test_devices_with_weights_at_the_same_address() -> None:
    with echo_npu.open("cmodel") as one, echo_npu.open("cmodel") as two:
        made = [(npu, PackedTensor.upload(npu, weights(seed))) for seed, npu in enumerate((one, two))]
        assert made[0][1].tiles.ptr == made[1][1].tiles.ptr
        for _ in range(2):
            for seed, (npu, b) in enumerate(made):
                assert np.array_equal(npu.matmul(rows(), b), expected(weights(seed)))


# --- panels alone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_parts_of_the_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections of any size give the same bits, and only what has changed is unpacked again."""
    packed, x = weights(3, name, (200, 160)), rows((3, 160))
    plain = expected(packed, x)
    monkeypatch.setattr(weight_panels, "SECTION_BYTES", 1)
    panels = WeightPanels()
    for _ in range(2):
        got = matmul_blocks(x, packed.data, packed.format, 200, panels)
        assert np.array_equal(got.view(np.uint32), plain.view(np.uint32))
    before = list(panels.sections(packed.data, packed.format))
    packed.data[5, 1, 7] ^= 1
    after = list(panels.sections(packed.data, packed.format))
    assert [a is b for a, b in zip(before, after, strict=True)] == [index != 5 for index in range(13)]


def test_a_strided_view() -> None:
    wide, x = weights(4, shape=(64, 128)), rows((2, 64))
    half = wide.data[:, :1]
    panels = WeightPanels()
    for _ in range(2):
        got = matmul_blocks(x, half, wide.format, 64, panels)
        assert np.array_equal(got, matmul_blocks(x, half.copy(), wide.format, 64))
        wide.data[2, 0, 300] ^= 0x11


def test_the_room_is_bounded() -> None:
    """Panels stay while they are used; what has no room is unpacked for its product alone."""
    made = [weights(seed) for seed in range(4)]
    size = WeightPanels()
    list(size.sections(made[0].data, made[0].format))
    panels = WeightPanels(most_bytes=2 * size.nbytes, idle=8)

    def used(index: int) -> bool:
        """Return whether the panel was there."""
        found = [list(panels.sections(made[index].data, made[index].format)) for _ in range(2)]
        assert panels.nbytes <= 2 * size.nbytes
        return all(a is b for a, b in zip(*found, strict=True))

    assert [used(index) for index in range(4)] == [True, True, False, False]
    assert not used(2)  # eight products without the first one, but no more
    assert used(3)  # for which the first one goes
    assert used(0)  # likewise the second one
    assert [used(index) for index in (1, 3)] == [False, True]


def test_the_size_that_is_stated() -> None:
    for name in FORMATS:
        panels = WeightPanels()
        found = panels.sections(weights(1, name).data, FORMATS[name])
        assert sum(each.nbytes for each in found) == panels.nbytes
