"""What the device does not have, and how it says so."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import echo_npu.torch
from echo_npu.errors import DeviceClosedError, SimulatorError
from echo_npu.torch import NotNativeError, decompositions
from tests.runtime.torch.comparison import DEVICE, assert_native


def test_an_operator_of_the_cpu_is_counted_and_right() -> None:
    x = torch.rand(5)
    assert torch.equal(torch.lgamma(x.to(DEVICE)).cpu(), torch.lgamma(x))
    assert echo_npu.torch.op_counts()["aten::lgamma"] == {"npu": 0, "cpu": 1, "view": 0}
    echo_npu.torch.reset_op_counts()
    assert echo_npu.torch.op_counts() == {}


def test_results_of_several_kinds() -> None:
    x = torch.rand(4, 6)
    y = x.to(DEVICE)
    for found, expected in zip(torch.sort(y, 1), torch.sort(x, 1), strict=True):
        assert torch.equal(found.cpu(), expected)
    assert torch.equal(torch.nonzero(y > 0.5).cpu(), torch.nonzero(x > 0.5))
    assert torch.equal(y.copysign(-2.0).cpu(), x.copysign(-2.0))
    out = torch.empty(0, device=DEVICE)
    assert torch.equal(torch.lgamma(y, out=out).cpu(), torch.lgamma(x))
    assert out.shape == x.shape
    assert torch.equal(y.lgamma_().cpu(), torch.lgamma(x))


def test_a_view_that_the_cpu_makes_is_of_its_own_operand() -> None:
    """Of the second one, which lies beyond the first, and of a row behind its begin."""
    library = torch.library.Library("echo_npu_test", "DEF")
    library.define("row(Tensor other, Tensor(a) x, int index) -> Tensor(a)")
    library.impl("row", lambda _, x, index: x[index], "CPU")
    operands = [torch.arange(each, each + 12.0, device=DEVICE).reshape(3, 4) for each in (0, 20)]
    for other, x in (operands, operands[::-1]):
        with torch.no_grad():
            found = torch.ops.echo_npu_test.row(other, x, 1)
        assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert torch.equal(found.cpu(), x.cpu()[1])
        found.fill_(7.0)
        assert x[1].tolist() == [7.0] * 4
        assert 7.0 not in other[0].tolist()


def test_numbers_are_exact_and_change_no_type() -> None:
    """Beside tensors with and without dimensions, of the number's kind and of others."""
    for dtype in (torch.float64, torch.float16, torch.int16, torch.bool, torch.complex128):
        for shape in ((), (3,)):
            x = torch.full(shape, 3).to(dtype)
            y = x.to(DEVICE)
            for number in (0.1, 2, True):
                for function in (torch.mul, torch.add, torch.true_divide, torch.eq, torch.copysign):
                    if function is torch.copysign and x.is_complex():
                        continue
                    found, expected = function(y, number).cpu(), function(x, number)
                    assert found.dtype == expected.dtype
                    assert torch.equal(found, expected)
    x = torch.ones(2, dtype=torch.float64)
    assert torch.equal(torch.where(x.to(DEVICE) > 2, 0.1, x.to(DEVICE) * 0.3).cpu(), x * 0.3)
    for number in (300, -1, 2**31, 2**40 + 3):
        small = torch.tensor(200, dtype=torch.uint8)
        assert torch.equal((small.to(DEVICE) + number).cpu(), small + number)  # wraps
    assert torch.floor_divide(torch.tensor(7, dtype=torch.int16, device=DEVICE), 2).dtype == torch.int16


def test_an_empty_out_takes_the_shape_of_the_result() -> None:
    x = torch.rand(4, 6)
    y = x.to(DEVICE)
    for function in (torch.sum, torch.exp, torch.logsumexp, torch.softmax, torch.amax):
        given = {"dim": 1} if function is not torch.exp else {}
        out = torch.empty(0, device=DEVICE)
        function(y, **given, out=out)
        torch.testing.assert_close(out.cpu(), function(x, **given))
    out = torch.empty(0, device=DEVICE)
    torch.testing.assert_close(torch.mm(y, y.t(), out=out).cpu(), x @ x.t())
    torch.testing.assert_close(y.logsumexp((0, 1)).cpu(), x.logsumexp((0, 1)))


def test_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(3, device=DEVICE)
    monkeypatch.setenv("ECHO_NPU_FALLBACK", "error")
    with pytest.raises(NotNativeError, match="aten::digamma of float32"):
        x.digamma()
    assert (x + 1).shape == (3,)
    monkeypatch.setenv("ECHO_NPU_FALLBACK", "warn")
    with pytest.warns(UserWarning, match="aten::digamma of float32 runs on the CPU"):
        x.digamma()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.digamma()  # once is enough
    assert echo_npu.torch.op_counts()["aten::digamma"] == {"npu": 0, "cpu": 2, "view": 0}
    monkeypatch.setenv("ECHO_NPU_FALLBACK", "sometimes")
    with pytest.raises(ValueError, match="ECHO_NPU_FALLBACK"):
        x.digamma()


class FailingDecomposition:
    """A decomposition of logaddexp that raises an error until `error` is None."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.whole = decompositions.table()[torch.ops.aten.logaddexp.default]

    def __call__(self, *args: torch.Tensor) -> torch.Tensor:
        if self.error is not None:
            raise self.error
        result: torch.Tensor = self.whole(*args)
        return result


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingDecomposition:
    """Nothing is known of any operator, and the decomposition of logaddexp fails."""
    made = FailingDecomposition(TypeError("a bug"))
    monkeypatch.setattr(decompositions, "_verdicts", {})
    monkeypatch.setattr(decompositions, "_causes", {})
    monkeypatch.setitem(decompositions.table(), torch.ops.aten.logaddexp.default, made)
    return made


def on_the_cpu() -> bool:
    """Return whether logaddexp runs on the CPU now."""
    echo_npu.torch.reset_op_counts()
    x = torch.ones(3, device=DEVICE)
    torch.logaddexp(x, x)
    return bool(echo_npu.torch.op_counts().get("aten::logaddexp", {}).get("cpu"))


@pytest.mark.parametrize("error", [DeviceClosedError("closed"), SimulatorError("gone")], ids=repr)
def test_a_failure_of_the_device_is_no_reason_for_the_cpu(
    failing: FailingDecomposition, error: Exception
) -> None:
    failing.error = error
    with pytest.raises(type(error)):
        on_the_cpu()
    failing.error = None
    assert not on_the_cpu()


def test_too_little_memory_decides_nothing(failing: FailingDecomposition) -> None:
    failing.error = torch.OutOfMemoryError("full")
    assert on_the_cpu()
    failing.error = None
    assert not on_the_cpu()


def test_an_error_of_a_decomposition_is_the_cause_of_the_refusal(
    failing: FailingDecomposition, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "1")
    assert on_the_cpu()
    assert "aten::logaddexp (3,) (3,) float32, after TypeError('a bug')" in capfd.readouterr().err
    monkeypatch.setenv("ECHO_NPU_FALLBACK", "error")
    with pytest.raises(NotNativeError, match="aten::logaddexp of float32") as caught:
        on_the_cpu()
    cause = caught.value.__cause__
    assert cause is failing.error
    assert cause.__traceback__ is None  # its frames would keep their tensors
    assert any(Path(__file__).name in note for note in cause.__notes__)


@pytest.mark.parametrize(
    ("level", "tags"),
    [(0, set()), (1, {"NPU", "CPU"}), (2, {"NPU", "CPU", "COPY"}), (3, {"NPU", "CPU", "COPY", "VIEW"})],
)
def test_debug_levels(
    level: int, tags: set[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", str(level))
    x = torch.rand(3, 3).to(DEVICE)
    (x.t() + x).lgamma().cpu()
    lines = capfd.readouterr().err.splitlines()
    assert {line[1 : line.index("]")] for line in lines if line.startswith("[")} == tags
    if level:
        assert "[CPU] aten::lgamma (3, 3) float32" in lines
        assert "[NPU] aten::add (3, 3) (3, 3) -> (3, 3) float32" in lines


def test_a_report_has_the_operators() -> None:
    x = torch.rand(8, 8, device=DEVICE)
    with echo_npu.torch.profile():
        x @ x
    rows = {line.split()[0]: line.split()[1:] for line in echo_npu.torch.report().splitlines()}
    assert rows["operator"] == ["npu", "cpu", "view", "cycles", "bytes", "ms"]
    assert rows["aten::mm"][:5] == ["1", "0", "0", "0", str(3 * 8 * 8 * 4)]
    assert float(rows["aten::mm"][5]) > 0


def test_decompositions_run_on_the_device() -> None:
    x = torch.randn(4, 5)
    y = x.to(DEVICE)
    echo_npu.torch.reset_op_counts()
    for function in (torch.nn.functional.leaky_relu, torch.nn.functional.hardswish, torch.nn.functional.glu):
        given, expected = (y, x) if function is not torch.nn.functional.glu else (y[:, :4], x[:, :4])
        torch.testing.assert_close(function(given).cpu(), function(expected), rtol=1e-5, atol=1e-6)
    counts = echo_npu.torch.op_counts()
    assert not [name for name, each in counts.items() if each["cpu"]]


def test_a_wrong_call_does_not_decide_for_right_ones() -> None:
    """Whether an operator decomposes is remembered by types and dimensions."""
    x = torch.randn(2, 3, 4, device=DEVICE)
    small = torch.randn(3, 4, device=DEVICE).bfloat16()
    wrong: list[Callable[[], object]] = [
        lambda: x.renorm(2, 5, 1.0),
        lambda: torch.nn.functional.huber_loss(small, small, delta=-1.0),
        lambda: torch.renorm(x.half(), 2, 5, 1.0, out=torch.empty_like(x.half())),
    ]
    right: list[Callable[[], object]] = [
        lambda: x.renorm(2, 1, 1.0),
        lambda: torch.nn.functional.huber_loss(small, small),
        lambda: torch.renorm(x.half(), 2, 1, 1.0, out=torch.empty_like(x.half())),
    ]
    for bad, good in zip(wrong, right, strict=True):
        with pytest.raises((RuntimeError, IndexError)):
            bad()
        echo_npu.torch.reset_op_counts()
        good()
        assert_native()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decompositions_in_place(dtype: torch.dtype) -> None:
    """Also of a part of a tensor, and where another operand is the one that is changed."""
    functions: list[Callable[[torch.Tensor], object]] = [
        torch.nn.functional.leaky_relu_,
        torch.nn.functional.hardtanh_,
        lambda x: torch.nn.functional.relu6(x, inplace=True),
        lambda x: torch.nn.functional.hardswish(x, inplace=True),
        lambda x: torch.nn.functional.hardsigmoid(x, inplace=True),
        lambda x: torch.nn.functional.threshold_(x, 0.0, 1.0),
        lambda x: torch.logaddexp(x, x, out=x),
        lambda x: x.logit_(eps=0.1),
        lambda x: x.heaviside_(x),
    ]
    for function in functions:
        x = torch.randn(4, 6).to(dtype)
        y = x.to(DEVICE)
        version = y._version
        echo_npu.torch.reset_op_counts()
        function(y[:, 1:4])
        assert_native()
        assert y._version > version
        function(x[:, 1:4])
        bound = 1e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(y.cpu(), x, rtol=bound, atol=bound)


def test_decompositions_in_place_refuse_what_the_cpu_does() -> None:
    for device in ("cpu", DEVICE):
        x = torch.randn(1, 4, device=device)
        y = torch.randn(6, device=device)
        with pytest.raises(RuntimeError):
            torch.nn.functional.leaky_relu_(x.expand(3, 4))
        with pytest.raises(RuntimeError):
            x.heaviside_(torch.ones(3, 4, device=device))
        with pytest.raises(RuntimeError):
            y[1:].heaviside_(y[:-1])


def test_what_decomposes_is_known_by_types() -> None:
    """Of float64 an operator runs on the CPU, and still on the device of float32."""
    x = torch.randn(3, 4, device=DEVICE)
    for _ in range(2):
        torch.logaddexp(x, x.double())
        assert echo_npu.torch.op_counts()["aten::logaddexp"]["cpu"]
        echo_npu.torch.reset_op_counts()
        torch.logaddexp(x, x)
        assert_native()
