"""Measure a language model on the NPU: cycles and time of its steps, and what it says: `make bench-lm`.

On the RTL: a token at several contexts, prompts, and the shares of wall time. On the functional model: time
of a token, perplexity of a text and greedy tokens, beside the same weights in plain numpy.

Exit status: 0 measured; 1 the device failed or memory differed from the functional model's.
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from rich.console import Console

import echo_npu
from echo_npu.language.generator import GenerationStep, TextGenerator
from echo_npu.language.network import CHUNK, RING_SLOTS, Network
from echo_npu.language.perplexity import nats, perplexity
from echo_npu.language.reference import ReferenceModel
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.report import ProgressBar
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.repository import ROOT

PAGE: Final = ROOT / "docs" / "language_model.md"
TEXT: Final = ROOT / "LICENSE"
COMMAND: Final = "make bench-lm UPDATE=1"

CONTEXTS: Final = (32, 256, 1024)
"""Positions in the cache when a token is measured."""

PROMPTS: Final = (16, 128)
"""Tokens of the measured prompts."""

QUESTIONS: Final = (
    "The capital of France is",
    "Once upon a time, there was a little",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
)
ANSWER: Final = 50
"""Tokens that follow each question."""

SCORED: Final = 2048
"""Tokens whose perplexity is measured, in windows of 256."""


@contextmanager
def network(backend: str, model: GgufModel, context: int, *, every_logit: bool = False) -> Iterator[Network]:
    """Open a device and bring the model to it."""
    with echo_npu.open(backend, ring_slots=RING_SLOTS) as device:
        yield Network(device, model, context=context, every_logit=every_logit)


def measure_steps(model: GgufModel, *, quick: bool) -> list[tuple[str, GenerationStep]]:
    """Measure steps on the RTL, each compared with the functional model."""
    contexts, prompts = (CONTEXTS[:1], PROMPTS[:1]) if quick else (CONTEXTS, PROMPTS)
    text = list(model.tokenizer.encode(TEXT.read_text("utf-8")).ids)
    most = max(contexts) + 1
    found: list[tuple[str, GenerationStep]] = []
    with (
        ProgressBar("steps on the RTL", len(contexts) + len(prompts)) as bar,
        network("rtlmodel", model, most) as device,
        network("cmodel", model, most) as twin,
    ):

        def measured(name: str) -> None:
            found.append((name, steps[-1]))
            bar.advance(name)

        steps: list[GenerationStep] = []
        for count in prompts:
            bar.say(f"prompt of {count} tokens")
            generator = TextGenerator(device, twin=twin, on_step=steps.append)
            list(generator.generate(text[:count], 1))
            measured(f"prompt of {count} tokens")
        for context in contexts:
            bar.say(f"token at context {context}")
            _fill(twin, text[: context - 1])
            for name in ("keys", "values"):
                device.tensors[name].copy_from(twin.tensors[name].to_numpy())
            for name, tensor in device.tensors.items():
                if not name.startswith("layer") and name not in ("keys", "values"):
                    tensor.copy_from(twin.tensors[name].to_numpy())
            generator = TextGenerator(device, twin=twin, on_step=steps.append, cached=text[: context - 1])
            list(generator.generate(text[:context], 1))
            measured(f"token at context {context}")
    return found


def _fill(twin: Network, text: list[int]) -> None:
    """Bring a text into the cache of the functional model."""
    for start in range(0, len(text), CHUNK):
        part = np.array(text[start : start + CHUNK], np.int32)
        with twin.record_prompt(start, len(part)) as program:
            program.run(ids=part)


def measure_tokens(model: GgufModel, *, quick: bool) -> tuple[int, int, float]:
    """Return how many greedy tokens are those of float32, how many there are, and a token's time on the
    model."""
    questions, length = (QUESTIONS[:1], 5) if quick else (QUESTIONS, ANSWER)
    reference = ReferenceModel(model, np.float32)
    same = total = 0
    spent = 0.0
    with ProgressBar("greedy tokens", len(questions)) as bar, network("cmodel", model, 128) as made:
        for question in questions:
            ids = model.tokenizer.encode(question).ids
            reference.forget()
            logits = reference.read(ids)
            start = time.process_time()
            tokens = list(TextGenerator(made).generate(ids, length))
            spent += time.process_time() - start
            for token in tokens:
                # Each token is judged after the same text, so that one difference counts once.
                same += int(np.argmax(logits[-1])) == token
                total += 1
                logits = reference.read([token])
            bar.advance(question)
    return same, total, spent / total


def measure_perplexity(model: GgufModel, *, quick: bool) -> tuple[int, float, float]:
    """Return the number of tokens, their perplexity, and that of the same weights in float64."""
    window = 64 if quick else 256
    text = list(model.tokenizer.encode(TEXT.read_text("utf-8")).ids)[: 64 if quick else SCORED]
    reference = ReferenceModel(model)
    with (
        ProgressBar("perplexity", len(text)) as bar,
        network("cmodel", model, window, every_logit=True) as made,
    ):
        found = perplexity(made, text, lambda count: bar.advance("tokens", count))
        losses: list[float] = []
        for start in range(0, len(text) - 1, window):
            part = text[start : start + window]
            reference.forget()
            losses += list(nats(reference.read(part)[:-1], np.array(part[1:])))
    return found.tokens, found.value, float(np.exp(np.mean(losses)))


def table(
    steps: list[tuple[str, GenerationStep]], tokens: tuple[int, int, float], scored: tuple[int, float, float]
) -> list[str]:
    """Return the lines of the page."""
    lines = [
        "| step | cycles | bound | share | cycles/s | wall time / simulation |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {step.cycles:,} | {step.bound:,} | {step.bound / step.cycles:.2f} "
        f"| {step.cycles / step.device_seconds:,.0f} | {step.own_seconds / step.device_seconds:.3f} |"
        for name, step in steps
    ]
    same, total, seconds = tokens
    count, value, truth = scored
    return [
        *lines,
        "",
        "| on the functional model | |",
        "| --- | --- |",
        f"| processor time of a token | {seconds:.2f} s |",
        f"| greedy tokens equal to float32 on the dequantised weights | {same} of {total} |",
        f"| perplexity of {count:,} tokens | {value:.4f}, in float64 {truth:.4f} |",
    ]


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one prompt, one token, short texts")
    options = parser.parse_args()
    updating = bool(os.environ.get(UPDATE_VARIABLE))
    if updating and options.quick:
        parser.error("a short run measures too little to commit")
    model = GgufModel(smollm2_file())
    try:
        steps = measure_steps(model, quick=options.quick)
    except echo_npu.NpuError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", soft_wrap=True)
        return 1
    lines = table(
        steps, measure_tokens(model, quick=options.quick), measure_perplexity(model, quick=options.quick)
    )
    print("\n".join(lines))
    if updating:
        replace_part(PAGE, COMMAND, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
