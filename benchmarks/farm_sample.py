"""Compare samples of the backend rtlfarm with the whole run: `make bench-farm-sample`.

The load is a prompt of SmolLM2. One run simulates all its chunks, and from their results follows what samples
of them would have estimated. Another run simulates a sample. All figures are clock cycles, so other programs
on the machine do not disturb them.

What was measured last for the docs is benchmarks/farm_sample.json; a table of docs/scale.md follows from it.

Exit status: 0 measured; 1 the RTL differs, or a simulation failed.
"""

import argparse
import dataclasses
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

import echo_npu
from benchmarks.farm import CONFIG, PAGE_OF_DOCS
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.backends.rtlfarm.pool import LocalWorkers
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlfarm.totals import Interval, Totals
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import RING_SLOTS, Network
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.repository import ROOT

COMMITTED: Final = Path(__file__).with_name("farm_sample.json")
COMMAND: Final = "make bench-farm-sample UPDATE=1"
TEXT: Final = ROOT / "LICENSE"
TOKENS: Final = 128
CHUNK_CYCLES: Final = 50_000
SHARES: Final = (0.05, 0.1, 0.3)
RUN_SHARE: Final = 0.05
"""Of the run that simulates a sample."""
SAMPLES: Final = 2000
SEED: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedChunk:
    """A chunk's rough estimate of its cycles, and what the RTL gave."""

    estimate: float
    result: ChunkResult


@dataclasses.dataclass(frozen=True, slots=True)
class SampleQuality:
    """What many samples with the same share of chunks estimate.

    Attributes:
        share: the probability of a chunk to be in a sample.
        chunks: in a sample, mean.
        held: share of the samples whose interval of 95 % holds the cycles of all chunks.
        margin: half of an interval's width as a share of these cycles, median.
        error: how far an estimate is from them, as a share, median.
    """

    share: float
    chunks: float
    held: float
    margin: float
    error: float


@dataclasses.dataclass(frozen=True, slots=True)
class SampleComparison:
    """The whole run, a run that simulated a sample, and what other samples would have estimated.

    Attributes:
        cycles, chunks: of the whole run.
        share, value, margin: of the run that simulated a sample: its option, and its estimate.
        sampled_cycles, sampled_chunks: that it counted.
        qualities: of other samples.
    """

    cycles: int
    chunks: int
    share: float
    value: float
    margin: float
    sampled_cycles: int
    sampled_chunks: int
    qualities: Sequence[SampleQuality]


def simulate(
    load: Callable[[echo_npu.Device], None], config: str, options: FarmOptions
) -> tuple[Interval, list[SimulatedChunk]]:
    """Run `load` on local simulations; return its cycles, and the chunks that were simulated, in order.

    Raises NpuError: the RTL differs, or a simulation failed.
    """
    found: dict[int, SimulatedChunk] = {}

    def workers(
        on_result: Callable[[RunChunk, ChunkResult], None], on_failure: Callable[[Exception], None]
    ) -> LocalWorkers:
        def keep(chunk: RunChunk, result: ChunkResult) -> None:
            found[chunk.number] = SimulatedChunk(chunk.estimate, result)
            on_result(chunk, result)

        first = ChunkRunner(config, options.simulation())
        return LocalWorkers(config, options.simulation(), options.jobs, keep, on_failure, first)

    backend = RtlfarmBackend(config, options, workers)
    with echo_npu.Device(backend, ring_slots=RING_SLOTS) as device:
        load(device)
        device.wait()
        cycles = backend.cycles
    return cycles, [found[number] for number in sorted(found)]


def quality(simulated: Sequence[SimulatedChunk], share: float, seed: int, samples: int) -> SampleQuality:
    """Draw samples of the chunks of a whole run, and compare what each estimates with all cycles.

    Samples with less than two chunks have no interval, and are drawn again.
    """
    total = sum(each.result.cycles for each in simulated)
    rng = np.random.default_rng(seed)
    counts: list[int] = []
    found: list[Interval] = []
    while len(found) < samples:
        taken = rng.random(len(simulated)) < share
        totals = Totals()
        for number, (each, chosen) in enumerate(zip(simulated, taken, strict=True)):
            totals.add(number, each.estimate, each.result if chosen else None)
        if math.isfinite(totals.cycles.margin):
            found.append(totals.cycles)
            counts.append(int(taken.sum()))
    errors = [abs(each.value - total) for each in found]
    return SampleQuality(
        share=share,
        chunks=float(np.mean(counts)),
        held=float(np.mean([error <= each.margin for error, each in zip(errors, found, strict=True)])),
        margin=float(np.median([each.margin for each in found])) / total,
        error=float(np.median(errors)) / total,
    )


def compare(model: GgufModel, tokens: int) -> SampleComparison:
    """Run a prompt of `tokens` whole and with a sample.

    Raises NpuError: the RTL differs, or a simulation failed.
    """
    text = list(model.tokenizer.encode(TEXT.read_text("utf-8")).ids)[:tokens]

    def load(device: echo_npu.Device) -> None:
        list(TextGenerator(Network(device, model, context=tokens + 1)).generate(text, 1))

    options = FarmOptions(jobs=2, chunk_cycles=CHUNK_CYCLES, progress=True)
    whole, chunks = simulate(load, CONFIG, options)
    sampled = dataclasses.replace(options, sample=RUN_SHARE, seed=SEED)
    estimate, taken = simulate(load, CONFIG, sampled)
    return SampleComparison(
        cycles=round(whole.value),
        chunks=len(chunks),
        share=RUN_SHARE,
        value=estimate.value,
        margin=estimate.margin,
        sampled_cycles=sum(each.result.cycles for each in taken),
        sampled_chunks=len(taken),
        qualities=[quality(chunks, share, SEED, SAMPLES) for share in SHARES],
    )


# --- docs ---------------------------------------------------------------------------------------------------


def save(found: SampleComparison) -> None:
    """Write what was measured to `COMMITTED`."""
    COMMITTED.write_text(json.dumps(dataclasses.asdict(found), indent=1) + "\n", encoding="utf-8")


def load() -> SampleComparison:
    """Read what `save` wrote."""
    measured = json.loads(COMMITTED.read_text(encoding="utf-8"))
    qualities = [SampleQuality(**each) for each in measured.pop("qualities")]
    return SampleComparison(qualities=qualities, **measured)


def table(found: SampleComparison) -> list[str]:
    """Return what is generated in docs/scale.md."""
    off = found.value / found.cycles - 1
    return [
        f"| prompt of {TOKENS} tokens | chunks | cycles |",
        "| --- | ---: | ---: |",
        f"| all, simulated | {found.chunks} | {found.cycles:,} |",
        f"| `sample={found.share}`, simulated | {found.sampled_chunks} | {found.sampled_cycles:,} |",
        f"| `sample={found.share}`, estimate of all | | {found.value:,.0f} ± {found.margin:,.0f},"
        f" {off:+.2%} off |",
        "",
        f"| {SAMPLES} samples of it | chunks in one, mean | intervals that hold the cycles of all chunks"
        " | half of an interval's width, median | error, median |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {each.share:.0%} | {each.chunks:.0f} | {each.held:.0%} | {each.margin:.2%}"
            f" | {each.error:.2%} |"
            for each in found.qualities
        ),
    ]


def write_docs() -> None:
    """Write the docs' table from what was committed."""
    replace_part(PAGE_OF_DOCS, COMMAND, table(load()))


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a prompt of 4 tokens")
    options = parser.parse_args()
    try:
        found = compare(GgufModel(smollm2_file()), 4 if options.quick else TOKENS)
    except echo_npu.NpuError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", soft_wrap=True)
        return 1
    print("\n".join(table(found)))
    if os.environ.get(UPDATE_VARIABLE) and not options.quick:
        save(found)
        write_docs()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
