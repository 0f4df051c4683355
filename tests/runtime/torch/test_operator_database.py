"""The comparison with PyTorch's operator database that `make bench-torch` prints, on a few operators."""

import pytest
import torch

from benchmarks import torch_database
from benchmarks.torch_database import DatabaseFigures

# PyTorch's module of samples can do with a package that its tests use.
pytestmark = pytest.mark.filterwarnings("ignore:Fail to import hypothesis:ImportWarning")


def measured(only: str, most: int | None = 3, dtype: torch.dtype = torch.float32) -> DatabaseFigures:
    return torch_database.measure(dtype, most, only, lambda _: None)


def test_native_operators_count_as_such() -> None:
    figures = measured("mul", most=None)
    assert figures.samples == figures.native > 3
    assert not figures.failed
    assert not figures.on_cpu


def test_operators_of_the_cpu_are_named() -> None:
    figures = measured("sort")
    assert figures.samples == 3
    assert figures.native < 3
    assert any("sort" in name for name in figures.on_cpu)


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        """Adds 1 on the device only."""

        name = "wrong"

        @staticmethod
        def sample_inputs(*_: object, **__: object) -> list[object]:
            from torch.testing._internal.common_methods_invocations import SampleInput

            return [SampleInput(torch.ones(3))]

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + (x.device.type == torch_database.DEVICE)

    monkeypatch.setattr(
        torch_database, "operators", lambda *_: iter([("wrong", Wrong()), ("empty", Wrong())])
    )
    figures = measured("")
    assert list(figures.failed) == ["wrong", "empty"]
    assert figures.wrong == ["wrong"]  # the other one is explained
    lines = "\n".join(torch_database.table({"float32": figures}))
    assert "| float32 | 2 | 100.0% |" in lines
    assert "| `wrong` | float32, WRONG: Tensor-likes are not" in lines
    assert "| `empty` | float32 | uninitialised |" in lines


def test_samples_keep_their_strides_and_what_lies_behind_them() -> None:
    base = torch.arange(24.0).view(4, 6)
    part = base.t()[1:3, ::2]
    one, (other, conjugate) = torch_database.moved(
        (part, [part, torch.tensor([1j]).conj()]), torch_database.DEVICE
    )
    assert one.device.type == other.device.type == conjugate.device.type == torch_database.DEVICE
    assert (one.stride(), one.storage_offset()) == (part.stride(), part.storage_offset())
    assert torch.equal(one.cpu(), part)
    assert torch.equal(one.as_strided((24,), (1,), 0).cpu(), base.flatten())
    assert conjugate.cpu().tolist() == [-1j]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_results_are_compared_within_their_tolerance(dtype: torch.dtype) -> None:
    expected = [torch.full((2,), 1000, dtype=dtype), (torch.zeros(1, dtype=dtype),)]
    torch_database.compare(expected, expected, dtype)
    with pytest.raises(AssertionError):
        torch_database.compare([torch.full((2,), 1002, dtype=dtype), expected[1]], expected, dtype)
    with pytest.raises(ValueError, match="longer"):
        torch_database.compare(expected[:1], expected, dtype)
