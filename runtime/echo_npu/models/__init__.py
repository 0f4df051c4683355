"""Neural networks on the NPU: a llama-style decoder layer, a stack of them, LeNet-5.

from echo_npu.models import run_model, tiny_layer
with echo_npu.open("rtlmodel") as npu, echo_npu.open("cmodel") as twin:
    run = run_model(tiny_layer(), npu, twin)
assert run.passed
"""

from echo_npu.models.digits import Digits, load_digits
from echo_npu.models.layer_types import LayerCase, LayerConfig, LayerWeights, StackCase
from echo_npu.models.lenet import LeNet
from echo_npu.models.lenet_training import train
from echo_npu.models.lenet_weights import LeNetWeights
from echo_npu.models.model import Model, Outcome, run_model
from echo_npu.models.records import Check, ModelRun, OpRecord
from echo_npu.models.smollm2 import smollm2_layer, smollm2_stack
from echo_npu.models.stack import Stack, tiny_stack
from echo_npu.models.transformer import Transformer, tiny_layer

__all__ = [
    "Check",
    "Digits",
    "LayerCase",
    "LayerConfig",
    "LayerWeights",
    "LeNet",
    "LeNetWeights",
    "Model",
    "ModelRun",
    "OpRecord",
    "Outcome",
    "Stack",
    "StackCase",
    "Transformer",
    "load_digits",
    "run_model",
    "smollm2_layer",
    "smollm2_stack",
    "tiny_layer",
    "tiny_stack",
    "train",
]
