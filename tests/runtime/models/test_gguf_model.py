"""The model file reader, on a small file that is written here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.models import run_model, smollm2_layer, smollm2_stack
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import LayerConfig
from echo_npu.models.truth import F32
from tests.refusals import refuses

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

CONFIG = LayerConfig(hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=96, rope_base=1e4, eps=1e-6)
LAYERS = 3
NAMES = {
    "attn_norm": "attn_norm", "attn_q": "wq", "attn_k": "wk", "attn_v": "wv", "attn_output": "wo",
    "ffn_norm": "ffn_norm", "ffn_gate": "w_gate", "ffn_up": "w_up", "ffn_down": "w_down",
}  # fmt: skip
"""The weights of a layer, by their names in the file."""


def _alphabet() -> list[str]:
    """Return the 256 characters that stand for bytes in byte-level BPE, in the order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def write_model(path: Path, *, architecture: str = "llama", leave_out: str = "") -> dict[str, F32]:
    """Write a model file of `LAYERS` random layers; return the tensors before quantisation."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(CONFIG.hidden)
    writer.add_head_count(CONFIG.heads)
    writer.add_head_count_kv(CONFIG.kv_heads)
    writer.add_feed_forward_length(CONFIG.ffn)
    writer.add_rope_freq_base(CONFIG.rope_base)
    writer.add_layer_norm_rms_eps(CONFIG.eps)
    writer.add_rope_dimension_count(CONFIG.head_dim)
    tokens = ["<|end|>", *_alphabet(), "th", "the"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["t h", "th e"])
    original: dict[str, F32] = {}

    def add(name: str, shape: tuple[int, ...], kind: Any) -> None:
        original[name] = random.standard_normal(shape).astype(np.float32) / 8
        if name == leave_out:
            return
        if kind is None:
            writer.add_tensor(name, original[name])
        else:
            writer.add_tensor(name, gguf.quants.quantize(original[name], kind), raw_dtype=kind)

    types = gguf.GGMLQuantizationType
    add("token_embd.weight", (len(tokens), CONFIG.hidden), types.Q8_0)
    add("output_norm.weight", (CONFIG.hidden,), None)
    for layer in range(LAYERS):
        for stem, field in NAMES.items():
            shape = CONFIG.weight_shapes()[field]
            add(f"blk.{layer}.{stem}.weight", shape, None if len(shape) == 1 else types.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return original


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small.gguf"


def test_shape_and_weights(path: Path) -> None:
    original = write_model(path)
    model = GgufModel(path)
    assert model.layers == LAYERS
    assert (model.config.hidden, model.config.head_dim, model.config.ffn) == (64, 16, 96)
    assert model.config.rope_base == 1e4
    assert model.config.eps == pytest.approx(1e-6)
    weights = model.layer(2)
    assert np.array_equal(weights.attn_norm, original["blk.2.attn_norm.weight"])
    down = original["blk.2.ffn_down.weight"]
    step = np.ptp(down.reshape(-1, 32), axis=1).max() / 15
    assert np.abs(weights.w_down - down).max() < 0.6 * step
    assert weights.w_down.dtype == np.float32


def test_tokenizer(path: Path) -> None:
    write_model(path)
    tokenizer = GgufModel(path).tokenizer
    assert tokenizer.encode("the 12<|end|>").tokens == ["the", "Ġ", "1", "2", "<|end|>"]
    assert tokenizer.decode(tokenizer.encode("the é\n").ids) == "the é\n"


def test_embedding(path: Path) -> None:
    original = write_model(path)
    model = GgufModel(path)
    rows = model.embed([5, 5, 200])
    assert rows.shape == (3, 64)
    assert np.abs(rows - original["token_embd.weight"][[5, 5, 200]]).max() < 0.01
    refuses(IndexError, "259 entries", model.embed, [259])


@pytest.mark.parametrize("index", range(LAYERS))
def test_a_layer_runs(path: Path, device: Device, twin: Device, index: int) -> None:
    write_model(path)
    layer = smollm2_layer(index, "the theme of it", GgufModel(path))
    assert len(layer.case.hidden_in) >= 8
    assert sum(f"layer {before}" in layer.notes[-1] for before in range(LAYERS)) == index
    assert run_model(layer, device, twin).failures == []


@pytest.mark.parametrize("layers", [1, LAYERS])
def test_a_stack_runs(path: Path, device: Device, twin: Device, layers: int) -> None:
    write_model(path)
    stack = smollm2_stack(layers, "the", GgufModel(path))
    assert stack.case.ids.tolist() == [258]
    run = run_model(stack, device, twin)
    assert run.failures == []
    assert len(run.to_dict()["top"]) == 5


def test_what_is_refused(path: Path) -> None:
    refuses(FileNotFoundError, r"small\.gguf", GgufModel, path)
    write_model(path, leave_out="blk.1.ffn_up.weight")
    model = GgufModel(path)
    model.layer(0)
    refuses(ValueError, r"no tensor blk\.1\.ffn_up\.weight", model.layer, 1)
    for index in (-1, LAYERS):
        refuses(IndexError, "the layers 0 to 2", model.layer, index)
        refuses(IndexError, "the layers 0 to 2", smollm2_layer, index, "the theme of it", model)
    refuses(ValueError, "at least 8", smollm2_layer, 0, "the", model)
    for layers in (0, LAYERS + 1):
        refuses(ValueError, f"layers is {layers}; this model has 1 to 3", smollm2_stack, layers, "the", model)
    refuses(ValueError, "at least 1", smollm2_stack, 1, "", model)
    refuses(ValueError, "no metadata field nothing", model.metadata, "nothing")


def test_another_architecture_is_refused(path: Path) -> None:
    write_model(path, architecture="gpt2")
    refuses(ValueError, "only llama", GgufModel, path)
