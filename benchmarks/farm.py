"""Measure what a run on the backend rtlfarm costs, and model its speed-up on workers: `make bench-farm`.

The load is an answer of SmolLM2, token by token. Costs are measured in processor time, so other programs on
the machine disturb them little: of the functional model with the copies that chunks need, of each chunk in a
simulation, and of a simulation's start. From them follows what each number of workers would take.

The same load runs with one and with two simulations of a farm on this machine by turns, for the wall time,
and on the backend rtlmodel with all memory compared after each token, which is what a run without a farm has
to do for the same check. That says something only on an idle machine; the share of the processors that others
took is shown.

What was measured last for the docs is benchmarks/farm_costs.json; table and picture of docs/scale.md follow
from it.

Exit status: 0 measured; 1 the RTL differs, or a simulation failed.
"""

import argparse
import dataclasses
import heapq
import json
import os
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

import echo_npu
from benchmarks import plots
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO
from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import RING_SLOTS, Network
from echo_npu.models.extras import smollm2_file
from echo_npu.models.gguf_model import GgufModel
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.report import pictures
from tb.repository import ROOT

PAGE_OF_DOCS: Final = ROOT / "docs" / "scale.md"
PICTURE: Final = ROOT / "docs" / "farm.svg"
COMMITTED: Final = Path(__file__).with_name("farm_costs.json")
COMMAND: Final = "make bench-farm UPDATE=1"

CONFIG: Final = "default"
QUESTION: Final = "The capital of France is"
CONTEXT: Final = 64
WORKERS: Final = (1, 2, 4, 8, 16, 32, 64)
ANSWER: Final = 256
"""Tokens of the modelled run."""

WALLS: Final = ((2, 3), (16, 1))
"""Tokens of the answers whose wall time is measured, and how often each is."""

BANDWIDTH: Final = 125e6
"""Bytes a second of a worker's network, supposed: 1 Gbit/s."""

WAYS: Final = (0, 1, 2)
"""How an answer is simulated, as `WallTime.jobs`."""

OTHERS: Final = 0.1
"""Processors from which on a wall time does not count, if other programs took so many."""

OPEN: Final = 3
"""Chunks a worker that the farm lets wait or run, before the functional model waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkCosts:
    """What one chunk costs.

    Attributes:
        model_s: processor time of the functional model and of recording, in seconds.
        run_s: processor time of the simulation and of the process that steers it, in seconds.
        rtl_s: of that, of the simulation.
        cycles: that count.
        simulated: cycles with preparation, warm-up and what lies behind the end.
        new_bytes: of pages that no chunk before had.
        other_bytes: of everything but pages, pickled.
    """

    model_s: float
    run_s: float
    rtl_s: float
    cycles: int
    simulated: int
    new_bytes: int
    other_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class FarmCosts:
    """What a run costs.

    Attributes:
        start_s: processor time until a simulation takes its first chunk, in seconds.
        weight_bytes: pages of the first step, which each worker gets once.
        bare_s: processor time of a token on the functional model alone, in seconds.
        tokens: how many `chunks` are.
        chunks: of all steps but the first.
    """

    start_s: float
    weight_bytes: int
    bare_s: float
    tokens: int
    chunks: Sequence[ChunkCosts]

    @property
    def cycle_s(self) -> float:
        """Processor time of a cycle of the RTL, in seconds."""
        return self.total(lambda each: each.rtl_s) / self.total(lambda each: each.simulated)

    @property
    def alone_s(self) -> float:
        """Seconds of one simulation that does everything."""
        return self.cycle_s * sum(each.cycles for each in self.chunks)

    def total(self, cost: Callable[[ChunkCosts], float]) -> float:
        return sum(map(cost, self.chunks))

    def makespan(self, workers: int, tokens: int, *, with_model: bool) -> float:
        """Return the seconds of an answer of `tokens` on workers with processors of their own.

        Args:
            with_model: the functional model takes its time, in a process of its own; else all chunks are
                there at once.
        """
        free = [self.start_s + self.weight_bytes / BANDWIDTH] * workers  # when each worker has time
        ends: list[float] = []  # of the chunks that are open
        now = 0.0
        for _ in range(-(-tokens // self.tokens)):
            for each in self.chunks:
                now += each.model_s if with_model else 0.0
                while len(ends) >= OPEN * workers:
                    now = max(now, heapq.heappop(ends))
                end = max(heapq.heappop(free), now) + each.run_s
                end += (each.new_bytes + each.other_bytes) / BANDWIDTH
                heapq.heappush(free, end)
                heapq.heappush(ends, end)
        return max(free)

    def speed_up(self, workers: int, *, with_model: bool) -> float:
        """Return how many times faster than one simulation an answer of `ANSWER` tokens is."""
        steps = -(-ANSWER // self.tokens)
        return steps * self.alone_s / self.makespan(workers, ANSWER, with_model=with_model)


def processor_s(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class MeasuringWorkers:
    """In place of a farm's workers: runs each chunk at once, and measures it.

    Args:
        on_result: as of `LocalWorkers`.
    """

    def __init__(self, on_result: Callable[[RunChunk, ChunkResult], None]) -> None:
        self._on_result = on_result
        began = time.process_time()
        self._runner = ChunkRunner(CONFIG, FarmOptions().simulation())
        self.start_s = time.process_time() - began + self._simulation_s()
        self.costs: list[ChunkCosts] = []
        self._known: set[bytes] = {ZERO.digest}
        self._last = time.process_time()

    def _simulation_s(self) -> float:
        return processor_s(self._runner.rtl.simulator.pid)

    def submit(self, chunk: RunChunk) -> None:
        began, simulated = time.process_time(), self._simulation_s()
        result = self._runner.run(chunk)
        rtl_s = self._simulation_s() - simulated
        run_s = time.process_time() - began + rtl_s
        new = {page.digest for page in chunk.pages.values()} - self._known
        self._known |= new
        other = len(pickle.dumps(dataclasses.replace(chunk, pages={}), pickle.HIGHEST_PROTOCOL))
        model_s = began - self._last
        self.costs.append(
            ChunkCosts(model_s, run_s, rtl_s, result.cycles, result.simulated, PAGE * len(new), other)
        )
        self._on_result(chunk, result)
        self._last = time.process_time()

    def drain(self, timeout: float | None = None) -> bool:
        return True

    @property
    def load(self) -> Load:
        return Load(0, 0)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self._runner.close()


def _answer(
    device: echo_npu.Device, model: GgufModel, tokens: int, twin: echo_npu.Device | None = None
) -> Iterator[int]:
    """Generate an answer; with `twin`, compare all of the network's memory with that device's after each
    step."""
    other = None if twin is None else Network(twin, model, context=CONTEXT)
    network = Network(device, model, context=CONTEXT)
    text = list(model.tokenizer.encode(QUESTION).ids)
    return TextGenerator(network, twin=other).generate(text, tokens)


def measure(model: GgufModel, tokens: int) -> FarmCosts:
    """Measure the steps of an answer of `tokens` behind its first one."""
    found: list[MeasuringWorkers] = []

    def workers(
        on_result: Callable[[RunChunk, ChunkResult], None], _: Callable[[Exception], None]
    ) -> MeasuringWorkers:
        found.append(MeasuringWorkers(on_result))
        return found[0]

    backend = RtlfarmBackend(CONFIG, FarmOptions(), workers)
    with echo_npu.Device(backend, ring_slots=RING_SLOTS) as device:
        answer = _answer(device, model, tokens)
        next(answer)
        device.wait()
        first = len(found[0].costs)
        list(answer)
        device.wait()
    (measured,) = found
    return FarmCosts(
        start_s=measured.start_s,
        weight_bytes=sum(each.new_bytes for each in measured.costs[:first]),
        bare_s=_bare(model, tokens),
        tokens=tokens - 1,
        chunks=measured.costs[first:],
    )


def _bare(model: GgufModel, tokens: int) -> float:
    """Return the processor time of a token on the functional model alone, in seconds."""
    with echo_npu.open("cmodel", config=CONFIG, ring_slots=RING_SLOTS) as device:
        answer = _answer(device, model, tokens)
        next(answer)
        began = time.process_time()
        list(answer)
        return (time.process_time() - began) / (tokens - 1)


# --- wall time ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class WallTime:
    """An answer on this machine.

    Attributes:
        tokens: of the answer.
        jobs: simulations of a farm at a time; 0: the backend rtlmodel, checked after each token.
        seconds: from opening the device until everything was checked and the device is closed.
        others: processors that other programs took meanwhile.
    """

    tokens: int
    jobs: int
    seconds: float
    others: float

    @property
    def undisturbed(self) -> bool:
        """Whether the machine had nothing else to do, so that the time counts."""
        return self.others < OTHERS


def _busy_s() -> float:
    """Return the seconds for which this machine's processors have worked, added up."""
    ticks = list(map(int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]))
    idle, waiting = ticks[3:5]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def wall_times(model: GgufModel, tokens: int, turns: int) -> list[WallTime]:
    """Run an answer without a farm, and with one and two simulations at a time, by turns."""
    found = []
    for _ in range(turns):
        for jobs in WAYS:
            own, busy, began = sum(os.times()[:4]), _busy_s(), time.perf_counter()
            if jobs:
                with echo_npu.open("rtlfarm", config=CONFIG, jobs=jobs, ring_slots=RING_SLOTS) as device:
                    list(_answer(device, model, tokens))
            else:
                with (
                    echo_npu.open("rtlmodel", config=CONFIG, ring_slots=RING_SLOTS) as device,
                    echo_npu.open("cmodel", config=CONFIG, ring_slots=RING_SLOTS) as twin,
                ):
                    list(_answer(device, model, tokens, twin))
            seconds = time.perf_counter() - began
            others = _busy_s() - busy - (sum(os.times()[:4]) - own)
            found.append(WallTime(tokens, jobs, seconds, max(0.0, others / seconds)))
    return found


def median_s(walls: Sequence[WallTime], tokens: int, jobs: int) -> float:
    """Return the median wall time of such answers that others did not disturb, in seconds."""
    return statistics.median(
        each.seconds for each in walls if (each.tokens, each.jobs) == (tokens, jobs) and each.undisturbed
    )


def measured_speed_up(walls: Sequence[WallTime]) -> float:
    """Return the median wall time with one simulation over that with two, of the longest answer."""
    longest = max(each.tokens for each in walls)
    return median_s(walls, longest, 1) / median_s(walls, longest, 2)


def token_s(walls: Sequence[WallTime], jobs: int) -> float:
    """Return the wall time of one more token of an answer, in seconds: what the longest answer takes more
    than the shortest, over the tokens that it has more."""
    short, long = (choose(each.tokens for each in walls) for choose in (min, max))
    return (median_s(walls, long, jobs) - median_s(walls, short, jobs)) / (long - short)


def quiet(walls: Sequence[WallTime]) -> bool:
    """Return whether there is a time that counts of every answer, so that they compare."""
    cases = {(each.tokens, each.jobs) for each in walls}
    return bool(walls) and cases == {(each.tokens, each.jobs) for each in walls if each.undisturbed}


# --- docs ---------------------------------------------------------------------------------------------------


def save(costs: FarmCosts, walls: Sequence[WallTime]) -> None:
    """Write what was measured to `COMMITTED`."""
    measured = dataclasses.asdict(costs) | {"walls": [dataclasses.asdict(each) for each in walls]}
    COMMITTED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def load() -> tuple[FarmCosts, list[WallTime]]:
    """Read what `save` wrote."""
    measured = json.loads(COMMITTED.read_text(encoding="utf-8"))
    walls = [WallTime(**each) for each in measured.pop("walls")]
    chunks = [ChunkCosts(**each) for each in measured.pop("chunks")]
    return FarmCosts(chunks=chunks, **measured), walls


def table(costs: FarmCosts, walls: Sequence[WallTime]) -> list[str]:
    """Return everything that is generated in docs/scale.md."""
    chunks = len(costs.chunks)
    cycles, simulated = costs.total(lambda each: each.cycles), costs.total(lambda each: each.simulated)
    run_s, model_s = costs.total(lambda each: each.run_s), costs.total(lambda each: each.model_s)
    rest = run_s - costs.total(lambda each: each.rtl_s)
    new, other = [each.new_bytes for each in costs.chunks], costs.total(lambda each: each.other_bytes)
    lines = [
        "| cost, in processor time | measured |",
        "| --- | ---: |",
        f"| RTL | {1 / costs.cycle_s:,.0f} cycles a second |",
        f"| a token on one simulation | {cycles / costs.tokens:,.0f} cycles,"
        f" {costs.alone_s / costs.tokens:.2f} s |",
        f"| functional model and chunks, a token | {model_s / costs.tokens:.2f} s |",
        f"| functional model alone, a token | {costs.bare_s:.2f} s |",
        f"| a chunk, mean of {chunks} | {cycles / chunks:,.0f} cycles, {run_s / chunks:.2f} s |",
        f"| cycles for preparation, warm-up and behind the end | {simulated / cycles - 1:.1%} |",
        f"| state, comparison, host | {rest / run_s:.1%} of a chunk's time |",
        f"| start of a simulation | {costs.start_s:.2f} s |",
        f"| pages of the weights, once a worker | {costs.weight_bytes / 1e6:.0f} MB |",
        f"| pages new to a worker that has them, a chunk | mean {statistics.mean(new) / 1e6:.2f} MB,"
        f" most {max(new) / 1e6:.2f} MB |",
        f"| everything else of a chunk | {other / chunks / 1e3:.0f} kB |",
        "",
        f"| workers | {' | '.join(map(str, WORKERS))} |",
        f"| --- |{' ---: |' * len(WORKERS)}",
    ]
    for name, with_model in (("chunks there at once", False), ("functional model in one process", True)):
        found = [costs.speed_up(count, with_model=with_model) for count in WORKERS]
        lines.append(f"| speed-up, {name} | {' | '.join(f'{each:.1f}' for each in found)} |")
        shares = [each / count for each, count in zip(found, WORKERS, strict=True)]
        lines.append(f"| efficiency, {name} | {' | '.join(f'{each:.2f}' for each in shares)} |")
    if walls:
        lines += [
            "",
            "| wall time on one machine, by turns | seconds | processors that others took |",
            "| --- | ---: | ---: |",
            *(
                f"| {each.tokens} tokens, {_way(each.jobs)} | {each.seconds:.1f} | {each.others:.1f} |"
                for each in walls
            ),
            "",
            *_speed_ups(walls),
        ]
    return lines


def _way(jobs: int) -> str:
    return f"jobs={jobs}" if jobs else "rtlmodel, each token checked"


def _speed_ups(walls: Sequence[WallTime]) -> list[str]:
    """Return the table of what the wall times say."""
    if not quiet(walls):
        return ["Other programs took processors, so these times say nothing about the farm."]
    lengths = sorted({each.tokens for each in walls})
    cases = [(f"{tokens} tokens", [median_s(walls, tokens, jobs) for jobs in WAYS]) for tokens in lengths]
    if len(lengths) > 1:
        cases.append(("one more token", [token_s(walls, jobs) for jobs in WAYS]))
    return [
        "| jobs=2, against | jobs=1 | rtlmodel, each token checked |",
        "| --- | ---: | ---: |",
        *(f"| {what} | {one / two:.2f} | {alone / two:.2f} |" for what, (alone, one, two) in cases),
    ]


def picture(costs: FarmCosts, walls: Sequence[WallTime]) -> str:
    """Return the SVG of the docs."""
    curves = {
        "modelled: chunks there at once": [costs.speed_up(count, with_model=False) for count in WORKERS],
        "modelled: functional model in one process": [
            costs.speed_up(count, with_model=True) for count in WORKERS
        ],
    }
    measured = {"measured": (2, measured_speed_up(walls))} if quiet(walls) else {}
    return pictures.svg(plots.speed_up(WORKERS, curves, measured))


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one token, one turn")
    options = parser.parse_args()
    try:
        model = GgufModel(smollm2_file())
        costs = measure(model, 2 if options.quick else 5)
        walls = [
            each
            for tokens, turns in (((1, 1),) if options.quick else WALLS)
            for each in wall_times(model, tokens, turns)
        ]
    except echo_npu.NpuError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", soft_wrap=True)
        return 1
    print("\n".join(table(costs, walls)))
    if os.environ.get(UPDATE_VARIABLE):
        save(costs, walls)
        write_docs()
    return 0


def write_docs() -> None:
    """Write the docs' table and picture from what was committed."""
    costs, walls = load()
    replace_part(PAGE_OF_DOCS, COMMAND, table(costs, walls))
    PICTURE.write_text(picture(costs, walls), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
