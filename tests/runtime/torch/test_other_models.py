"""BERT and ViT as the package transformers has them, forward and backward, and a loader with workers."""

import copy
from collections.abc import Callable

import pytest
import torch

import echo_npu.torch
from tests.runtime.torch.comparison import DEVICE, assert_native

transformers = pytest.importorskip("transformers")
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A classifier of texts, one of which is shorter than the other."""
    config = transformers.BertConfig(vocab_size=64, max_position_embeddings=32, num_labels=3, **SIZES)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    inputs = {
        "input_ids": torch.randint(0, 64, (2, 9)),
        "attention_mask": mask,
        "labels": torch.tensor([0, 2]),
    }
    return transformers.BertForSequenceClassification(config), inputs


def vit() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A classifier of images."""
    config = transformers.ViTConfig(image_size=16, patch_size=8, num_channels=3, num_labels=3, **SIZES)
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 2])}
    return transformers.ViTForImageClassification(config), inputs


@pytest.mark.parametrize("make", [bert, vit])
def test_a_classifier_forward_and_backward(
    make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]],
) -> None:
    torch.manual_seed(0)
    model, inputs = make()
    on_npu = copy.deepcopy(model).to(DEVICE)
    echo_npu.torch.reset_op_counts()
    results = []
    for each in (model, on_npu):
        device = next(each.parameters()).device
        made = each(**{name: value.to(device) for name, value in inputs.items()})
        made.loss.backward()
        gradients = [p.grad.cpu() for p in each.parameters() if p.grad is not None]
        results.append([made.logits.detach().cpu(), *gradients])
    assert_native()
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_loader_with_workers() -> None:
    """The workers, forked while the device is open, draw on the CPU; the device takes what they bring."""
    held = torch.ones(3, device=DEVICE)
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
    assert [(x.to(DEVICE) + 1).tolist() for (x,) in loader] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert held.tolist() == [1, 1, 1]
