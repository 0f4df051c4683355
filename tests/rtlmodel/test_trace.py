"""Timelines, read back: they agree with the counters, and are complete or marked as cut."""

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, NpuDeviceError, SimulatorError, matmul_packets, memcpy_packets
from echo_npu.trace.timeline import TraceCutWarning

pytestmark = pytest.mark.sim

RNG = np.random.default_rng(3)
LEFT, RIGHT = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((40, 30), (30, 50)))

COUNTED = {
    "device busy": "busy_cycles",
    "matrix engine busy": "matrix_busy",
    "vector engine busy": "vector_busy",
    "stall: operand data": "stall_read",
    "stall: room for results": "stall_write",
    "stall: memory bus": "stall_bus",
}
"""The counter of each track."""


class Reader:
    """A timeline file by its tracks."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        self.events: list[dict[str, Any]] = json.loads(text)
        names = {
            event["tid"]: event["args"]["name"] for event in self.events if event["name"] == "thread_name"
        }
        self.tracks: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in self.events:
            if event["ph"] == "X":
                self.tracks[names[event["tid"]]].append(event)

    def total(self, prefix: str, fact: str | None = None) -> int:
        """Return the sum of cycles, or of a fact, over all slices of the tracks with this prefix."""
        found = [slice_ for name, track in self.tracks.items() if name.startswith(prefix) for slice_ in track]
        return sum(slice_["dur"] if fact is None else slice_["args"][fact] for slice_ in found)

    def counted(self, prefix: str) -> int:
        """Return the sum of a counter over all windows."""
        found = [event for event in self.events if event["ph"] == "C" and event["name"].startswith(prefix)]
        return sum(next(iter(event["args"].values())) for event in found)

    def commands(self) -> list[dict[str, Any]]:
        """Return the commands in the order of retirement."""
        found = [
            slice_
            for name, track in self.tracks.items()
            if ("commands" in name.split() and not name.startswith("read")) or name == "fences"
            for slice_ in track
        ]
        return sorted(found, key=lambda each: (each["ts"] + each["dur"], each["args"]["index"]))


def work(npu: Device) -> list[str]:
    """Run commands of every kind on both engines, through window and ring; return their names in order."""
    a, b, c = npu.tensor(LEFT), npu.tensor(RIGHT, region="weight"), npu.empty((40, 50))
    with npu.span("products"):
        npu.submit([*matmul_packets(a.ptr, b.ptr, c.ptr, 40, 30, 50), echo_npu.sync_packet()])
        npu.wait()
    with npu.record() as program:
        npu.silu(npu.softmax(c))
        npu.matmul(a, b)
        npu.copy(c[:, ::2])
        npu.add(c, c)
    with npu.span("program"):
        program.run()
    return [
        "MATMUL 40x30x50",
        "SYNC",
        "softmax 40x50",
        "silu 1x2000",
        "MATMUL 40x30x50",
        "MEMCPY 1000x4 bytes",
        "ADD_TENSOR 2000 elements",
    ]


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["no stalls", "stalls"])
def traced(
    request: pytest.FixtureRequest, config: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Reader, dict[str, int], list[str]]]:
    """A timeline, the device's counters and the names of its commands."""
    path = tmp_path_factory.mktemp("trace") / "timeline.json"
    with echo_npu.open("rtlmodel", config=config, trace=path, stalls=request.param) as npu:
        names = work(npu)
        counters = npu.counters()
        beat_bytes = npu.capabilities.data_width // 8
    return Reader(path), counters | {"beat_bytes": beat_bytes}, names


Traced = tuple[Reader, dict[str, int], list[str]]


def test_sums_are_the_counters(traced: Traced) -> None:
    reader, counters, _ = traced
    for track, counter in COUNTED.items():
        assert reader.total(track) == counters[counter], track
    assert counters["matrix_busy"] > 0
    assert counters["vector_busy"] > 0
    for direction in ("read", "write"):
        beats = counters[f"{direction}_beats"]
        assert reader.total(f"{direction}: ", "beats") == beats > 0
        assert reader.total(f"{direction}: ", "bytes") == beats * counters["beat_bytes"]
        assert reader.counted(f"{direction} bytes") == beats * counters["beat_bytes"]
    assert reader.counted("multiply-accumulates") == counters["macs"] == 2 * 40 * 30 * 50
    assert len(reader.commands()) == counters["commands"]


def test_slices_of_a_track_follow_one_another(traced: Traced) -> None:
    reader, _, _ = traced
    for name, track in reader.tracks.items():
        ordered = sorted(track, key=lambda each: each["ts"])
        assert all(each["dur"] > 0 for each in ordered), name
        for before, after in itertools.pairwise(ordered):
            assert before["ts"] + before["dur"] <= after["ts"], name


def test_commands_have_their_names_and_order(traced: Traced) -> None:
    reader, _, names = traced
    commands = reader.commands()
    assert [each["name"] for each in commands] == names
    assert [each["args"]["index"] for each in commands] == list(range(len(names)))
    product = commands[0]["args"]
    assert product["opcode"] == "MATMUL"
    assert product["shape"] == "40x30x50"
    assert int(product["dst"], 16) == int(commands[2]["args"]["s0"], 16)
    assert 0 < product["engine cycles"] <= commands[0]["dur"]
    assert {"matrix commands", "vector commands", "fences"} <= reader.tracks.keys()


def test_what_lies_inside_what(traced: Traced) -> None:
    """Commands lie within the device's busy time, and within the operations that the host names."""
    reader, _, _ = traced

    def inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
        return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]

    spans = {each["name"]: each for each in reader.tracks["operations"]}
    for command in reader.commands():
        span = spans["products" if command["args"]["index"] < 2 else "program"]
        assert inside(command, span)
        assert any(inside(command, busy) for busy in reader.tracks["device busy"])
    for engine in ("matrix", "vector"):
        rows = [track for name, track in reader.tracks.items() if name.startswith(f"{engine} commands")]
        around = [each for row in rows for each in row]
        for busy in reader.tracks[f"{engine} engine busy"]:
            assert any(each["ts"] <= busy["ts"] < each["ts"] + each["dur"] for each in around)


def test_transfers_name_their_client(traced: Traced) -> None:
    reader, _, _ = traced
    clients = {name for name in reader.tracks if name.startswith(("read: ", "write: "))}
    assert {"read: commands", "read: matrix A", "read: matrix B", "read: vector s0"} <= clients
    assert {"write: matrix C", "write: vector"} <= clients
    first = reader.tracks["read: matrix A"][0]
    assert first["args"]["first address"] == reader.commands()[0]["args"]["src1"]


def test_packets_waiting(traced: Traced) -> None:
    reader, _, _ = traced
    levels = [event["args"] for event in reader.events if event["name"] == "packets waiting"]
    assert max(level["queue"] for level in levels) > 0
    assert max(level["ring"] for level in levels) > 2
    assert levels[-1] == {"queue": 0, "ring": 0}


def test_tracing_changes_no_cycle(config: str, tmp_path: Path) -> None:
    counters = []
    for options in ({}, {"trace": tmp_path / "timeline.json"}):
        with echo_npu.open("rtlmodel", config=config, stalls=0.2, **options) as npu:
            work(npu)
            counters.append(npu.counters() | {"cycle": npu.status().cycle_count})
    assert counters[0] == counters[1]


def test_a_compressed_file_and_the_front_door(config: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json.gz"
    with echo_npu.open("rtlmodel", config=config, trace=path, access="frontdoor") as npu:
        npu.matmul(LEFT, RIGHT)
        beats = npu.counters()
    reader = Reader(path)
    assert reader.total("read: ", "beats") == beats["read_beats"]
    assert reader.total("write: ", "beats") == beats["write_beats"]
    assert {"read: host", "write: host"} <= reader.tracks.keys()


def test_after_an_error_and_a_reset_the_names_are_right_again(config: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    with echo_npu.open("rtlmodel", config=config, trace=path) as npu:
        ids = npu.tensor(np.array([99], np.int32))
        table, out = npu.tensor(LEFT), npu.empty((1, 30))
        gather = echo_npu.gather_packets(table.ptr, ids.ptr, out.ptr, 1, 120, 40)
        npu.submit([*memcpy_packets(table.ptr, out.ptr, 8), *gather, echo_npu.nop_packet()])
        with pytest.raises(NpuDeviceError) as caught:
            npu.wait()
        npu.clear_error()
        npu.memcpy(out, table, 16)
        npu.reset()
        npu.memcpy(out, table, 32)
    reader = Reader(path)
    commands = reader.commands()
    found = [(each["name"], each["args"]["index"], "stopped" in each["args"]) for each in commands]
    assert found[:3] == [
        ("MEMCPY 8 bytes", 0, False),
        ("GATHER 1x40x120", 1, True),
        ("MEMCPY 16 bytes", 2, False),
    ]
    assert found[1][1] == caught.value.packet
    assert found[-1] == ("MEMCPY 32 bytes", 0, False)
    assert found[-2][0].startswith("LOAD_PROGRAM")


def test_a_timeline_with_too_many_events_is_cut(config: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    with echo_npu.open("rtlmodel", config=config, trace=path, trace_events=20) as npu:
        with pytest.warns(TraceCutWarning, match=r"is cut at cycle \d+: .*limit of 20 events"):
            npu.matmul(LEFT, RIGHT)
        npu.matmul(LEFT, RIGHT)
        cycles = npu.status().cycle_count
    events = Reader(path).events
    (cut,) = [event for event in events if event["ph"] == "i"]
    assert cut["name"].startswith("cut: ")
    assert len(events) < 100
    assert cut["ts"] < cycles
    assert max(event["ts"] for event in events if "ts" in event) == cut["ts"]


def test_a_simulator_that_dies_leaves_a_whole_file_that_says_so(config: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    with echo_npu.open("rtlmodel", config=config, trace=path) as npu:
        npu.matmul(LEFT, RIGHT)
        os.kill(npu.info()["simulator"]["pid"], signal.SIGKILL)
        with pytest.raises(SimulatorError):
            npu.matmul(LEFT, RIGHT)
        with pytest.warns(TraceCutWarning, match="the simulator had ended"):
            npu.close()
    reader = Reader(path)
    assert [each["name"] for each in reader.commands()] == ["MATMUL 40x30x50"]
    assert reader.events[-1]["name"] == "cut: the simulator had ended"


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_program_that_ends_without_closing(config: str, tmp_path: Path, end: str) -> None:
    path = tmp_path / "timeline.json"
    program = f"""
import os, signal, sys
import numpy as np
import echo_npu
npu = echo_npu.open("rtlmodel", config={config!r}, trace={str(path)!r})
npu.matmul(np.ones((40, 30), np.float32), np.ones((30, 50), np.float32))
{end}
"""
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=300)
    text = path.read_text()
    if "SIGKILL" in end:  # an array without its end, which viewers accept
        assert not text.rstrip().endswith("]")
        text += "]"
    names = [event["name"] for event in json.loads(text)]
    assert "MATMUL 40x30x50" in names


def test_what_cannot_be_traced(config: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the backend cmodel has no cycles"):
        echo_npu.open("cmodel", config=config, trace=tmp_path / "timeline.json")
    with pytest.raises(ValueError, match=r"cannot be written to .*No such file or directory"):
        echo_npu.open("rtlmodel", config=config, trace=tmp_path / "nowhere" / "timeline.json")
    with pytest.raises(TypeError, match="trace is 5"):
        echo_npu.open("rtlmodel", config=config, trace=5)


def test_the_command_line(config: str, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from echo_npu.cli import main; main()", *words]
        command += ["--config", config]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)

    path = tmp_path / "timeline.json"
    result = run("matmul", "40", "30", "50", "--trace", str(path), "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    (command,) = Reader(path).commands()
    assert command["name"] == "MATMUL 40x30x50"
    assert command["dur"] <= report["cycles"]

    result = run("layer", "tiny", "--trace", str(path), "--json")
    assert result.returncode == 0, result.stderr
    operations = {each["name"]: each["dur"] for each in Reader(path).tracks["operations"]}
    for line in json.loads(result.stdout)["ops"]:
        assert operations[line["name"]] >= line["cycles"]

    shapes = [word for shape in ("8x8x8", "16x8x8") for word in ("--shape", shape)]
    result = run("bench", "gemm", *shapes, "--dtype", "fp32", "--trace", str(path), "--json")
    assert result.returncode == 0, result.stderr
    assert [each["name"] for each in Reader(path).tracks["operations"]] == ["fp32 16x8x8", "fp32 8x8x8"]

    result = run("matmul", "4", "4", "4", "--trace", str(path), "--backend", "cmodel")
    assert result.returncode == 2
    assert "no cycles" in result.stderr
