"""How the optimizers of PyTorch use the fused steps of the device, whatever they are asked for.

Adam, AdamW and SGD choose between a loop over parameters (`foreach=False`), operators on lists of them
(`foreach=True`) and fused steps (`fused=True`). For parameters of the device all three are the fused
steps. The averages of Adam lie next to each other, so that one command updates both, and its count of
steps stays on the CPU, `capturable` or not, so that a step does not wait for the device.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.optim import adam, sgd

from echo_npu.torch.ops.optimizers import DTYPES
from echo_npu.torch.storages import tensor_on

_AVERAGES: Final = ("exp_avg", "exp_avg_sq")
_NOT_FUSED: Final = ("differentiable", "has_sparse_grad", "grad_scale", "found_inf")
"""Options with which the steps of PyTorch are taken."""

_STEPS: Final = 5
"""Where the counts of steps are among the lists of Adam; those of SGD end before."""


def apply(library: torch.library.Library) -> None:
    """Patch the optimizers of PyTorch, and let the compiler know all overloads of the fused steps.

    Args:
        library: takes kernels of `aten`.
    """
    for module, name in ((adam, "adam"), (sgd, "sgd")):
        fused = _unscaled(getattr(module, f"_fused_{name}"))
        setattr(module, f"_fused_{name}", fused)
        for kind in ("single", "multi"):
            place = f"_{kind}_tensor_{name}"
            setattr(module, place, _fused_if_possible(getattr(module, place), fused))
    adam.Adam._init_group = _prepared(adam.Adam._init_group)  # type: ignore[method-assign]
    for name in ("_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adam_.tensor_lr", "_fused_adamw_.tensor_lr"):
        library.impl(name, lambda *lists, **options: None, "Meta")


def _unscaled(plain: Callable[..., None]) -> Callable[..., None]:
    """Return the fused step that takes scaled gradients of devices, as `GradScaler` gives them.

    For parameters of a device it also raises their version counters, as any change in place does.
    """

    @functools.wraps(plain)
    def step(params: list[Any], grads: list[Any], *lists: Any, **options: Any) -> None:
        ours = [each for each in params if each.device.type == "echo_npu"]
        found_inf, scale = options["found_inf"], options["grad_scale"]
        if ours and found_inf is not None:
            if found_inf.item():
                return
            if scale is not None:
                for device in dict.fromkeys(each.device for each in grads):
                    torch._foreach_div_([each for each in grads if each.device == device], scale.to(device))
            options.update(found_inf=None, grad_scale=None)
        plain(params, grads, *lists, **options)
        if ours and not torch.compiler.is_compiling():
            # Autograd must know that a tensor it saved has changed; the fused operators do not say so.
            # A compiled step does the same behind its graph.
            torch.autograd.graph.increment_version(ours)

    return step


def _fused_if_possible(plain: Callable[..., None], fused: Callable[..., None]) -> Callable[..., None]:
    """Return the function that takes a fused step, or the plain one where there is none."""

    @functools.wraps(plain)
    def step(*lists: Any, **options: Any) -> None:
        (fused if _possible(lists, options) else plain)(*lists, **options)

    return step


def _possible(lists: Sequence[Sequence[Any]], options: Mapping[str, Any]) -> bool:
    """Return whether the fused steps of the device compute what is asked for.

    Args:
        lists: parameters, gradients, and the state of each parameter.
    """
    if torch.is_grad_enabled() or any(options.get(name) for name in _NOT_FUSED):
        return False
    if any(isinstance(options.get(name), torch.Tensor) for name in ("beta1", "beta2")):
        return False
    params, *states = lists[:_STEPS]
    if not options.get("momentum", 1):
        states = states[:1]  # the gradients
    present = [[each for each in state if each is not None] for state in states]
    if any(state and len(state) < len(params) for state in present):
        return False
    if any(each.device.type != "echo_npu" or each.dtype not in DTYPES for each in params):
        return False
    return len(params) > 0 and all(
        each.device == param.device and each.dtype == param.dtype
        for state in present
        for param, each in zip(params, state, strict=False)
    )


def _prepared(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return Adam's `_init_group` for state that lies as the fused step wants it."""

    @functools.wraps(plain)
    def init_group(self: Any, group: dict[str, Any], *lists: Any, **others: Any) -> Any:
        betas = any(isinstance(each, torch.Tensor) for each in group["betas"])
        if not betas and not any(group.get(name) for name in _NOT_FUSED):
            _prepare(self.state, group["params"], amsgrad=group["amsgrad"])
        return plain(self, group, *lists, **others)

    return init_group


def _prepare(state: Any, params: Iterable[torch.Tensor], *, amsgrad: bool) -> None:
    """Make the state of parameters that have a gradient, or put what there is in place."""
    for param in params:
        if param.grad is None or param.device.type != "echo_npu" or param.dtype not in DTYPES:
            continue
        own = state[param]
        if not own:
            own["step"] = torch.zeros((), device="cpu")
            own.update(zip(_AVERAGES, _side_by_side(param), strict=True))
            if amsgrad:
                own["max_exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            continue
        if not own.keys() >= {"step", *_AVERAGES}:
            continue  # state of a subclass
        step, *averages = (own[name] for name in ("step", *_AVERAGES))
        if isinstance(step, torch.Tensor) and not step.is_cpu:
            own["step"] = step.cpu()
        storages = {each.untyped_storage().data_ptr() for each in averages}
        if len(storages) == 2 and all(each.dtype == param.dtype for each in averages):
            for name, new, old in zip(_AVERAGES, _side_by_side(param), averages, strict=True):
                own[name] = new.copy_(old)


def _side_by_side(param: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors of zeros like `param` in one storage."""
    count = param.numel()
    storage = torch.zeros(2 * count, dtype=param.dtype, device=param.device).untyped_storage()
    strides = torch.empty_like(param, device="meta").stride()
    first, second = (tensor_on(storage, place, param.shape, strides, param.dtype) for place in (0, count))
    return first, second
