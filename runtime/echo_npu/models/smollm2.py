"""SmolLM2-135M: any of its layers, with its real weights, on the real embedding of a real prompt."""

from __future__ import annotations

import numpy as np

from echo_npu.models import reference
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import LayerCase

PROMPT = "The systolic array multiplies matrices while the host is waiting."
MIN_TOKENS = 8


def smollm2_layer(index: int = 0, prompt: str = PROMPT, model: GgufModel | None = None) -> LayerCase:
    """Layer `index` of the model, with the input that `prompt` gives it.

    The layers before it are computed here, on the host, in float64: they are preparation, so that the layer's
    input is the one that it sees in the real model.

    Args:
        model: a model to take instead of the installed SmolLM2.

    Raises:
        MissingExtraError: a package of the extra "models" is missing.
        IndexError: no such layer.
        ValueError: a prompt of fewer than 8 tokens.
    """
    model = model or GgufModel(smollm2_file())
    model.check_index(index)
    encoding = model.tokenizer.encode(prompt)
    if len(encoding.ids) < MIN_TOKENS:
        raise ValueError(
            f"the prompt {prompt!r} has {len(encoding.ids)} tokens; at least {MIN_TOKENS} are needed"
        )
    stream = model.embed(encoding.ids).astype(np.float64)
    for before in range(index):
        stream = reference.layer(model.config, model.layer(before), stream)
    words = [model.tokenizer.decode([token]) for token in encoding.ids]
    notes = [f"prompt of {len(words)} tokens: {' | '.join(words)}", "embedding [CPU]"]
    if index:
        before_it = "layer 0" if index == 1 else f"layers 0 to {index - 1}"
        notes.append(f"the input was prepared on the host: {before_it} in float64, rounded to float32")
    return LayerCase(
        f"smollm2 layer {index}",
        f"smollm2-{index}",
        model.config,
        model.layer(index),
        stream.astype(np.float32),
        tuple(notes),
    )
