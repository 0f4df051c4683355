"""Operators that PyTorch's decomposition tables turn into operators of the device."""

import threading
from typing import Any, Final

import torch

from echo_npu.errors import NpuDeviceError
from echo_npu.torch.outputs import functional_overload, settle, shared, tensors_in
from echo_npu.torch.overlaps import overlapping
from echo_npu.torch.strictness import NotNativeError, forbid
from echo_npu.torch.types import FLOATS, SMALL_INTEGERS

_verdicts: Final[dict[tuple[Any, ...], bool]] = {}
_table: dict[Any, Any] | None = None
_thread = threading.local()

# They draw random numbers, or their decompositions are slower than the CPU by orders of magnitude.
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
        "aten::empty_like",
        "aten::nonzero_static",
    }
)


def table() -> dict[Any, Any]:
    """Return PyTorch's table of all decompositions."""
    global _table
    if _table is None:
        from torch._decomp import decomposition_table

        _table = dict(decomposition_table)
    return _table


def decomposed(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator as its decomposition if all its parts are native; else return NotImplemented.

    The first call of an operator with some types decides for all later ones, unless `undecided` says that it
    does not.

    Raises:
        NpuDeviceError: an earlier command failed.
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
        _verdicts[key] = True
        return result
    except NpuDeviceError:
        raise
    except Exception as error:
        if not isinstance(error, NotNativeError) and verdict:
            raise
        _verdicts[key] = False
        return NotImplemented
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


def undecided(op: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Let the next call of an operator decide: the CPU refused this one as well."""
    names = {each.name for each in op._schema.arguments if each.is_out}
    plain = functional_overload(op) if op._schema.is_mutable else op
    given = {name: value for name, value in kwargs.items() if name not in names}
    _verdicts.pop(_key(plain, args, given), None)


def _key(op: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    return (op, *(each.dtype for each in tensors), *(each.dim() for each in tensors))
