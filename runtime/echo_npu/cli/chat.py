"""The command `echo-npu chat`."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import echo_npu
from echo_npu.cli.chat_screen import Screen, describe
from echo_npu.cli.support import AsJson, Backend, Config, Executor, Jobs, Trace, given, reported
from echo_npu.devices import MOST_DEVICES
from echo_npu.language.generator import GenerationStep, TextGenerator, check_text
from echo_npu.language.network import MOST_CANDIDATES, RING_SLOTS, Network, Weights, check_size
from echo_npu.language.sampling import Sampling
from echo_npu.language.share import check_shares
from echo_npu.language.text import GrowingText, Message, chat_prompt, stop_tokens
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.report import ProgressBar
from echo_npu.sharding import DeviceGroup, ShardedNetwork, Spent
from echo_sim.numerals import SEED, Real, Whole, option

INTERRUPTED = 130
"""The exit status after Ctrl-C, as a shell reports it."""

ModelName = Annotated[str, typer.Argument(help="smollm2 (SmolLM2-135M), unless --model is given.")]
ModelFile = Annotated[Path | None, typer.Option(help="A GGUF file of the llama architecture.")]
Layers = Annotated[int | None, typer.Option(help="Only the first layers. Default: all.", **option(Whole(1)))]
Devices = Annotated[
    int, typer.Option(help="Divide the model among so many NPUs.", **option(Whole(1, MOST_DEVICES)))
]
Half = Annotated[bool, typer.Option("--half", help="Round all weights to float16, blocks included.")]


@dataclass
class _Answer:
    """What is printed as JSON."""

    model: str
    backend: str
    config: str
    prompt: str
    devices: int = 1
    text: str = ""
    steps: list[GenerationStep] = field(default_factory=list)
    device_cycles: list[int] = field(default_factory=list)
    traffic: int = 0

    def to_dict(self) -> dict[str, Any]:
        totals = {
            "cycles": sum(step.cycles for step in self.steps),
            "seconds": sum(step.seconds for step in self.steps),
        }
        return asdict(self) | totals


def chat_command(
    name: ModelName = "smollm2",
    model: ModelFile = None,
    prompt: Annotated[str | None, typer.Option(help="What to answer; without it, a conversation.")] = None,
    tokens: Annotated[int, typer.Option(help="Most tokens of an answer.", **option(Whole(1)))] = 64,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt, without the chat template.")
    ] = False,
    system: Annotated[str | None, typer.Option(help="The conversation's system message.")] = None,
    context: Annotated[
        int, typer.Option(help="Positions of the key and value cache.", **option(Whole(2)))
    ] = 512,
    layers: Layers = None,
    half: Half = False,
    temperature: Annotated[
        float, typer.Option(help="0: always the likeliest token.", **option(Real()))
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(help="Draw among so many likeliest tokens; 0: all.", **option(Whole()))
    ] = 0,
    top_p: Annotated[
        float, typer.Option(help="Draw among the likeliest, up to this sum.", **option(Real()))
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the draws.", **option(SEED))] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Compare all memory with the functional model after each step.")
    ] = False,
    devices: Devices = 1,
    backend: Backend = None,
    config: Config = "default",
    jobs: Jobs = None,
    executor: Executor = None,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Let a language model answer on the NPU, token by token.

    The text goes to standard output as it comes. The figures of each step stand below it on a terminal, and
    go to standard error elsewhere.

    Exit status: 0 all right, 1 the device failed or memory differs, 2 wrong arguments, 130 after Ctrl-C.
    """
    with reported(ImportError, FileNotFoundError), _interruptible():
        if as_json and prompt is None:
            raise ValueError("--json needs a --prompt")
        if raw and (system is not None or prompt is None):
            raise ValueError("--raw continues a --prompt, and has no --system message")
        if trace is not None and devices > 1:
            raise ValueError("--trace writes the timeline of one device; --devices gives several")
        for given_text in (prompt, system):
            _checked(given_text or "")
        sampling = Sampling(temperature, top_k, top_p)
        source = open_model(name, model)
        chosen = echo_npu.get_backend_name() if backend is None else backend
        check_shares(source.config, devices)
        wanted = sampling.candidates(source.vocabulary)
        answer = _Answer(source.name, chosen, config, prompt or "", devices)
        talk = _Talk(source, tokens, answer, quiet=as_json)
        # Template, sizes and text are tried before anything is built or opened.
        messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        user: Message = {"role": "user", "content": prompt or "hello"}
        text = source.tokenizer.encode(prompt).ids if raw else chat_prompt(source, [*messages, user])
        check_size(source, context, source.layers if layers is None else layers)
        if prompt is not None:
            check_text(text, source.vocabulary, context)
        with contextlib.ExitStack() as stack:
            bar = ProgressBar(f"{source.name} on {chosen}, configuration {config}", 1, enabled=not as_json)
            loaded = stack.enter_context(bar)
            networks = [
                stack.enter_context(
                    network(
                        source,
                        which,
                        config,
                        context,
                        layers,
                        loaded,
                        half=half,
                        devices=devices,
                        candidates=wanted if wanted <= MOST_CANDIDATES else 0,
                        **options,
                    )
                )
                for which, options in (
                    (chosen, given(trace=trace, jobs=jobs, executor=executor)),
                    *([("cmodel", {})] if check else []),
                )
            ]
            bar.stop()
            twin = networks[1] if check else None
            generator = TextGenerator(networks[0], sampling=sampling, seed=seed, twin=twin, on_step=talk.show)
            if prompt is None:
                talk.converse(generator, messages)
            else:
                talk.answer(generator, text)
            if isinstance(networks[0], ShardedNetwork):
                talk.spent(networks[0].spent)
    if as_json:
        typer.echo(json.dumps(talk.result.to_dict(), indent=2))


def open_model(name: str, file: Path | None) -> GgufModel:
    """Return the model of a name or of a file.

    Raises:
        ValueError: an unknown name.  Else as `GgufModel`.
    """
    if name != "smollm2":
        raise ValueError(f"there is no model {name!r}; give smollm2, or a file with --model")
    return GgufModel(smollm2_file() if file is None else file)


@contextlib.contextmanager
def network(
    source: GgufModel,
    backend: str,
    config: str,
    context: int,
    layers: int | None,
    bar: ProgressBar,
    *,
    half: bool,
    every_logit: bool = False,
    candidates: int = 0,
    devices: int = 1,
    **options: Any,
) -> Iterator[Network | ShardedNetwork]:
    """Open devices and bring the model to them, showing how far that is."""
    check_size(source, context, source.layers if layers is None else layers)  # before anything is built
    bar.say("opening the device; the first time, it is built")
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(echo_npu.open(backend, config=config, ring_slots=RING_SLOTS, **options))
            for _ in range(devices)
        ]

        def show(index: int) -> None:
            bar.say(f"layer {index} to {backend}")

        weights: Weights = "half" if half else "file"
        build: Callable[..., Network | ShardedNetwork] = (
            partial(Network, opened[0])
            if devices == 1
            else partial(ShardedNetwork, stack.enter_context(DeviceGroup(opened)))
        )
        yield build(
            source,
            context=context,
            layers=layers,
            every_logit=every_logit,
            candidates=candidates,
            weights=weights,
            on_layer=show,
        )


class _Talk:
    """Prints the answers and a line about each step."""

    def __init__(self, source: GgufModel, tokens: int, result: _Answer, *, quiet: bool) -> None:
        self.result = result
        self._source = source
        self._most = tokens
        self._stops = stop_tokens(source)
        self._screen = Screen(enabled=not quiet)

    def converse(self, generator: TextGenerator, messages: list[Message]) -> None:
        """Read prompts from standard input until it ends, and answer each."""
        self._screen.say("an empty line or Ctrl-D ends the conversation")
        while True:
            said = _asked()
            if not said:
                return
            messages.append({"role": "user", "content": said})
            text = self.answer(generator, chat_prompt(self._source, messages))
            messages.append({"role": "assistant", "content": text})

    def answer(self, generator: TextGenerator, tokens: list[int]) -> str:
        """Print the answer as it grows, and return it."""
        grown = GrowingText(self._source.tokenizer)
        with self._screen.answer(f"reading {len(tokens)} tokens"):
            for token in generator.generate(tokens, self._most, self._stops):
                self._screen.add(grown.add(token))
            self._screen.add(grown.finish())
        self.result.text = grown.text
        return grown.text

    def spent(self, spent: Spent) -> None:
        """Note what several devices have spent, and show it."""
        self.result.device_cycles, self.result.traffic = spent.cycles, spent.traffic
        cycles = ", ".join(f"{each:,}" for each in spent.cycles)
        self._screen.say(f"cycles of each device: {cycles}; {spent.traffic:,} bytes between devices")

    def show(self, step: GenerationStep) -> None:
        """Note a step, and show its figures."""
        self.result.steps.append(step)
        self._screen.step(describe(step))


def _asked() -> str:
    """Return the next line of standard input; "" at its end, or without standard input."""
    if sys.stdin is None:
        return ""
    try:
        return _checked(_line("> ").strip())
    except EOFError:
        return ""
    except UnicodeDecodeError:
        raise ValueError("standard input is no UTF-8 text") from None


def _line(prompt: str) -> str:
    """Return the next line of standard input, as `input`.

    Without a terminal `input` ignores every exception while it flushes standard output and error, a
    KeyboardInterrupt too.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        return input(prompt)
    print(prompt, end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def _checked(text: str) -> str:
    """Return a text; ValueError if bytes that are no UTF-8 text became characters of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no UTF-8 text") from None
    return text


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """End with a line and an exit status after Ctrl-C; the device is closed by then."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(escape("\ninterrupted"))
        raise typer.Exit(INTERRUPTED) from None
