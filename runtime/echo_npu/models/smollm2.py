"""SmolLM2-135M: one of its layers, or its first layers, with their real weights, on a real prompt."""

import numpy as np

from echo_npu.models import reference
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel, check_index, check_layers
from echo_npu.models.layer_types import LayerCase, StackCase
from echo_npu.models.stack import Stack
from echo_npu.models.transformer import Transformer

PROMPT = "The systolic array multiplies matrices while the host is waiting."
MIN_TOKENS = 8

LAYERS = 30
"""Of the installed model: a wrong number is refused before the file is read, which takes seconds."""


def smollm2_layer(index: int = 0, prompt: str = PROMPT, model: GgufModel | None = None) -> Transformer:
    """Return layer `index` of the model, with the input that `prompt` gives it.

    The host computes the embedding and the layers before it in float64, so that the layer's input is the one
    of the real model.

    Args:
        model: a model in place of the installed SmolLM2.

    Raises:
        MissingExtraError: a package of the extra "models" is missing.
        IndexError: no such layer.
        ValueError: a prompt of fewer than 8 tokens.
    """
    if model is None:
        file = smollm2_file()
        check_index(index, LAYERS)
        model = GgufModel(file)
    model.check_index(index)
    ids, note = _tokens(model, prompt, MIN_TOKENS)
    stream: reference.Floats = model.embed(ids).astype(np.float64)
    for before in range(index):
        stream = reference.layer(model.config, model.layer(before), stream)
    before_it = ["embedding", *(f"layer {before}" for before in range(index))]
    case = LayerCase(
        f"smollm2 layer {index}",
        f"smollm2-{index}",
        model.config,
        model.layer(index),
        stream.astype(np.float32),
        (note, f"the layer's input was prepared on the host, in float64: {', '.join(before_it)}"),
    )
    return Transformer(case)


def smollm2_stack(layers: int = 2, prompt: str = PROMPT, model: GgufModel | None = None) -> Stack:
    """Return the first `layers` layers of the model, with its embedding, final norm and head.

    Args:
        model: a model in place of the installed SmolLM2.

    Raises:
        MissingExtraError: a package of the extra "models" is missing.
        ValueError: a number of layers that the model does not have, or an empty prompt.
    """
    if model is None:
        file = smollm2_file()
        check_layers(layers, LAYERS)
        model = GgufModel(file)
    check_layers(layers, model.layers)
    ids, note = _tokens(model, prompt, 1)
    case = StackCase(
        f"smollm2, {layers} of {model.layers} layers",
        f"smollm2-stack-{layers}",
        model.config,
        layers,
        model.layer,
        model.tensor("token_embd.weight"),
        model.tensor("output_norm.weight"),
        np.array(ids, np.int32),
        lambda token: str(model.tokenizer.decode([token])),
        (note,),
    )
    return Stack(case)


def _tokens(model: GgufModel, prompt: str, least: int) -> tuple[list[int], str]:
    """Return the prompt's token numbers, and a sentence that shows them."""
    ids: list[int] = model.tokenizer.encode(prompt).ids
    if len(ids) < least:
        raise ValueError(f"the prompt {prompt!r} has {len(ids)} tokens; at least {least} are needed")
    words = [model.tokenizer.decode([token]) for token in ids]
    return ids, f"prompt of {len(words)} tokens: {' | '.join(words)}"
