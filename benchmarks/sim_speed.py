"""Speed of the RTL simulation: this harness, Verilator alone, and cocotb as new users run it.

Each load of benchmarks.sim_speed_loads is a packet program. It runs on the same RTL in three simulators:
(a) the backend rtlmodel; (b) a plain C++ loop around the same board, which is the limit; (c), for one load,
npu_top under cocotb with every signal public, the clock from cocotb's Clock, memory behind cocotbext-axi's
AxiRam and registers through its AxiLiteMaster. (a) and (b) alternate, many times. With --since, (d) is the
plain loop around the board of an earlier commit, in turn with them.

The measure is simulated cycles per second of processor time, summed over all processes involved. On an idle
machine that is wall time; on a busy one it remains comparable. The best run counts, since other load only
slows a run down. After every run device memory must be what the functional model predicts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import echo_npu
from benchmarks.sim_speed_loads import LOADS
from benchmarks.sim_speed_replay import RING_SLOTS, Replay, same_result
from benchmarks.sim_speed_since import earlier_program
from echo_npu.backends.rtlmodel import RtlmodelBackend
from echo_npu.device import Device
from echo_npu.model.memory import DeviceMemory
from echo_sim import build, run
from echo_sim.designs import bare_design, public_design
from tb.repository import ROOT

BARE_MAIN: Final = ROOT / "benchmarks" / "sim_speed_bare.cpp"
COCOTB_MODULE: Final = "benchmarks.sim_speed_cocotb"
COCOTB_TIMEOUT_S: Final = 1800.0

HOST_PACKETS: Final = 700
LAYER: Final = "layer"
"""The load that is short enough for plain cocotb."""
GOALS: Final = {
    "harness_to_bare": 0.95,
    "harness_to_cocotb": 20.0,
    "host_overhead": 0.05,
    "open_s": 3.0,
}
"""Lower bounds for the first two; upper bounds for the others."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program.

    Attributes:
        cycles: simulated, from the doorbell to the answer that all is done.
        busy_cycles: what the device counted.
        cpu_s: seconds of processor time, of all processes.
        wall_s: seconds of wall time.
        host_s: the part of cpu_s outside of the simulator.
        same: whether memory held the right bytes afterwards.
    """

    cycles: int
    busy_cycles: int
    cpu_s: float
    wall_s: float
    same: bool
    host_s: float = 0.0

    @property
    def speed(self) -> float:
        """Cycles for each second of processor time."""
        return self.cycles / self.cpu_s


def run_harness(replay: Replay, device: Device, expected: DeviceMemory) -> Run:
    """Run it on an open rtlmodel device through `submit_batch` and `wait`."""
    backend = device.backend
    assert isinstance(backend, RtlmodelBackend)
    device.reset()
    replay.fill(backend.memory)
    simulator = ~backend.simulator.pid << 3 | 2  # Linux's number of that process's clock of processor time
    busy, cycles = device.counters()["busy_cycles"], backend.statistics()["cycles"]
    wall, host, cpu = time.perf_counter(), time.process_time(), time.clock_gettime(simulator)
    if replay.slots:
        device.submit_batch(replay.slots)
        device.wait()
    if replay.idle_cycles:
        backend.wait_irq(replay.idle_cycles)
    wall, host = time.perf_counter() - wall, time.process_time() - host
    cpu = time.clock_gettime(simulator) - cpu + host
    cycles = int(backend.statistics()["cycles"] - cycles)
    busy = device.counters()["busy_cycles"] - busy
    return Run(cycles, busy, cpu, wall, same_result(backend.memory, expected), host)


def run_bare(program: Path, replay: Replay, expected: DeviceMemory) -> Run:
    """Run it in the plain loop `program`, in a process of its own."""
    memory = DeviceMemory()
    replay.fill(memory)
    with tempfile.NamedTemporaryFile("w", suffix=".script") as script:
        script.write(replay.script(memory))
        script.flush()
        answer = subprocess.run(
            [str(program), script.name, "+verilator+rand+reset+2", "+verilator+seed+1"],
            env={**os.environ, "ECHO_NPU_MEMORY": memory.share_path},
            stdout=subprocess.PIPE,
            check=True,
        )
    return Run(**json.loads(answer.stdout), same=same_result(memory, expected))


def run_cocotb(replay: Replay, expected: DeviceMemory) -> Run:
    """Run it under cocotb as new users do. Raises RuntimeError, with the log, if the simulation fails."""
    memory = DeviceMemory()
    replay.fill(memory)
    with tempfile.TemporaryDirectory() as folder:
        script, figures = Path(folder) / "script", Path(folder) / "figures.json"
        script.write_text(replay.script(memory), encoding="utf-8")
        result = run.run(
            public_design(replay.config),
            COCOTB_MODULE,
            name=f"sim-speed-{os.getpid()}",
            replay="make bench-sim",
            env={
                "ECHO_NPU_MEMORY": memory.share_path,
                "ECHO_NPU_SCRIPT": str(script),
                "ECHO_NPU_FIGURES": str(figures),
            },
            seed=1,
            timeout=COCOTB_TIMEOUT_S,
        )
        if not result.passed:
            raise RuntimeError(result.failures())
        return Run(**json.loads(figures.read_text(encoding="utf-8")), same=same_result(memory, expected))


def _best(runs: Sequence[Run]) -> Run:
    return max(runs, key=lambda run: run.speed)


def _figures(runs: Sequence[Run]) -> dict[str, Any]:
    best = _best(runs)
    return {"runs": len(runs), "cycles_per_s": best.speed, "best": asdict(best)}


def compare(
    replay: Replay, device: Device, rounds: int, *, cocotb: bool = False, earlier: Path | None = None
) -> dict[str, Any]:
    """Return the program's figures in each simulator, and their ratios.

    Args:
        cocotb: whether plain cocotb runs it, too.
        earlier: the plain loop of an earlier commit.
    """
    expected = replay.expected()
    program = build.build(bare_design(replay.config, BARE_MAIN)) / "npu_tb"
    harness, bare, before = [], [], []
    for _ in range(rounds):
        harness.append(run_harness(replay, device, expected))
        bare.append(run_bare(program, replay, expected))
        if earlier:
            before.append(run_bare(earlier, replay, expected))
    runs = [*harness, *bare]
    report: dict[str, Any] = {
        "name": replay.name,
        "packets": len(replay.slots),
        "harness": _figures(harness),
        "bare": _figures(bare),
        "harness_to_bare": _best(harness).speed / _best(bare).speed,
        "same_cycles": len({run.busy_cycles for run in runs}) == 1,
    }
    if before:
        runs += before
        report["since"] = _figures(before)
        report["bare_to_since"] = _best(bare).speed / _best(before).speed
    if cocotb:
        slow = run_cocotb(replay, expected)
        runs.append(slow)
        report["cocotb"] = _figures([slow])
        report["harness_to_cocotb"] = _best(harness).speed / slow.speed
    report["same_results"] = all(run.same for run in runs)
    return report


def host_overhead(replay: Replay, device: Device, rounds: int) -> dict[str, Any]:
    """What the host adds to the simulation of a long packet program."""
    program = replay.repeated(f"{replay.name}, repeated", HOST_PACKETS)
    expected = program.expected()
    runs = [run_harness(program, device, expected) for _ in range(rounds)]
    best = min(runs, key=lambda run: run.host_s / run.cpu_s)
    return {
        "packets": len(program.slots),
        "host_s": best.host_s,
        "simulation_s": best.cpu_s - best.host_s,
        "host_overhead": best.host_s / (best.cpu_s - best.host_s),
        "same_results": all(run.same for run in runs),
    }


_OPEN = """
import sys, time
import echo_npu
with echo_npu.open("rtlmodel", sys.argv[1]) as npu:
    simulator = time.clock_gettime(~npu.backend.simulator.pid << 3 | 2)
    print(time.process_time() + simulator, time.time())
"""


def open_seconds(config: str, rounds: int) -> dict[str, Any]:
    """Return the seconds from the start of Python until a device is ready, with its simulator already
    built."""
    build.build(config)
    runs = []
    for _ in range(rounds):
        start = time.time()
        answer = subprocess.run(
            [sys.executable, "-c", _OPEN, config],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "runtime"), str(ROOT)))},
            stdout=subprocess.PIPE,
            check=True,
        )
        cpu, ready = (float(word) for word in answer.stdout.split())
        runs.append((ready - start, cpu))
    return {"open_s": min(wall for wall, _ in runs), "open_cpu_s": min(cpu for _, cpu in runs)}


def measure(
    config: str,
    *,
    quick: bool = False,
    cocotb: bool = True,
    loads: Sequence[str] = tuple(LOADS),
    since: str = "",
) -> dict[str, Any]:
    """The whole report, as plain data.

    Args:
        config: the hardware configuration.
        loads: names of LOADS.
        since: an earlier commit; its board runs the loads as well.
        quick: a few short runs, to see that everything works; the figures mean little then.
        cocotb: whether (c) is measured; it is built from scratch the first time, which takes minutes.

    Raises: as `earlier_program`.
    """
    earlier = earlier_program(since, config, BARE_MAIN) if since else None
    with echo_npu.open("rtlmodel", config, ring_slots=RING_SLOTS) as device:
        programs = [
            compare(
                LOADS[name](config),
                device,
                2 if quick else 10,
                cocotb=cocotb and name == LAYER,
                earlier=earlier,
            )
            for name in ((LAYER,) if quick else loads)
        ]
        host = host_overhead(LOADS[LAYER](config), device, 1 if quick else 3)
    host |= open_seconds(config, 1 if quick else 3)
    return {
        "config": config,
        "since": since,
        "measure": "cycles for each second of processor time, best run",
        "programs": programs,
        "host": host,
        "goals": GOALS,
    }


def failures(report: dict[str, Any]) -> list[str]:
    """Return violations that do not depend on speed."""
    found = []
    for program in report["programs"]:
        if not program["same_results"]:
            found.append(
                f"{program['name']}: a simulator left other bytes in memory than the functional model"
            )
        if not program["same_cycles"]:
            found.append(f"{program['name']}: harness and bare loop took different numbers of cycles")
    if not report["host"]["same_results"]:
        found.append("the long program left other bytes in memory than the functional model")
    return found


def lines(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    text = [f"configuration {report['config']}; {report['measure']}"]
    names = {"harness": "this harness", "bare": "bare Verilator loop", "cocotb": "cocotb, AxiRam"}
    names["since"] = f"bare loop, {report['since'][:12]}"
    for program in report["programs"]:
        busy = program["harness"]["best"]["busy_cycles"]
        text.append(f"{program['name']}: {program['packets']} packets, {busy} cycles")
        for key, name in names.items():
            if key in program:
                entry = program[key]
                text.append(f"  {name:22} {entry['cycles_per_s']:11,.0f} cycles/s   ({entry['runs']} runs)")
        for key, name in (("harness_to_bare", "harness / bare"), ("harness_to_cocotb", "harness / cocotb")):
            if key in program:
                text.append(f"  {name:22} {program[key]:11.3f}            (goal: {GOALS[key]:g} or more)")
        if "bare_to_since" in program:
            text.append(f"  {'bare / earlier':22} {program['bare_to_since']:11.3f}")
        text.append(
            f"  {'results':22} {'all as the functional model' if program['same_results'] else 'DIFFER'}"
        )
    host = report["host"]
    text += [
        f"host, {host['packets']} packets by submit_batch and wait: {host['host_overhead']:.2%} of the"
        f" simulation (goal: {GOALS['host_overhead']:.0%} or less)",
        f"open() of a built simulator, from a new Python process: {host['open_s']:.2f} s,"
        f" of which {host['open_cpu_s']:.2f} s processor time (goal: {GOALS['open_s']:g} s or less)",
    ]
    return text


def main() -> int:
    """Command line entry point; 1 if results differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="default", help="hardware configuration (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a few short runs of one load")
    parser.add_argument(
        "--load", action="append", choices=tuple(LOADS), help="measure this load (default: all); repeatable"
    )
    parser.add_argument("--since", default="", metavar="COMMIT", help="measure an earlier commit in turn")
    parser.add_argument(
        "--no-cocotb", action="store_true", help="leave out (c), which takes minutes to build"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    arguments = parser.parse_args()
    try:
        report = measure(
            arguments.config,
            quick=arguments.quick,
            cocotb=not arguments.no_cocotb,
            loads=arguments.load or tuple(LOADS),
            since=arguments.since,
        )
    except (ValueError, build.BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(lines(report)))
    wrong = failures(report)
    for failure in wrong:
        print(failure, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
