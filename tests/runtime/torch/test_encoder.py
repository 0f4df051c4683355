"""Encoders in inference take PyTorch's fast path: on the device, with the results of the CPU."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

import echo_npu.torch

DEVICE = "echo_npu"
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
MASKS: dict[str, dict[str, torch.Tensor]] = {
    "none": {},
    "padding": {"src_key_padding_mask": PADDING},
    "causal": {"src_mask": CAUSAL},
    "both": {"src_key_padding_mask": PADDING, "src_mask": CAUSAL},
}


def compared(
    module: nn.Module, x: torch.Tensor, given: dict[str, torch.Tensor], **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the results of the CPU and of the device, which must have computed all of it."""
    on_device = copy.deepcopy(module).to(DEVICE)
    with torch.no_grad():
        expected = module(x, **given, **options)
        echo_npu.torch.reset_op_counts()
        made = on_device(x.to(DEVICE), **{name: each.to(DEVICE) for name, each in given.items()}, **options)
    counts = echo_npu.torch.op_counts()
    assert not [name for name, each in counts.items() if each["cpu"]]
    return expected, made.cpu()


@pytest.mark.filterwarnings("ignore:Converting mask")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", MASKS)
def test_a_layer(masks: str, activation: str, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    expected, made = compared(layer, torch.randn(2, 5, 16), MASKS[masks])
    torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Converting mask")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_with_rows_of_several_lengths() -> None:
    """The CPU packs the rows, and writes zeros where there are none."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    expected, made = compared(encoder, torch.randn(2, 5, 16), MASKS["padding"])
    torch.testing.assert_close(made[~PADDING], expected[~PADDING], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Converting mask")
@pytest.mark.parametrize("average", [True, False])
def test_attention_with_its_weights(average: bool) -> None:
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    on_device = copy.deepcopy(attention).to(DEVICE)
    x = torch.randn(2, 5, 16)
    y, mask = x.to(DEVICE), PADDING.to(DEVICE)
    with torch.no_grad():
        expected = attention(x, x, x, PADDING, average_attn_weights=average)
        echo_npu.torch.reset_op_counts()
        made = on_device(y, y, y, mask, average_attn_weights=average)
    assert not [name for name, each in echo_npu.torch.op_counts().items() if each["cpu"]]
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-6)
