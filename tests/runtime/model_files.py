"""Small model files, with random weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu.models.layer_types import LayerConfig
from echo_npu.models.truth import F32

CONFIG = LayerConfig(hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=96, rope_base=1e4, eps=1e-6)
LAYERS = 3
CONTEXT = 96
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


TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_model(
    path: Path,
    *,
    architecture: str = "llama",
    leave_out: str = "",
    reshape: str = "",
    own_head: bool = False,
    matrix_type: str = "Q4_1",
    template: str | None = TEMPLATE,
    fields: dict[str, str] | None = None,
    config: LayerConfig = CONFIG,
    seed: int = 0,
) -> dict[str, F32]:
    """Write a model file of `LAYERS` random layers; return the tensors before quantisation.

    Args:
        leave_out, reshape: the name of a tensor that the file lacks, or has in another shape.
        matrix_type: of the layers' matrices.
        fields: further metadata.
        config: shape of the layers.
    """
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name("small")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_feed_forward_length(config.ffn)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_rope_dimension_count(config.head_dim)
    tokens = ["<|end|>", *_alphabet(), "th", "the"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["t h", "th e"])
    writer.add_eos_token_id(0)
    if template is not None:
        writer.add_chat_template(template)
    for key, value in (fields or {}).items():
        writer.add_string(key, value)
    original: dict[str, F32] = {}

    def add(name: str, shape: tuple[int, ...], kind: Any) -> None:
        original[name] = random.standard_normal(shape).astype(np.float32) / 8
        if name == leave_out:
            return
        if name == reshape:
            original[name] = original[name][: len(original[name]) // 2]
        if kind is None:
            writer.add_tensor(name, original[name])
        else:
            writer.add_tensor(name, gguf.quants.quantize(original[name], kind), raw_dtype=kind)

    types = gguf.GGMLQuantizationType
    add("token_embd.weight", (len(tokens), config.hidden), types.Q8_0)
    add("output_norm.weight", (config.hidden,), None)
    if own_head:
        add("output.weight", (len(tokens), config.hidden), types.F16)
    for layer in range(LAYERS):
        for stem, field in NAMES.items():
            shape = config.weight_shapes()[field]
            add(f"blk.{layer}.{stem}.weight", shape, None if len(shape) == 1 else types[matrix_type])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return original
