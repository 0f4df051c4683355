"""The model file reader, on a small file that is written here."""

from pathlib import Path

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.models import run_model, smollm2_layer, smollm2_stack
from echo_npu.models.gguf_model import GgufModel
from tests.refusals import refuses
from tests.runtime.model_files import CONTEXT, LAYERS, write_model

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")


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
    refuses(FileNotFoundError, "model file a+: File name too long", GgufModel, Path("a" * 300))
    write_model(path)
    model = GgufModel(path)
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


@pytest.mark.parametrize("name", ["blk.1.ffn_up.weight", "token_embd.weight", "output_norm.weight"])
def test_a_tensor_that_lacks_or_does_not_fit_is_refused(path: Path, name: str) -> None:
    write_model(path, leave_out=name)
    refuses(ValueError, [f"no tensor {name}"], GgufModel, path)
    write_model(path, reshape=name)
    refuses(ValueError, [f"tensor {name} has shape"], GgufModel, path)


def test_an_unknown_type_of_tensor_is_refused(path: Path) -> None:
    write_model(path, matrix_type="Q5_0")
    refuses(ValueError, ["has the type Q5_0", "Q4_0, Q4_1"], GgufModel, path)


def test_a_scaled_rotation_is_refused(path: Path) -> None:
    write_model(path, fields={"llama.rope.scaling.type": "yarn"})
    refuses(ValueError, ["scales the rotation (yarn)"], GgufModel, path)


def test_a_damaged_file_is_refused(path: Path) -> None:
    write_model(path)
    whole = path.read_bytes()
    for length in (0, 3, 4, 20, 100, len(whole) // 3, len(whole) // 2, len(whole) - 1000):
        path.write_bytes(whole[:length])
        refuses(ValueError, ["small.gguf"], GgufModel, path)
    path.write_bytes(b"GGML" + whole[4:])
    refuses(ValueError, ["small.gguf is no whole GGUF file"], GgufModel, path)


def test_heads(path: Path) -> None:
    original = write_model(path, own_head=True)
    model = GgufModel(path)
    assert model.has_own_head
    assert np.array_equal(model.head(), original["output.weight"].astype(np.float16))
    assert model.context == CONTEXT
    write_model(path)
    tied = GgufModel(path)
    assert not tied.has_own_head
    assert np.array_equal(tied.head(), tied.tensor("token_embd.weight"))
