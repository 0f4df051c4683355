"""Products with weights in blocks give the same bits on the RTL as on the functional model."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

import echo_npu
from echo_npu import BlockLinear, Device, NpuDeviceError, PackedTensor, formats
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.formats import FORMATS
from echo_npu.spec.contract import Blocks
from echo_npu.spec.status import ErrorCode
from tests.arrays import normal
from tests.rtlmodel.simulated import STALLS, open_rtl

pytestmark = pytest.mark.sim

SIMULATIONS = {
    "default, without stalls": ("default", 0.0),
    "default, with stalls": ("default", STALLS),
    "small, with stalls": ("small", STALLS),
}
WITHOUT = "random-7"
"""A configuration whose engine does not take such weights."""


@pytest.fixture(scope="module", params=SIMULATIONS.values(), ids=SIMULATIONS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Device, Device]]:
    """An RTL simulation and a functional model."""
    config, stalls = request.param
    with open_rtl(config, stalls=stalls, seed=5) as rtl, echo_npu.open("cmodel", config=config) as model:
        yield rtl, model


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)


def test_the_device_has_every_format(pair: tuple[Device, Device]) -> None:
    assert {device.capabilities.block_formats for device in pair} == {tuple(FORMATS)}


@pytest.mark.parametrize("name", FORMATS)
def test_random_products(pair: tuple[Device, Device], name: str) -> None:
    """Of any size against array and blocks, of any scales and quants, of activations of any magnitude."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    rng, f = np.random.default_rng(seed), FORMATS[name]
    for m in (1, 2, int(rng.integers(3, 24)), int(rng.integers(24, 40)), int(rng.integers(130, 140))):
        k, n = 32 * int(rng.integers(1, 12)), int(rng.choice([1, 16, 17, rng.integers(1, 300)]))
        x = np.ldexp(normal(m, k, seed=seed), rng.integers(-90, 60, (m, 1))).astype(np.float32)
        x[:, :32] *= rng.random((m, 1)) < 0.8
        x[rng.random((m, k)) < 0.001] = rng.choice([np.inf, np.nan])
        packed = formats.pack(rng.integers(0, 256, (n, f.row_bytes(k)), np.uint8), name)
        ours, theirs = (device.matmul(x, packed) for device in pair)
        assert np.array_equal(bits(ours), bits(theirs)), (m, k, n)


def test_a_layer_with_all_steps_between_other_products(pair: tuple[Device, Device]) -> None:
    """Rows for weights in blocks do not meet those of other types in the array."""
    weight, bias, x = normal(70, 160), normal(70, seed=1), normal(5, 160, seed=2)

    def call(npu: Device) -> list[np.ndarray]:
        first, layer = npu.tensor(weight), BlockLinear(npu, weight, "q4_1", bias)
        rows = npu.tensor(x)
        with npu.record() as program:
            results = [
                result
                for _ in range(3)
                for result in (npu.matmul(rows, first, trans_b=True), layer(rows, activation="relu"))
            ]
        with program:
            program.run()
            return [result.to_numpy() for result in results]

    for ours, theirs in zip(*(call(device) for device in pair), strict=True):
        assert np.array_equal(bits(ours), bits(theirs))


def test_part_of_a_wider_matrix_and_batches(pair: tuple[Device, Device]) -> None:
    """A row stride of tiles, and a weight for each batch."""
    weights = [formats.pack(normal(40, 256, seed=each), "q4_0") for each in range(3)]
    x = normal(3, 9, 96)
    tile, shown = weights[0].format.tile_bytes, []
    for npu in pair:
        tiles = npu.tensor(np.stack([each.data for each in weights]), region="weight")
        rows, result = npu.tensor(x), npu.empty((3, 9, 40))
        command = matmul_command(
            rows.ptr,
            tiles.ptr + tile,
            result.ptr,
            9,
            96,
            40,
            blocks=Blocks.Q4_0,
            row_strides=(0, 4 * tile, 0),
            batch=(3, 1),
            src1_batch_strides=(4 * 9 * 96, 0),
            src2_batch_strides=(weights[0].nbytes, 0),
            dst_batch_strides=(4 * 9 * 40, 0),
        )
        npu.submit([command])
        npu.wait()
        shown.append(result.to_numpy())
    assert np.array_equal(bits(shown[0]), bits(shown[1]))
    full = np.zeros((9, 256), np.float32)
    full[:, 64:160] = x[1]
    assert np.allclose(shown[0][1], pair[1].matmul(full, weights[1]), rtol=1e-3, atol=1e-3)


def test_a_device_without_blocks_refuses_them() -> None:
    packed = formats.pack(normal(16, 64), "q8_0")
    for opened in (open_rtl(WITHOUT), echo_npu.open("cmodel", config=WITHOUT)):
        with opened as npu:
            assert npu.capabilities.block_formats == ()
            weight, rows, result = (
                PackedTensor.upload(npu, packed),
                npu.tensor(normal(1, 64)),
                npu.empty((1, 16)),
            )
            npu.submit([matmul_command(rows.ptr, weight.tiles.ptr, result.ptr, 1, 64, 16, blocks="q8_0")])
            with pytest.raises(NpuDeviceError) as caught:
                npu.wait()
            assert caught.value.code == ErrorCode.BAD_FLAGS
