"""Qwen2 as the package transformers has it, where that is installed."""

import copy
from pathlib import Path

import pytest
import torch

import echo_npu.torch
from tests.runtime.torch.comparison import assert_native

transformers = pytest.importorskip("transformers")
DEVICE = "echo_npu"


@pytest.fixture
def models() -> tuple[torch.nn.Module, torch.nn.Module]:
    """The same tiny model on the CPU and on the device."""
    config = transformers.Qwen2Config(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(config).eval()
    return model, copy.deepcopy(model).to(DEVICE)


def test_a_model_that_is_loaded_is_the_one_that_was_saved(tmp_path: Path) -> None:
    """Buffers that are not in the file, such as those of the rotation, are computed again."""
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    saved = transformers.LlamaForCausalLM(config).eval()
    saved.save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    for expected, found in zip(saved.buffers(), loaded.buffers(), strict=True):
        assert torch.equal(expected, found)
    ids = torch.randint(0, 64, (1, 9))
    expected = saved(ids).logits
    assert torch.equal(loaded(ids).logits, expected)
    found = loaded.to(DEVICE)(ids.to(DEVICE)).logits.cpu()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_qwen2_forward_and_backward(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    ids = torch.randint(0, 128, (1, 9))
    echo_npu.torch.reset_op_counts()
    results = []
    for model in models:
        given = ids.to(next(model.parameters()).device)
        made = model(given, labels=given)
        made.loss.backward()
        results.append([made.logits.detach().cpu(), *(each.grad.cpu() for each in model.parameters())])
    assert_native()
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_qwen2_generates_the_same_tokens(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    ids = torch.randint(0, 128, (1, 9))
    on_cpu, on_npu = models
    expected = on_cpu.generate(ids, max_new_tokens=6, do_sample=False)  # type: ignore[operator]
    found = on_npu.generate(ids.to(DEVICE), max_new_tokens=6, do_sample=False)  # type: ignore[operator]
    assert torch.equal(found.cpu(), expected)
    assert_native()


def test_qwen2_in_bfloat16(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    ids = torch.randint(0, 128, (1, 9))
    expected, found = (model.bfloat16()(ids.to(model.device)).logits for model in models)  # type: ignore[arg-type]
    torch.testing.assert_close(found.cpu(), expected, rtol=2e-2, atol=2e-2)
