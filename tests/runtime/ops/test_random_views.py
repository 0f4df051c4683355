"""Every operation compared with numpy on random views: any strides, offsets, overlapping operands."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
import echo_npu.ops
from echo_npu import Device, DeviceTensor
from echo_npu.ops.methods import OpMethods
from echo_npu.spec.status import State
from echo_sim.numerals import choose_seed
from tests.refusals import refuses
from tests.runtime.ops.every_operation import EVERY, ROUNDINGS, OperationTrial
from tests.runtime.ops.random_views import Draw, View

FIRST = choose_seed(1)
TRIALS = 12
SEEDS = range(FIRST, FIRST + TRIALS)


@pytest.fixture(autouse=True)
def _works_again(npu: Device) -> Iterator[None]:
    """Clear the error of a device that a trial left in state ERROR."""
    yield
    if npu.status().state == State.ERROR:
        npu.clear_error()


def arrays(results: Any) -> list[Any]:
    """Return every result as a numpy array."""
    listed = results if isinstance(results, tuple) else (results,)
    return [each.to_numpy() if isinstance(each, DeviceTensor) else np.asarray(each) for each in listed]


def same_bits(ours: Any, theirs: Any) -> bool:
    return (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype) and ours.tobytes() == theirs.tobytes()


def judge(trial: OperationTrial, results: list[Any]) -> None:
    """Compare results with numpy's."""
    given = [view.numpy() for view in trial.views]
    with np.errstate(all="ignore"):
        truths = trial.truth(*given)
        allowed = None if trial.scale is None else trial.scale(*given)
    for result, truth in zip(results, truths if isinstance(truths, tuple) else (truths,), strict=True):
        assert result.shape == np.shape(truth)
        if allowed is None:
            assert result.dtype == truth.dtype
            assert np.array_equal(result, truth, equal_nan=truth.dtype.kind == "f")
            continue
        bound = ROUNDINGS * np.broadcast_to(allowed, result.shape)
        finite = np.isfinite(truth) & (np.abs(truth) < 3.4e38)
        assert np.array_equal(np.isnan(result), np.isnan(truth))
        assert np.all(np.abs(result[finite] - truth[finite]) <= bound[finite])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EVERY)
def test_against_numpy(npu: Device, name: str, seed: int) -> None:
    """Replay: SEED=<seed> python -m pytest tests/runtime/ops/test_random_views.py -k "<name>-<seed>"."""
    draw = Draw(f"{name} {seed}")
    trial = EVERY[name](draw)
    out = None if trial.out is None else _out(draw, trial)
    tensors = [view.on(npu) for view in trial.views]
    if not trial.offered(npu):
        with pytest.raises(TypeError, match="of the device"):
            trial.call(npu, *tensors)
        return
    results = arrays(trial.call(npu, *tensors))
    judge(trial, results)
    dense = [view.numpy() for view in trial.views]
    if trial.stable:
        for ours, theirs in zip(results, arrays(trial.call(npu, *dense)), strict=True):
            assert same_bits(ours, theirs)
    if out is not None:
        written = out.on(npu)
        before = out.buffer.on(npu).to_numpy()
        assert trial.call(npu, *tensors, out=written) is written
        after = out.buffer.on(npu).to_numpy()
        assert same_bits(np.array(out.of(after)), results[0])
        out.of(after)[...] = out.of(before)
        assert same_bits(after, before), "bytes beside out were written"


def _out(draw: Draw, trial: OperationTrial) -> View:
    """Draw the place of the result: among the operands, or in its own buffer if it may not overlap them."""
    assert trial.out is not None
    shape, dtype = trial.out

    def zeros(rng: np.random.Generator, count: int) -> Any:
        return rng.integers(0, 2, count)

    known = {view.buffer.values.dtype: view.buffer for view in trial.views}
    meets = trial.meets and np.dtype(dtype) in known and draw.random.random() < 0.5
    if not meets:
        return draw.view(shape, dtype, zeros, own=True, dense=trial.out_dense)
    return draw.among(known[np.dtype(dtype)], shape, dense=trial.out_dense)


@pytest.mark.parametrize("name", [name for name, make in EVERY.items() if make(Draw(f"{name} 1")).out])
def test_an_out_of_another_device_is_refused(npu: Device, name: str) -> None:
    """Its address is that of other memory here, which would be overwritten."""
    trial = EVERY[name](Draw(f"{name} 1"))
    assert trial.out is not None
    tensors = [view.on(npu) for view in trial.views]
    with echo_npu.open("cmodel") as other:
        out = other.empty(*trial.out)
        refuses(ValueError, "belongs to another device", trial.call, npu, *tensors, out=out)


def test_every_operation_has_its_trial() -> None:
    """Every operation of the package has a trial: methods of Device, and classes that are called."""
    methods = {name for name in vars(OpMethods) if not name.startswith("_")}
    classes = {
        name
        for module in pkgutil.iter_modules(echo_npu.ops.__path__)
        for name, each in vars(importlib.import_module(f"echo_npu.ops.{module.name}")).items()
        if inspect.isclass(each) and each.__module__.startswith("echo_npu.ops.") and "__call__" in vars(each)
    }
    assert methods | classes == set(EVERY)


def test_the_comparison_sees_a_wrong_element(npu: Device) -> None:
    trial = EVERY["neg"](Draw("neg 1"))
    results = arrays(trial.call(npu, *(view.on(npu) for view in trial.views)))
    results[0].flat[-1] += 1
    with pytest.raises(AssertionError):
        judge(trial, results)
