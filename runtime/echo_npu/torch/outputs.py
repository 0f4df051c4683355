"""Tensors that the caller of an operator gives for its results, as `torch.exp(x, out=y)` does.

PyTorch's own shape functions, run on tensors without memory, say what shape and type the results have.
"""

import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import torch

from echo_npu.torch.storages import dense

_MOST: Final = 1 << 14
"""Calls that are remembered."""

_fitting: Final[set[tuple[Any, ...]]] = set()
"""Calls whose outputs have shape and type of the results already."""


def settle(
    op: Any, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any], *, warned: bool = True
) -> bool:
    """Give the outputs of a call the shape of its results.

    Args:
        op: an operator with outputs.
        names: of these, among `kwargs`.
        warned: whether outputs that have elements get another shape as well, with the warning.

    Returns:
        Whether the outputs are what the results can be written to as they are. If not, nothing has changed:
        they may be of another type or be wrong, which the operator of the CPU knows.
    """
    key = (op, *_described(op, args, kwargs))
    if key in _fitting:
        return True
    plain = functional_overload(op)
    if plain is None:
        return True  # a constructor, which gives its output a shape itself
    outs = [kwargs[name] for name in names]
    inputs = [*args, *(value for name, value in kwargs.items() if name not in names)]
    others = {name: _without_memory(value) for name, value in kwargs.items() if name not in names}
    try:
        made = plain(*map(_without_memory, args), **others)
    except Exception:  # the operator itself says what is wrong
        return False
    results = made if isinstance(made, tuple) else (made,)
    if any(out.dtype != each.dtype for out, each in zip(outs, results, strict=True)):
        return False
    wrong = [(out, each) for out, each in zip(outs, results, strict=True) if out.shape != each.shape]
    if wrong and (shared(outs, inputs) or (not warned and any(out.numel() for out, _ in wrong))):
        return False
    for out, result in wrong:
        resize(out, result)
    if len(_fitting) >= _MOST:
        _fitting.clear()
    _fitting.add((op, *_described(op, args, kwargs)))
    return True


def resize(target: torch.Tensor, result: torch.Tensor) -> None:
    """Give a tensor the shape of a result, and its order of memory. Warn if it has elements."""
    if target.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape {list(result.shape)}. "
            "This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless "
            "they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to "
            "zero elements with t.resize_(0).",
            stacklevel=4,
        )
    target.resize_(result.shape)
    if dense(result) and target.stride() != result.stride():
        target.as_strided_(result.shape, result.stride())


@cache
def functional_overload(op: Any) -> Any:
    """Return the operator with these arguments, but no `out`, that changes none; None if there is none."""
    name = op._schema.name.removeprefix("aten::")
    outputs = any(each.is_out for each in op._schema.arguments)
    packet = getattr(torch.ops.aten, name if outputs else name.removesuffix("_"), None)
    if packet is None:
        return None
    wanted = [(each.name, str(each.type)) for each in op._schema.arguments if not each.is_out]
    for name in packet.overloads():
        found = getattr(packet, name)
        given = [(each.name, str(each.type)) for each in found._schema.arguments]
        if given == wanted and not found._schema.is_mutable:
            return found
    return None


def shared(outs: Sequence[torch.Tensor], inputs: Sequence[Any]) -> bool:
    """Return whether an output lies in the storage of another one or of an input."""
    found = tensors_in(inputs)
    places = [each.untyped_storage().data_ptr() for each in (*outs, *found) if each.numel()]
    return any(places.count(each.untyped_storage().data_ptr()) > 1 for each in outs)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors among values and in lists of them."""
    found: list[torch.Tensor] = []
    for each in values:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += tensors_in(each)
    return found


def _without_memory(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return [_without_memory(each) for each in value] if isinstance(value, (list, tuple)) else value


def _described(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return what the shape and the type of the results follow from."""
    found: list[Any] = []
    exact, named = _exact(op)
    for known, value in zip(exact, args, strict=False):
        _describe(value, known, found)
    for name, value in kwargs.items():
        _describe(value, named[name], found)
    return found


def _describe(value: Any, exact: bool, found: list[Any]) -> None:
    if isinstance(value, torch.Tensor):
        found += (value.dtype, value.shape)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _describe(each, exact, found)
        found.append(len(value))
    else:
        found.append(value if exact else type(value))


@cache
def _exact(op: Any) -> tuple[tuple[bool, ...], dict[str, bool]]:
    """Return for each argument whether its value decides: it is no number that the operator computes with."""
    each = {each.name: str(each.type) not in _NUMBERS for each in op._schema.arguments}
    return tuple(each.values()), each


_NUMBERS: Final = frozenset(
    ("Tensor", "Optional[Tensor]", "number", "Optional[number]", "float", "Optional[float]")
)
