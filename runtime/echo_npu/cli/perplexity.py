"""The command `echo-npu perplexity`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from echo_npu.cli.chat import Half, Layers, ModelFile, network, open_model
from echo_npu.cli.support import AsJson, Config, read_text, reported
from echo_npu.language.perplexity import perplexity
from echo_npu.models.report import ProgressBar
from echo_sim.numerals import Whole, option


def perplexity_command(
    file: Annotated[Path, typer.Argument(help="A text file, UTF-8.")],
    name: Annotated[str, typer.Option(help="smollm2 (SmolLM2-135M), unless --model is given.")] = "smollm2",
    model: ModelFile = None,
    context: Annotated[int, typer.Option(help="Tokens of a window.", **option(Whole(2)))] = 512,
    tokens: Annotated[
        int | None, typer.Option(help="Most tokens of the text. Default: all.", **option(Whole(2)))
    ] = None,
    layers: Layers = None,
    half: Half = False,
    backend: Annotated[str, typer.Option(help="One that `info` lists. Default: cmodel.")] = "cmodel",
    config: Config = "default",
    as_json: AsJson = False,
) -> None:
    """Measure how well a language model predicts a text: e to the mean negative logarithm of probability.

    Exit status: 0 all right, 1 the device failed, 2 wrong arguments.
    """
    with reported(ImportError, OSError):
        content = read_text(file)  # before the model, which takes seconds
        source = open_model(name, model)
        text = source.tokenizer.encode(content).ids[:tokens]
        if len(text) < 2:
            raise ValueError(f"{file.name} has {len(text)} tokens; at least 2 are needed")
        title = f"{source.name} on {backend}, configuration {config}"
        with (
            ProgressBar(title, len(text), enabled=not as_json) as bar,
            network(source, backend, config, context, layers, bar, half=half, every_logit=True) as made,
        ):
            found = perplexity(made, text, lambda count: bar.advance("tokens", count))
    if as_json:
        figures = {"model": source.name, "backend": backend, "config": config, "tokens": found.tokens}
        typer.echo(
            json.dumps(figures | {"perplexity": found.value, "nats": found.nats, "error": found.error})
        )
    else:
        low, high = (found.value * factor for factor in (1 - found.error, 1 + found.error))
        error = f"one standard error: {low:.3f} to {high:.3f}"
        typer.echo(f"perplexity {found.value:.3f} over {found.tokens} tokens ({error})")
