"""Operators that PyTorch's decomposition tables turn into operators of the device."""

import threading
import traceback
from functools import cache
from typing import Any, Final

import torch

from echo_npu.errors import NpuError
from echo_npu.torch.outputs import functional_overload, settle, shared, tensors_in
from echo_npu.torch.overlaps import overlapping
from echo_npu.torch.strictness import NotNativeError, forbid
from echo_npu.torch.types import FLOATS, SMALL_INTEGERS

_verdicts: Final[dict[tuple[Any, ...], bool]] = {}
_causes: Final[dict[tuple[Any, ...], Exception]] = {}
"""Why the latest decomposition of an operator failed, if it did."""
_thread: Final = threading.local()

# They draw random numbers, by decompositions that are slower than the CPU by orders of magnitude.
_EXCLUDED: Final = frozenset(
    {
        "aten::native_dropout",
        "aten::bernoulli",
        "aten::normal",
        "aten::rrelu_with_noise",
        "aten::rrelu_with_noise_functional",
        "aten::exponential",
        "aten::uniform",
        "aten::_fused_dropout",
    }
)


@cache
def table() -> dict[Any, Any]:
    """Return PyTorch's table of all decompositions."""
    from torch._decomp import decomposition_table

    return dict(decomposition_table)


def decomposed(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator as its decomposition if all its parts are native; else return NotImplemented.

    The first call of an operator with some types decides for all later ones, unless `undecided` says that it
    does not, or device memory was too small. `cause` then says why it is not native.

    Raises:
        NpuError: the device or its simulator failed.
        Exception: what a decomposition raises that worked before.
    """
    schema = op._schema
    outs = [kwargs[each.name] for each in schema.arguments if each.is_out and each.name in kwargs]
    if outs:
        plain = functional_overload(op)
        if plain is None:
            return NotImplemented
        names = [each.name for each in schema.arguments if each.is_out]
        given = tensors_in([*args, *(value for key, value in kwargs.items() if key not in names)])
        # The form in place has its operand as output, which is read before it is written.
        inputs = [each for each in given if not any(each is out for out in outs)]
        if shared(outs, inputs) or any(overlapping(out) for out in outs):
            return NotImplemented  # the CPU may refuse that
        result = decomposed(plain, args, {key: value for key, value in kwargs.items() if key not in names})
        if result is NotImplemented or not settle(op, names, args, kwargs, warned=False):
            return NotImplemented  # the CPU warns, or does not
        for out, value in zip(outs, result if isinstance(result, tuple) else (result,), strict=True):
            out.copy_(value)
        return outs[0] if len(outs) == 1 else tuple(outs)
    if schema.is_mutable:
        return _in_place(op, args, kwargs)
    if schema.name in _EXCLUDED or getattr(_thread, "depth", 0) > 4:
        return NotImplemented
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    if not tensors or not any(each.dtype in FLOATS or each.dtype in SMALL_INTEGERS for each in tensors):
        return NotImplemented
    key = _key(op, args, kwargs)
    verdict = _verdicts.get(key)
    if verdict is False or op not in table():
        return NotImplemented
    _thread.depth = getattr(_thread, "depth", 0) + 1
    forbid(1)
    try:
        result = table()[op](*args, **kwargs)
    except Exception as error:
        out_of_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if isinstance(error, NpuError) and not out_of_memory:
            raise
        if not isinstance(error, NotNativeError) and verdict:
            raise
        if not out_of_memory:
            _verdicts[key] = False
        _causes[key] = _alone(error)
        return NotImplemented
    else:
        _verdicts[key] = True
        _causes.pop(key, None)
        return result
    finally:
        forbid(-1)
        _thread.depth -= 1


def _in_place(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator that changes its first argument alone and returns it; NotImplemented for others."""
    schema = op._schema
    written = [each.is_write for each in schema.arguments]
    if not schema.name.endswith("_") or written != [True, *(False for _ in written[1:])] or len(args) == 0:
        return NotImplemented
    target, plain = args[0], functional_overload(op)
    if plain is None or len(schema.returns) != 1 or not isinstance(target, torch.Tensor):
        return NotImplemented
    others = tensors_in([*args[1:], *kwargs.values()])
    if overlapping(target) or shared([target], [each for each in others if each is not target]):
        return NotImplemented  # the CPU may refuse that
    result = decomposed(plain, args, kwargs)
    if result is NotImplemented or result.shape != target.shape or result.dtype != target.dtype:
        return NotImplemented
    return target.copy_(result)


def _alone(error: Exception) -> Exception:
    """Return an error with its place as text, and without the frames, which would keep tensors alive."""
    frames = traceback.extract_tb(error.__traceback__)
    if frames and not isinstance(error, NotNativeError):
        error.add_note(f"raised at {frames[-1].filename}:{frames[-1].lineno}")
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = link.__context__ = None
        link = link.__cause__
    return error


def cause(op: Any, args: Any, kwargs: dict[str, Any]) -> Exception | None:
    """Return why an operator's decomposition failed when it was last tried; None if it did not.

    NotNativeError: a part of it is not native; its own cause says why, if that is known.
    """
    return _causes.get(_own_key(op, args, kwargs))


def undecided(op: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Let the next call of an operator decide: the CPU refused this one as well."""
    key = _own_key(op, args, kwargs)
    _verdicts.pop(key, None)
    _causes.pop(key, None)


def _own_key(op: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of the operator that is decomposed in place of one that writes its operands."""
    names = {each.name for each in op._schema.arguments if each.is_out}
    plain = functional_overload(op) if op._schema.is_mutable else op
    return _key(plain, args, {name: value for name, value in kwargs.items() if name not in names})


def _key(op: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    return (op, *(each.dtype for each in tensors), *(each.dim() for each in tensors))
