"""The commands `echo-npu layer`, `echo-npu model` and `echo-npu lenet`."""

import json
import shlex
from typing import Annotated, Any

import typer

import echo_npu
from echo_npu.cli.support import (
    AsJson,
    Backend,
    Config,
    Executor,
    Jobs,
    Trace,
    given,
    reported,
    table_console,
)
from echo_npu.models.digits import load_digits
from echo_npu.models.lenet import LeNet
from echo_npu.models.lenet_training import EPOCHS, train
from echo_npu.models.model import Model, run_model
from echo_npu.models.records import ModelRun
from echo_npu.models.report import ProgressBar, render
from echo_npu.models.smollm2 import PROMPT, smollm2_layer, smollm2_stack
from echo_npu.models.stack import tiny_stack
from echo_npu.models.transformer import tiny_layer
from echo_sim.numerals import SEED, Whole, option

NAMES = ("tiny", "smollm2")

Seed = Annotated[int | None, typer.Option(help="tiny: of weights and input, default 0.", **option(SEED))]


def layer_command(
    layer: Annotated[str, typer.Argument(help="tiny (random) or smollm2 (SmolLM2-135M).")] = "tiny",
    index: Annotated[int, typer.Option(help="Which layer of the model.", **option(Whole(0)))] = 0,
    backend: Backend = None,
    config: Config = "default",
    prompt: Annotated[str | None, typer.Option(help="smollm2: a text of at least 8 tokens.")] = None,
    seed: Seed = None,
    waves: Annotated[bool, typer.Option("--waves", help="Dump a waveform of the run (rtlmodel).")] = False,
    jobs: Jobs = None,
    executor: Executor = None,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Run a transformer layer on the NPU, checked op by op against the functional model and against float64.

    Exit status: 0 all right, 1 something differs or the device failed, 2 wrong arguments.
    """
    with reported(IndexError, ImportError, FileNotFoundError):
        if layer == "tiny" and index:
            raise IndexError(f"layer index {index}: tiny is a single layer, its index is 0")
        random = _is_random(layer, prompt, seed)
        model = tiny_layer(seed or 0) if random else smollm2_layer(index, _text(prompt))
        hint = waves_command(layer, index, config, prompt, seed)
        options = given(trace=trace, jobs=jobs, executor=executor)
        run = _run(model, backend, config, waves=waves, hint=hint, quiet=as_json, **options)
    _show(run, as_json)


def model_command(
    name: Annotated[str, typer.Argument(help="tiny (random) or smollm2 (SmolLM2-135M).")] = "smollm2",
    layers: Annotated[int, typer.Option(help="How many layers, from the first.", **option(Whole(1)))] = 2,
    backend: Backend = None,
    config: Config = "default",
    prompt: Annotated[str | None, typer.Option(help="smollm2: the text to continue.")] = None,
    seed: Seed = None,
    jobs: Jobs = None,
    executor: Executor = None,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Run the first layers of a model on the NPU: embedding, layers, final norm, logits of the last token.

    Checked op by op like `layer`, and the logits and the likeliest tokens against float64.

    Exit status: 0 all right, 1 something differs or the device failed, 2 wrong arguments.
    """
    with reported(IndexError, ImportError, FileNotFoundError):
        random = _is_random(name, prompt, seed)
        model = tiny_stack(layers, seed or 0) if random else smollm2_stack(layers, _text(prompt))
        options = given(trace=trace, jobs=jobs, executor=executor)
        run = _run(model, backend, config, quiet=as_json, **options)
    _show(run, as_json)


def lenet_command(
    images: Annotated[
        int, typer.Option(help="How many held-out images to classify.", **option(Whole(1)))
    ] = 50,
    backend: Backend = None,
    config: Config = "default",
    seed: Annotated[
        int, typer.Option(help="Of the training and of the choice of images.", **option(SEED))
    ] = 0,
    jobs: Jobs = None,
    executor: Executor = None,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Train LeNet-5 on scikit-learn's digits, on the host, then classify held-out images on the NPU.

    Checked op by op like `layer`, and the predictions against float64.

    Exit status: 0 all right, 1 something differs or the device failed, 2 wrong arguments.
    """
    with reported(IndexError, ImportError, FileNotFoundError):
        known, held_out = load_digits(seed=seed)
        if images > len(held_out):
            raise ValueError(f"images is {images}; {len(held_out)} are held out")
        with ProgressBar("training on the host", EPOCHS, enabled=not as_json) as bar:
            weights = train(known, seed=seed, on_epoch=lambda epoch: bar.advance(f"epoch {epoch}"))
        notes = (
            f"trained on the host: {EPOCHS} epochs of {len(known)} images, seed {seed}",
            "held-out images of 8x8 pixels, each pixel drawn as 4x4",
        )
        model = LeNet(weights, held_out.take(slice(images)), notes)
        options = given(trace=trace, jobs=jobs, executor=executor)
        run = _run(model, backend, config, quiet=as_json, **options)
    _show(run, as_json)


def waves_command(layer: str, index: int, config: str, prompt: str | None, seed: int | None) -> str:
    """Return the command that makes a waveform of the same run."""
    words = ["make", "transformer", "WAVES=1"]
    for name, value, default in (
        ("LAYER", layer, "tiny"),
        ("INDEX", index, 0),
        ("CONFIG", config, "default"),
        ("SEED", seed, None),
        ("PROMPT", prompt, None),
    ):
        if value != default:
            words.append(f"{name}={shlex.quote(str(value))}")
    return " ".join(words)


def _is_random(name: str, prompt: str | None, seed: int | None) -> bool:
    """Return whether `name` is the random model; ValueError for an unknown one, or an option of the other."""
    if name not in NAMES:
        raise ValueError(f"there is no model {name!r}; the models are {', '.join(NAMES)}")
    if name == "tiny" and prompt is not None:
        raise ValueError("tiny has random input; a prompt is for smollm2")
    if name == "smollm2" and seed is not None:
        raise ValueError("smollm2 has real weights and a real prompt; a seed is for tiny")
    return name == "tiny"


def _text(prompt: str | None) -> str:
    return PROMPT if prompt is None else prompt


def _run(
    model: Model,
    backend: str | None,
    config: str,
    *,
    waves: bool = False,
    hint: str = "",
    quiet: bool,
    **more: Any,
) -> ModelRun:
    chosen = echo_npu.get_backend_name() if backend is None else backend
    if waves and chosen != "rtlmodel":
        raise ValueError(f"the backend {chosen} has no waveform; --waves is for rtlmodel")
    title = f"{model.name} on {chosen}, configuration {config}"
    options: dict[str, Any] = {"waves": f"layer-{model.slug}"} if waves else {}
    options |= more
    with ProgressBar(title, model.steps, enabled=not quiet) as bar:
        bar.say("opening the device; the first time, it is built")
        with (
            echo_npu.open("cmodel", config=config) as twin,
            echo_npu.open(chosen, config=config, **options) as device,
        ):
            return run_model(
                model,
                device,
                twin,
                on_record=bar.step,
                title=title,
                waves_command=hint,
                waves_file=str(device.info()["simulator"]["waves"]) if waves else "",
            )


def _show(run: ModelRun, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(run.to_dict(), indent=2))
    else:
        table_console().print(render(run))
    if not run.passed:
        raise typer.Exit(1)
