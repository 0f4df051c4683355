"""The command `echo-npu layer`."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import echo_npu
from echo_npu.models.layer_types import LayerCase
from echo_npu.models.records import LayerRun
from echo_npu.models.report import ProgressBar, render
from echo_npu.models.runner import run_layer
from echo_npu.models.smollm2 import PROMPT, smollm2_layer
from echo_npu.models.transformer import STEPS, tiny_layer

LAYERS = ("tiny", "smollm2")


def make_case(layer: str, index: int, prompt: str | None, seed: int | None) -> LayerCase:
    """The layer that is meant; ValueError, IndexError or MissingExtraError says why there is none."""
    if layer not in LAYERS:
        raise ValueError(f"there is no layer {layer!r}; the layers are {', '.join(LAYERS)}")
    if layer == "tiny":
        if index != 0:
            raise IndexError(f"layer index {index}: tiny is a single layer, its index is 0")
        if prompt is not None:
            raise ValueError("tiny has random input; a prompt is for smollm2")
        return tiny_layer(0 if seed is None else seed)
    if seed is not None:
        raise ValueError("smollm2 has real weights and a real prompt; a seed is for tiny")
    return smollm2_layer(index, PROMPT if prompt is None else prompt)


def waves_command(layer: str, index: int, config: str, prompt: str | None, seed: int | None) -> str:
    """What to type for a waveform of the same run."""
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


def layer_command(
    layer: Annotated[str, typer.Argument(help="tiny (random) or smollm2 (SmolLM2-135M).")] = "tiny",
    index: Annotated[int, typer.Option(help="Which layer of the model.")] = 0,
    backend: Annotated[str | None, typer.Option(help="Default: ECHO_NPU_BACKEND, else rtlmodel.")] = None,
    config: Annotated[str, typer.Option(help="Hardware configuration, a file of rtl/configs.")] = "default",
    prompt: Annotated[str | None, typer.Option(help="smollm2: a text of at least 8 tokens.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="tiny: of weights and input, default 0.")] = None,
    waves: Annotated[bool, typer.Option("--waves", help="Dump a waveform of the run (rtlmodel).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run a transformer layer on the NPU, checked op by op against the functional model and against float64.

    Exit status: 0 all right, 1 something differs or the device failed, 2 wrong arguments.
    """
    try:
        case = make_case(layer, index, prompt, seed)
        chosen = echo_npu.get_backend_name() if backend is None else backend
        if waves and chosen != "rtlmodel":
            raise ValueError(f"the backend {chosen} has no waveform; --waves is for rtlmodel")
        hint = waves_command(layer, index, config, prompt, seed)
        run = _run(case, chosen, config, waves=waves, hint=hint, quiet=as_json)
    except (ValueError, TypeError, IndexError, ImportError, FileNotFoundError, echo_npu.NpuError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        usage = not isinstance(error, echo_npu.NpuError) or isinstance(error, echo_npu.BackendError)
        raise typer.Exit(2 if usage else 1) from None
    if as_json:
        typer.echo(json.dumps(run.to_dict(), indent=2))
    else:
        console = Console()
        if not console.is_terminal:  # piped output keeps the whole table
            console = Console(width=140)
        console.print(render(run))
    if not run.passed:
        raise typer.Exit(1)


def _run(case: LayerCase, backend: str, config: str, *, waves: bool, hint: str, quiet: bool) -> LayerRun:
    title = f"{case.name} on {backend}, configuration {config}"
    options: dict[str, Any] = {"waves": f"layer-{case.slug}"} if waves else {}
    with ProgressBar(title, STEPS, enabled=not quiet) as bar:
        bar.say("opening the device; the first time, it is built")
        with (
            echo_npu.open("cmodel", config=config) as twin,
            echo_npu.open(backend, config=config, **options) as device,
        ):
            return run_layer(
                case,
                device,
                twin,
                on_record=bar.step,
                title=title,
                waves_command=hint,
                waves_file=str(device.info()["simulator"]["waves"]) if waves else "",
            )


def register(app: typer.Typer) -> None:
    """Add the command `layer` to the command line."""
    app.command("layer")(layer_command)
