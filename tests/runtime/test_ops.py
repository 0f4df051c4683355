"""Operations on numpy arrays and on device tensors: shapes, results, and refused arguments."""

import gc
import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device, DeviceTensor
from echo_npu.commands.strided import Loop, chunks, collapse, overlaps
from tests.arrays import normal
from tests.refusals import Error, Words, refuses

F32 = NDArray[np.float32]
Shape = tuple[int, ...]


def product(a: F32, b: F32) -> F32:
    """Compute `a @ b` with numpy's shapes, in the contract's order of sums."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = np.zeros((*batch, left.shape[-2], right.shape[-1]), np.float32)
    for k in range(left.shape[-1]):
        total += left[..., :, k, None] * right[..., None, k, :]
    if a.ndim == 1:
        total = total[..., 0, :]
    if b.ndim == 1:
        total = total[..., 0]
    return total


def used(npu: Device) -> int:
    gc.collect()
    return sum(figures.used for figures in npu.memory_statistics().values())


SHAPES = [
    ((1, 1), (1, 1)),
    ((3, 5), (5, 7)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
    ((5,), (5,)),
    ((2, 3, 5), (2, 5, 7)),
    ((2, 3, 5), (5, 7)),
    ((3, 5), (2, 5, 7)),
    ((4, 1, 3, 5), (6, 5, 7)),
    ((4, 6, 3, 5), (4, 1, 5, 7)),
    ((2, 3, 4, 3, 5), (3, 1, 5, 7)),
    ((2, 1, 2, 1, 3, 5), (1, 3, 1, 2, 5, 2)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 7)),
    ((1, 1, 3, 5), (1, 5, 7)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul_has_the_shapes_of_numpy_and_the_bits_of_the_contract(
    npu: Device, left: Shape, right: Shape
) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    c = npu.matmul(a, b)
    assert isinstance(c, (np.ndarray, np.generic))
    assert c.shape == np.matmul(a, b).shape
    assert c.dtype == np.float32
    assert np.array_equal(c, product(a, b))
    assert used(npu) == 0


@pytest.mark.parametrize(("left", "right"), [pair for pair in SHAPES if min(map(len, pair)) > 1], ids=str)
def test_matmul_of_transposed_operands(npu: Device, left: Shape, right: Shape) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    at, bt = np.ascontiguousarray(a.swapaxes(-1, -2)), np.ascontiguousarray(b.swapaxes(-1, -2))
    for trans_a, trans_b in ((False, True), (True, False), (True, True)):
        c = npu.matmul(at if trans_a else a, bt if trans_b else b, trans_a=trans_a, trans_b=trans_b)
        assert np.array_equal(c, product(a, b))


def test_matmul_scales_the_finished_product(npu: Device) -> None:
    a, b = normal(3, 5), normal(5, 7)
    assert np.array_equal(npu.matmul(a, b, alpha=0.3), np.float32(0.3) * product(a, b))


def test_matmul_takes_any_numpy_layout(npu: Device) -> None:
    a, b = normal(9, 10)[::2, ::-3], normal(8, 4).T
    assert np.array_equal(npu.matmul(a, b[:, ::2]), product(a, b[:, ::2]))
    fortran = np.asfortranarray(normal(6, 4))
    assert np.array_equal(npu.matmul(fortran, b), product(fortran, b))


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "words"),
    [
        ((3, 5), (4, 7), {}, ValueError, ["(3, 5)", "(4, 7)", "5 and 4"]),
        ((3, 5), (5, 7), {"trans_a": True}, ValueError, ["(3, 5)", "trans_a=True", "3 and 5"]),
        ((3, 5), (5, 7), {"trans_b": True}, ValueError, ["5 and 7", "trans_b=True"]),
        ((2, 3, 5), (3, 5, 7), {}, ValueError, ["broadcast", "(2, 3, 5)", "(3, 5, 7)"]),
        ((), (5,), {}, ValueError, ["()", "(5,)"]),
        ((5,), (5, 7), {"trans_a": True}, ValueError, ["vectors", "(5,)"]),
        ((0, 5), (5, 7), {}, ValueError, ["empty", "(0, 5)"]),
        ((3, 0), (0, 7), {}, ValueError, ["empty"]),
        ((3, 5), (5, 7), {"out_dtype": np.float64}, TypeError, ["out_dtype is float64", "float32"]),
    ],
)
def test_matmul_names_both_shapes(
    npu: Device, a: Shape, b: Shape, options: dict, error: Error, words: Words
) -> None:
    refuses(error, words, npu.matmul, np.zeros(a, np.float32), np.zeros(b, np.float32), **options)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8, np.complex64, bool])
def test_other_dtypes_are_refused_by_name(npu: Device, dtype: type) -> None:
    good, bad = np.ones((2, 2), np.float32), np.ones((2, 2), dtype)
    for a, b in ((good, bad), (bad, good)):
        for op in (npu.matmul, npu.add):
            refuses(TypeError, [np.dtype(dtype).name, "float32"], op, a, b)


def test_only_b_of_matmul_is_float16_beside_float32(npu: Device) -> None:
    wide, half = np.ones((2, 2), np.float32), np.ones((2, 2), np.float16)
    assert npu.matmul(wide, half).dtype == np.float32
    for op, a, b in ((npu.matmul, half, wide), (npu.add, half, wide), (npu.add, wide, half)):
        refuses(TypeError, ["float16", "float32"], op, a, b)


def test_what_is_no_array_is_refused(npu: Device) -> None:
    refuses(TypeError, "a is list, b is ndarray of float32", npu.matmul, [[1.0]], np.ones((1, 1), np.float32))
    one = np.ones((1, 1), np.float32)
    assert npu.matmul(one, one, out_dtype="float32").item() == 1


def test_operands_that_do_not_fit_leave_nothing_behind(npu: Device) -> None:
    keep = npu.malloc((256 << 20) - 4096)
    with pytest.raises(echo_npu.NpuOutOfMemoryError):
        npu.matmul(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    npu.free(keep)
    assert used(npu) == 0


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 4), ()])
@pytest.mark.parametrize("alpha", [1.0, -0.3])
def test_add(npu: Device, shape: Shape, alpha: float) -> None:
    a, b = normal(*shape), normal(*shape, seed=1)
    c = npu.add(a, b, alpha=alpha)
    assert c.shape == shape
    assert np.array_equal(c, a + np.float32(alpha) * b)


def test_add_names_the_shapes_that_do_not_broadcast(npu: Device) -> None:
    refuses(ValueError, r"a has shape \(3, 5\), b has shape \(3,\)", npu.add, normal(3, 5), normal(3))
    refuses(ValueError, "empty", npu.add, np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32))


def test_add_in_place(npu: Device) -> None:
    a, b = normal(5), normal(5, seed=1)
    left, right = npu.tensor(a), npu.tensor(b)
    assert npu.add(left, right, out=left) is left
    assert np.array_equal(left.to_numpy(), a + b)
    npu.add(left, left, out=left)
    assert np.array_equal(left.to_numpy(), (a + b) + (a + b))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float64, np.complex128])
def test_copy_of_any_dtype(npu: Device, dtype: type) -> None:
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    before = npu.counters()["commands"]
    copied = npu.copy(values)
    assert npu.counters()["commands"] == before + 1
    assert copied is not values
    assert copied.dtype == dtype
    assert np.array_equal(copied, values)


def test_copy_refuses(npu: Device) -> None:
    tensor = npu.tensor(normal(3))
    refuses(TypeError, "list", npu.copy, [1])
    refuses(TypeError, "out is float32, the result is int32", npu.copy, np.zeros(3, np.int32), out=tensor)
    refuses(ValueError, r"out has shape \(3,\), the result has shape \(4,\)", npu.copy, normal(4), out=tensor)
    refuses(ValueError, "empty", npu.copy, np.zeros(0, np.float32))


def test_tensors_are_freed_with_their_last_view(npu: Device) -> None:
    tensor = npu.tensor(normal(8, 8))
    view = tensor[2:4].T
    del tensor
    assert used(npu) == 256
    assert view.shape == (8, 2)
    del view
    assert used(npu) == 0


def test_free_is_immediate_and_uses_after_it_are_caught(npu: Device) -> None:
    tensor = npu.tensor(normal(4))
    view = tensor[1:]
    tensor.free()
    tensor.free()
    assert used(npu) == 0
    for broken in (tensor, view):
        refuses(ValueError, "free", broken.to_numpy)
    other = npu.tensor(normal(4))
    del tensor, view
    assert used(npu) == 64
    assert np.array_equal(other.to_numpy(), normal(4))


def test_views_are_numpys(npu: Device) -> None:
    values = normal(4, 6, 5)
    tensor = npu.tensor(values)
    pairs = [
        (tensor[1], values[1]),
        (tensor[-1, 2:5], values[-1, 2:5]),
        (tensor[..., 3], values[..., 3]),
        (tensor[:, None, ::2], values[:, None, ::2]),
        (tensor[1:3, ..., 1:], values[1:3, ..., 1:]),
        (tensor.T, values.T),
        (tensor.transpose(1, 2, 0), values.transpose(1, 2, 0)),
        (tensor.swapaxes(0, 2)[1:], values.swapaxes(0, 2)[1:]),
        (tensor.reshape(2, -1), values.reshape(2, -1)),
        (tensor[1:3].reshape(12, 5), values[1:3].reshape(12, 5)),
    ]
    for view, expected in pairs:
        assert view.shape == expected.shape
        assert np.array_equal(view.to_numpy(), expected)
        assert view.is_contiguous == expected.flags.c_contiguous
        assert np.array_equal(view.contiguous().to_numpy(), expected)
    assert len(tensor) == 4
    assert (tensor.ndim, tensor.size, tensor.nbytes) == (3, 120, 480)
    assert "(4, 6, 5)" in repr(tensor)


def test_views_that_the_device_cannot_have(npu: Device) -> None:
    tensor = npu.tensor(normal(4, 6))
    with pytest.raises(ValueError, match="negative"):
        tensor[::-1]
    with pytest.raises(ValueError, match="empty"):
        tensor[2:2]
    with pytest.raises(IndexError):
        tensor[4]
    with pytest.raises(TypeError, match="integers, slices"):
        tensor[[0, 1]]  # type: ignore[index]
    for flag in (True, np.True_):
        refuses(TypeError, "integers, slices", tensor.__getitem__, flag)
    refuses(ValueError, r"cannot view shape \(6, 4\).*as \(24,\)", tensor.T.reshape, 24)
    refuses(ValueError, "at least 1", npu.empty, (2, 0))
    refuses(TypeError, "object", npu.empty, 2, object)
    refuses(TypeError, "length", len, npu.tensor(np.float32(1)))


def test_copy_from_writes_through_any_view(npu: Device) -> None:
    values = normal(4, 6)
    tensor = npu.tensor(values)
    tensor[1:3, ::2].copy_from(np.full((2, 3), 7, np.float32))
    values[1:3, ::2] = 7
    assert np.array_equal(tensor.to_numpy(), values)
    tensor.T[0].copy_from(np.arange(4, dtype=np.float32))
    values.T[0] = np.arange(4)
    assert np.array_equal(tensor.to_numpy(), values)
    refuses(ValueError, r"\(6, 4\).*\(4, 6\)", tensor.copy_from, values.T)
    refuses(TypeError, r"float64.*float32", tensor.copy_from, values.astype(np.float64))


def test_matmul_of_views_needs_no_copies(npu: Device) -> None:
    """Heads of an attention layer are interleaved in memory, transposed, or shared between query heads."""
    tokens, heads, shared, size = 5, 4, 2, 8
    q, k = normal(tokens, heads, size), normal(tokens, shared, size, seed=1)
    query, key = npu.tensor(q), npu.tensor(k)
    commands = npu.counters()["commands"]
    scores = npu.empty((shared, heads // shared, tokens, tokens))
    grouped = query.reshape(tokens, shared, heads // shared, size).transpose(1, 2, 0, 3)
    npu.matmul(grouped, key.transpose(1, 2, 0)[:, None], out=scores)
    assert npu.counters()["commands"] == commands + 1
    left = q.reshape(tokens, shared, heads // shared, size).transpose(1, 2, 0, 3)
    assert np.array_equal(scores.to_numpy(), product(left, k.transpose(1, 2, 0)[:, None]))
    # and back into interleaved heads
    out, shares = npu.empty((tokens, heads, size)), scores.reshape(heads, tokens, tokens)
    npu.matmul(shares, query.transpose(1, 0, 2), out=out.transpose(1, 0, 2))
    expected = product(shares.to_numpy(), q.transpose(1, 0, 2))
    assert np.array_equal(out.to_numpy(), expected.transpose(1, 0, 2))


def test_mixed_operands_give_a_tensor(npu: Device) -> None:
    a, b = normal(3, 5), normal(5, 7)
    c = npu.matmul(npu.tensor(a), b)
    assert isinstance(c, DeviceTensor)
    assert np.array_equal(c.to_numpy(), product(a, b))
    d = npu.add(a, npu.tensor(a))
    assert isinstance(d, DeviceTensor)


def test_strides_that_no_command_has_are_refused(npu: Device) -> None:
    tensor = npu.tensor(normal(8, 8))
    with pytest.raises(ValueError, match=r"a has shape \(4, 4\) and strides \(64, 8\).*contiguous\(\)"):
        npu.matmul(tensor[::2, ::2], npu.tensor(normal(4, 4)))
    assert npu.matmul(tensor[::2, ::2].contiguous(), npu.tensor(normal(4, 4))).shape == (4, 4)
    refuses(ValueError, r"out.*last axis", npu.matmul, tensor, tensor, out=npu.empty((8, 8)).T)


def test_tensors_of_another_device_are_refused(npu: Device) -> None:
    with echo_npu.open("cmodel") as other, pytest.raises(ValueError, match="another device"):
        npu.add(npu.tensor(normal(3)), other.tensor(normal(3)))


def test_memcpy_knows_tensors(npu: Device) -> None:
    tensor = npu.tensor(normal(4, 4))
    out = np.zeros((4, 4), np.float32)
    npu.memcpy(out, tensor, 64)
    assert np.array_equal(out, normal(4, 4))
    refuses(ValueError, "64 bytes; memcpy of 65", npu.memcpy, np.zeros(65, np.uint8), tensor, 65)
    refuses(ValueError, "non-contiguous", npu.memcpy, out, tensor.T, 4)


def test_neighbouring_loops_are_merged() -> None:
    assert collapse((2, 3, 4), (48, 16, 4), (48, 16, 4)) == [Loop(24, (4, 4))]
    assert collapse((2, 3, 4), (48, 16, 4), (100, 16, 4)) == [Loop(2, (48, 100)), Loop(12, (4, 4))]
    assert collapse((1, 3, 1), (9, 8, 7)) == [Loop(3, (8,))]
    assert collapse((), ()) == []


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), False),
        (((0, 1),), False),
        (((0, 2),), True),
        (((4, 9),), False),
        (((3, 9),), True),
        (((8, 2), (4, 2)), False),
        (((7, 2), (4, 2)), True),
        (((4, 3), (10, 2), (100, 5)), True),
        (((100, 5), (12, 8), (4, 3)), False),
    ],
)
def test_runs_that_share_bytes(steps: tuple[tuple[int, int], ...], expected: bool) -> None:
    assert overlaps(4, steps) == expected
    places = [sum(at) for at in itertools.product(*([i * stride for i in range(n)] for stride, n in steps))]
    touched = [place + byte for place in places for byte in range(4)]
    assert (len(set(touched)) < len(touched)) == expected


def test_chunks_cover_every_step_once() -> None:
    loops = [Loop(2, (1000, 0)), Loop(3, (100, 7)), Loop(4, (10, 1))]
    seen = [
        tuple(
            start + i * stride[0] + o * stride[1]
            for start, stride in zip(chunk.offsets, chunk.strides, strict=True)
        )
        for chunk in chunks(loops, 2)
        for i, o in np.ndindex(*chunk.batch)
    ]
    assert sorted(seen) == sorted((1000 * x + 100 * y + 10 * z, 7 * y + z) for x, y, z in np.ndindex(2, 3, 4))


@pytest.mark.parametrize("count", [65536, 65537 * 2, 70001, 200000])
def test_a_loop_too_long_for_a_batch_count_is_split(count: int) -> None:
    batches = [chunk.batch for chunk in chunks([Loop(count, (4,))], 1)]
    assert max(map(max, batches)) <= 65535
    assert sum(inner * outer for inner, outer in batches) == count
