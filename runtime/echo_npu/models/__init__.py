"""Neural network layers on the NPU: a llama-style decoder layer, small and random or large and real.

from echo_npu.models import run_layer, tiny_layer
with echo_npu.open("rtlmodel") as npu, echo_npu.open("cmodel") as twin:
    run = run_layer(tiny_layer(), npu, twin)
assert run.passed
"""

from echo_npu.models.layer_types import LayerCase, LayerConfig, LayerWeights
from echo_npu.models.records import LayerRun, OpRecord
from echo_npu.models.runner import run_layer
from echo_npu.models.smollm2 import smollm2_layer
from echo_npu.models.transformer import tiny_layer

__all__ = [
    "LayerCase",
    "LayerConfig",
    "LayerRun",
    "LayerWeights",
    "OpRecord",
    "run_layer",
    "smollm2_layer",
    "tiny_layer",
]
