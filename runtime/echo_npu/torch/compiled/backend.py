"""The backend "echo_npu" of torch.compile."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._dynamo import trace_rules

from echo_npu.torch.compiled.attention import keep_attention
from echo_npu.torch.compiled.division import STEPS
from echo_npu.torch.compiled.fusion import fuse
from echo_npu.torch.compiled.graph import CompiledGraph
from echo_npu.torch.compiled.reporting import forget, remember

for _package in ("echo_npu", "echo_sim"):
    trace_rules.add(_package)  # what runs between graphs runs the device's own code, which is not compiled

OPTIONS: Final = {"fuse": True}
"""The options, with their defaults."""


def compile_graph(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo, forward and backward: what `torch.compile(backend="echo_npu")` calls.

    Args:
        options: "fuse" (True): whether chains of operators become programs of their own. Without, results
            are those of the operators one by one, to the bit.

    Raises:
        TypeError: an option that is not one of these.
    """
    from torch._dynamo.backends.common import aot_autograd

    chosen = {**OPTIONS, **(options or {})}
    for name, value in chosen.items():
        if name not in OPTIONS or not isinstance(value, bool):
            known = ", ".join(f"{each} (bool)" for each in OPTIONS)
            raise TypeError(f"option {name}={value!r} of backend echo_npu; there are: {known}")

    def compiler(kind: str) -> Callable[[fx.GraphModule, Sequence[Any]], Any]:
        def made(graph: fx.GraphModule, examples: Sequence[Any]) -> Any:
            count = fuse(graph) if chosen["fuse"] else 0
            compiled = remember(CompiledGraph(kind, graph, count))

            def boxed(inputs: list[Any]) -> list[Any]:
                given = tuple(inputs)
                inputs.clear()
                return compiled(*given)

            boxed._boxed_call = True  # type: ignore[attr-defined]
            return boxed

        return made

    if not torch.is_grad_enabled() and any(node.target in STEPS for node in module.graph.nodes):
        # A step of an optimizer is recorded as it is: a function without effects would have to copy its
        # results to the parameters.
        return remember(CompiledGraph("step", module, in_place=True))
    keep_attention(module)
    result: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        keep_inference_input_mutations=True,
    )(module, inputs)
    return result


compile_graph.reset = forget  # type: ignore[attr-defined]
