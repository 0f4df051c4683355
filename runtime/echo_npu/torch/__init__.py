"""The PyTorch device "echo_npu": `model.to("echo_npu")` runs a model on the NPU.

`import torch` registers the device; `import echo_npu.torch` does too. docs/pytorch.md has the rest.
"""

from echo_npu.devices import configure
from echo_npu.torch.compiled.reporting import compile_report, compiled_graphs, graph_breaks
from echo_npu.torch.counting import op_counts, reset_op_counts
from echo_npu.torch.placement import MixedDevicesError
from echo_npu.torch.registration import register
from echo_npu.torch.reporting import device, profile, report
from echo_npu.torch.strictness import NotNativeError

register()

__all__ = [
    "MixedDevicesError",
    "NotNativeError",
    "compile_report",
    "compiled_graphs",
    "configure",
    "device",
    "graph_breaks",
    "op_counts",
    "profile",
    "report",
    "reset_op_counts",
]
