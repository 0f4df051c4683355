"""Products of every type with scales, bias and activation, compared with the definition."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor, Opcode
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Flags, NpuCommandPacket
from echo_npu.ops.types import named_type, type_name
from tests.arrays import elements, normal
from tests.refusals import Error, Words, refuses
from tests.runtime import matmul_definition as definition

LABELS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}
TYPES = list(LABELS)
M, K, N = 5, 7, 6


def bits(values: np.ndarray) -> np.ndarray:
    """Return elements in the form of `definition.result`: unsigned bits, or integers."""
    signed = {1: np.int8, 2: np.uint16, 4: np.int32 if values.dtype == np.int32 else np.uint32}
    return np.ascontiguousarray(values).view(signed[values.dtype.itemsize]).astype(np.int64)


def stored(values: np.ndarray) -> np.ndarray:
    """Return the operand in the form that `definition.result` takes."""
    return values if values.dtype == np.int8 else bits(values)


def expected(a: np.ndarray, b: np.ndarray, name: str, out: str = "fp32", **steps: Any) -> np.ndarray:
    listed = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in steps.items()}
    return definition.result(stored(a), stored(b), LABELS[name], out, **listed)


def commands(npu: Device, monkeypatch: pytest.MonkeyPatch) -> list[NpuCommandPacket]:
    """Collect the commands that are executed from now on."""
    seen: list[NpuCommandPacket] = []
    execute = npu.execute

    def spy(submitted: list[Command], *args: Any) -> None:
        seen.extend(command.packet for command in submitted)
        execute(submitted, *args)

    monkeypatch.setattr(npu, "execute", spy)
    return seen


@pytest.mark.parametrize("name", TYPES)
def test_types_of_operands_and_results(npu: Device, name: str) -> None:
    a, b = elements(name, M, K), elements(name, K, N, seed=1)
    plain = npu.matmul(a, b)
    assert plain.dtype == np.float32
    assert np.array_equal(bits(plain), expected(a, b, name))
    own = npu.matmul(a, b, out_dtype=a.dtype)
    assert own.dtype == a.dtype
    assert np.array_equal(bits(own), expected(a, b, name, "own"))
    by_name = npu.matmul(a, b, out_dtype=name)
    assert type_name(by_name.dtype) == name
    assert np.array_equal(bits(by_name), bits(own))
    if name == "int8":
        sums = npu.matmul(a, b, out_dtype="int32")
        assert sums.dtype == np.int32
        assert np.array_equal(sums, a.astype(np.int32) @ b.astype(np.int32))


def test_bfloat16_of_another_package(npu: Device) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = (elements("bfloat16", *shape) for shape in ((M, K), (K, N)))
    named = [each.view(ml_dtypes.bfloat16) for each in (a, b)]
    assert np.array_equal(npu.matmul(*named), npu.matmul(a, b))
    own = npu.matmul(*named, out_dtype="bfloat16")
    assert own.dtype == ml_dtypes.bfloat16
    assert np.array_equal(bits(own), expected(a, b, "bfloat16", "own"))
    assert npu.matmul(a, b, out_dtype=ml_dtypes.bfloat16).dtype == np.uint16
    assert np.array_equal(npu.matmul(named[0], b), npu.matmul(a, b))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("on_device", [False, True])
def test_every_combination_of_steps(npu: Device, name: str, on_device: bool) -> None:
    a, b = elements(name, M, K), elements(name, K, N, seed=1)
    given: dict[str, Any] = {
        "alpha": 0.01,
        "row_scale": normal(M, seed=2),
        "col_scale": normal(N, seed=3),
        "bias": normal(N, seed=4),
        "activation": "relu",
    }
    for count in range(len(given) + 1):
        for names in itertools.combinations(given, count):
            steps = {key: given[key] for key in names}
            wanted = {key: steps[key] for key in ("row_scale", "bias") if key in steps}
            if "alpha" in steps:
                wanted["alpha"] = float(np.float32(0.01))
            if "col_scale" in steps:
                wanted["column_scale"] = steps["col_scale"]
            wanted["relu"] = "activation" in steps
            if on_device:
                arrays = {key: npu.tensor(v) for key, v in steps.items() if isinstance(v, np.ndarray)}
                steps |= arrays
            for out, out_dtype in (("fp32", None), ("own", name)):
                result = npu.matmul(a, b, out_dtype=out_dtype, **steps)
                assert isinstance(result, DeviceTensor) == bool(on_device and arrays)
                found = result.to_numpy() if isinstance(result, DeviceTensor) else result
                assert np.array_equal(bits(found), expected(a, b, name, out, **wanted)), (names, out)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_activations_of_the_vector_engine(npu: Device, name: str, activation: str) -> None:
    """The product is in float32; the program works on it; then it is rounded once to the operands' type."""
    a, b, bias = elements(name, M, K), elements(name, K, N, seed=1), normal(N, seed=2)
    scale = np.full(M, 0.003 if name == "int8" else 1.0, np.float32)
    options: dict[str, Any] = {"bias": bias, "row_scale": scale}
    before = npu.matmul(a, b, **options)
    approximate = {"approximate": "tanh"} if activation == "gelu_tanh" else {}
    after = getattr(npu, activation.split("_")[0])(before, **approximate)
    result = npu.matmul(a, b, activation=activation, **options)
    assert np.array_equal(bits(result), bits(after))
    own = npu.matmul(a, b, activation=activation, out_dtype=name, **options)
    assert type_name(own.dtype) == name
    wanted = [definition.stored(float(value), LABELS[name]) for value in after.reshape(-1)]
    assert bits(own).reshape(-1).tolist() == wanted


def test_saturated_results_of_a_program(npu: Device) -> None:
    """The program's conversion of float32 to int8 equals the product's: nearest even, saturating, NaN is
    0."""
    a = np.ones((1, 1), np.int8)
    values = np.array([0.5, 1.5, 2.5, 127.4, 127.5, 300, np.inf, np.nan, 1e30, -0.2], np.float32)
    b = np.ones((1, len(values)), np.int8)
    result = npu.matmul(a, b, col_scale=values, activation="silu", out_dtype="int8")
    wanted = [definition.stored(float(v), "int8") for v in npu.silu(values)]
    assert result[0].tolist() == wanted


def test_one_command_for_everything_but_functions(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = npu.tensor(elements("int8", M, K)), npu.tensor(elements("int8", N, K))
    columns, rows = npu.tensor(normal(2, N)), npu.tensor(normal(M))
    out = npu.empty((M, N))
    options: dict[str, Any] = {"trans_b": True, "row_scale": rows, "out": out}
    seen = commands(npu, monkeypatch)
    npu.matmul(a, b, col_scale=columns[0], bias=columns[1], activation="relu", **options)
    assert [packet.opcode for packet in seen] == [Opcode.MATMUL]
    together = out.to_numpy()

    seen.clear()
    scale, bias = npu.tensor(columns[0].to_numpy()), npu.tensor(columns[1].to_numpy())
    npu.matmul(a, b, col_scale=scale, bias=bias, activation="relu", **options)
    assert [packet.opcode for packet in seen] == [Opcode.MEMCPY, Opcode.MEMCPY, Opcode.MATMUL]
    assert np.array_equal(bits(out.to_numpy()), bits(together))

    seen.clear()
    npu.matmul(a, b, col_scale=scale, bias=bias.to_numpy(), activation="relu", **options)
    assert np.array_equal(bits(out.to_numpy()), bits(together))

    seen.clear()
    npu.matmul(a, b, bias=bias, activation="silu", **options)
    assert [packet.opcode for packet in seen] == [Opcode.MATMUL, Opcode.VECTOR]
    seen.clear()
    npu.matmul(a, b, bias=bias, activation="gelu", out_dtype="int8", trans_b=True)
    assert [packet.opcode for packet in seen] == [Opcode.MATMUL, Opcode.VECTOR, Opcode.VECTOR]


def test_vectors_with_gaps_are_packed(npu: Device) -> None:
    a, b = elements("float16", M, K), elements("float16", K, N)
    wide_m, wide_n = npu.tensor(normal(M, 3)), npu.tensor(normal(N, 2))
    result = npu.matmul(a, b, row_scale=wide_m[:, 1], col_scale=wide_n[:, 0], bias=wide_n[:, 1])
    rows, columns = wide_m.to_numpy(), wide_n.to_numpy()
    steps = {"row_scale": rows[:, 1], "column_scale": columns[:, 0], "bias": columns[:, 1]}
    assert np.array_equal(bits(result.to_numpy()), expected(a, b, "float16", **steps))
    result = npu.matmul(a, b, bias=wide_n[:, 1])
    assert np.array_equal(bits(result.to_numpy()), expected(a, b, "float16", bias=columns[:, 1]))


@pytest.mark.parametrize("name", TYPES)
def test_views_batches_and_transposes(npu: Device, name: str) -> None:
    heads, tokens, width = 3, 5, 4
    packed = elements(name, tokens, heads, width)
    other = elements(name, heads, tokens, width, seed=1)
    rows, columns = normal(tokens, seed=2), normal(tokens, seed=3)
    left, right = npu.tensor(packed), npu.tensor(other)
    result = npu.matmul(left.swapaxes(0, 1), right, trans_b=True, row_scale=rows, bias=columns)
    for head in range(heads):
        wanted = expected(packed[:, head], other[head].T, name, row_scale=rows, bias=columns)
        assert np.array_equal(bits(result.to_numpy()[head]), wanted)
    # into a window of a wider result, of the own type
    wide = npu.empty((tokens, 2 * width), named_type(name))
    npu.matmul(left[:, 0], right[0][:width], trans_b=True, out=wide[:, width:])
    wanted = expected(packed[:, 0], other[0][:width].T, name, "own")
    assert np.array_equal(bits(wide.to_numpy()[:, width:]), wanted)
    # and a function's result into a window, which is computed elsewhere
    whole = npu.empty((tokens, 2 * width))
    npu.matmul(left[:, 0], right[0][:width], trans_b=True, activation="silu", out=whole[:, :width])
    direct = npu.matmul(left[:, 0], right[0][:width], trans_b=True, activation="silu")
    assert np.array_equal(bits(whole.to_numpy()[:, :width]), bits(direct.to_numpy()))


@pytest.mark.parametrize("name", TYPES)
def test_windows_at_any_element(npu: Device, name: str) -> None:
    """Operands and results that begin and step at odd elements of larger matrices."""
    a, b, c = elements(name, M + 2, K + 2), elements(name, K + 4, N + 3), elements(name, M + 1, N + 5)
    left, right, out = npu.tensor(a), npu.tensor(b), npu.tensor(c)
    npu.matmul(left[1:-1, 1:-1], right[3:-1, 1:-2], out=out[1:, 3:-2])
    c[1:, 3:-2] = 0
    found = out.to_numpy()
    wanted = expected(a[1:-1, 1:-1], b[3:-1, 1:-2], name, "own")
    assert np.array_equal(bits(found[1:, 3:-2]), wanted)
    found[1:, 3:-2] = 0
    assert np.array_equal(found, c), "around the window nothing changes"


@pytest.mark.parametrize("name", TYPES)
def test_vectors_as_operands(npu: Device, name: str) -> None:
    v, b, w = elements(name, K), elements(name, K, N), elements(name, K, seed=9)
    one, many = normal(1), normal(N)
    result = npu.matmul(v, b, row_scale=one, col_scale=many, activation="relu")
    steps = {"row_scale": one, "column_scale": many, "relu": True}
    assert np.array_equal(bits(result), expected(v[None], b, name, **steps)[0])
    result = npu.matmul(b.T, v, row_scale=many, bias=one)
    assert np.array_equal(bits(result), expected(b.T, v[:, None], name, row_scale=many, bias=one)[:, 0])
    result = npu.matmul(v, w, bias=one, activation="gelu")
    assert result.shape == ()
    assert np.array_equal(bits(result), bits(npu.gelu(npu.matmul(v, w, bias=one))))


def test_out_says_the_type(npu: Device) -> None:
    a, b = elements("int8", M, K), elements("int8", K, N)
    for dtype in (np.float32, np.int8, np.int32):
        out = npu.empty((M, N), dtype)
        assert npu.matmul(a, b, out=out) is out
        assert np.array_equal(out.to_numpy(), npu.matmul(a, b, out_dtype=dtype))
    with pytest.raises(TypeError, match=r"out is int32.*result is float32"):
        npu.matmul(a, b, out=npu.empty((M, N), np.int32), out_dtype="float32")


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "words"),
    [
        ("float16", "float32", {}, TypeError, ["a is ndarray of float16", "b is ndarray of float32"]),
        ("uint16", "float16", {}, TypeError, ["a is ndarray of uint16", "b is ndarray of float16"]),
        ("float32", "float16", {"out_dtype": "float16"}, TypeError, ["out_dtype is float16", "be float32"]),
        ("int8", "uint8", {}, TypeError, ["a is ndarray of int8", "b is ndarray of uint8"]),
        ("float64", "float64", {}, TypeError, ["float64", "float32, float16, bfloat16"]),
        ("float16", "float16", {"out_dtype": "int32"}, TypeError, ["is int32", "float32 or float16"]),
        ("float32", "float32", {"out_dtype": "float16"}, TypeError, ["out_dtype is float16", "float32"]),
        ("uint16", "uint16", {"out_dtype": "int8"}, TypeError, ["out_dtype is int8", "float32 or bfloat16"]),
        ("int8", "int8", {"out_dtype": "int16"}, TypeError, ["is int16", "float32 or int8 or int32"]),
        ("int8", "int8", {"out_dtype": "int32", "alpha": 2.0}, TypeError, ["out_dtype is int32", "alpha"]),
        ("int8", "int8", {"out_dtype": "int32", "activation": "relu"}, TypeError, ["int32 without alpha"]),
        ("int8", "int8", {"bias": np.ones(N)}, TypeError, ["bias", "float32", "ndarray of float64"]),
        ("int8", "int8", {"row_scale": 2.0}, TypeError, ["row_scale", "float"]),
        ("int8", "int8", {"bias": normal(M)}, ValueError, ["bias has shape (5,)", "(6,)", "(5, 7)"]),
        ("int8", "int8", {"col_scale": normal(1)}, ValueError, ["col_scale has shape (1,)", "(6,)"]),
        ("int8", "int8", {"row_scale": normal(N)}, ValueError, ["row_scale has shape (6,)", "(5,)"]),
        ("int8", "int8", {"activation": "tanh"}, ValueError, ["activation is 'tanh'", "relu, silu, gelu"]),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_named(
    npu: Device, a: str, b: str, options: dict[str, Any], error: Error, words: Words
) -> None:
    refuses(error, words, npu.matmul, np.ones((M, K), a), np.ones((K, N), b), **options)


def test_a_type_that_the_device_does_not_have(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    few = dataclasses.replace(npu.capabilities, data_types=("fp32", "fp16"))
    monkeypatch.setattr(npu, "capabilities", few)
    with pytest.raises(TypeError, match=r"a is ndarray of int8.*fp32, fp16"):
        npu.matmul(elements("int8", M, K), elements("int8", K, N))


def test_float32_by_float16(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command, with the bits of the product by the widened operand; batches, vectors and steps too."""
    a, b = normal(2, M, K), elements("float16", 2, K, N)
    steps: dict[str, Any] = {"alpha": 0.3, "bias": normal(N), "row_scale": normal(M, seed=2)}
    wide = b.astype(np.float32)
    for left, right, exact, options in (
        (a, b, wide, {}),
        (a[0], b, wide, {**steps, "activation": "relu"}),
        (a.swapaxes(-1, -2), b, wide, {"trans_a": True}),
        (a, b.swapaxes(-1, -2), wide.swapaxes(-1, -2), {"trans_b": True}),
        (a[0, 0], b, wide, {}),
        (a[0], b[0, :, 0], wide[0, :, 0], {}),
    ):
        seen = commands(npu, monkeypatch)
        found = npu.matmul(left, right, **options)
        assert [bool(each.flags & Flags.HALF_B) for each in seen if each.opcode == Opcode.MATMUL] == [True]
        assert found.dtype == np.float32
        assert np.array_equal(bits(found), bits(npu.matmul(left, exact, **options)))


def test_float16_rows_with_gaps(npu: Device) -> None:
    """A part of a float16 tensor on the device, such as a head of a cache, is read where it is."""
    a, cache = normal(3, M, K), elements("float16", 9, 3, K)
    part = npu.tensor(cache)[2:8].transpose(1, 0, 2)
    found = npu.matmul(npu.tensor(a), part, trans_b=True).to_numpy()
    exact = cache[2:8].transpose(1, 0, 2).astype(np.float32)
    assert np.array_equal(bits(found), bits(npu.matmul(a, exact, trans_b=True)))


def test_a_device_without_float16_beside_float32(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "capabilities", dataclasses.replace(npu.capabilities, half_b=False))
    with pytest.raises(
        TypeError, match=r"b is ndarray of float16; the device multiplies operands of one type"
    ):
        npu.matmul(normal(M, K), elements("float16", K, N))
