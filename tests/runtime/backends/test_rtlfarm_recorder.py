"""Every chunk is a whole: another functional model gets from its beginning to its end."""

import contextlib
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.blame import run_on_model
from echo_npu.backends.rtlfarm.chunk import ChunkResult, CounterMark, RegisterBatch, RunChunk
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.backends.rtlfarm.pages import PAGE, digest_of, pages_of
from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.errors import BackendError, NpuDeviceError
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from echo_sim.numerals import choose_seed
from tests.refusals import refuses
from tests.rtlmodel import programs


class _Shelf:
    """Keeps chunks in place of simulating them, and says that each is equal."""

    def __init__(self, on_result: Callable[[RunChunk, ChunkResult], None]) -> None:
        self.chunks: list[RunChunk] = []
        self._on_result = on_result

    def submit(self, chunk: RunChunk) -> None:
        self.chunks.append(chunk)
        self._on_result(chunk, ChunkResult(chunk.number, 0, {}, False, 0, 0.0, 0.0))

    def drain(self, timeout: float | None = None) -> bool:
        return True

    @property
    def load(self) -> Load:
        return Load(0, 0)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def _farm(chunk_cycles: int, **options: int) -> tuple[echo_npu.Device, _Shelf]:
    backend = RtlfarmBackend(
        "small", FarmOptions(chunk_cycles=chunk_cycles), lambda on_result, _: _Shelf(on_result)
    )
    assert isinstance(backend.workers, _Shelf)
    return echo_npu.Device(backend, **options), backend.workers


def _final(chunk: RunChunk) -> Mapping[int, bytes]:
    return {n: chunk.final.get(n, page.digest) for n, page in chunk.pages.items() if n not in chunk.undefined}


def _check(chunks: list[RunChunk]) -> None:
    for number, chunk in enumerate(chunks):
        assert chunk.number == number
        memory = DeviceMemory()
        run_on_model(chunk, memory)
        for page, wanted in _final(chunk).items():
            content = memory.bytes[page * PAGE : (page + 1) * PAGE].tobytes()
            assert digest_of(content) == wanted, f"chunk {number}, page {page}"
        held = {n for a, b in memory.extents() for n in range(a // PAGE, -(-b // PAGE))}
        stray = [n for n in held - set(chunk.pages) if memory.bytes[n * PAGE : (n + 1) * PAGE].any()]
        assert stray == []
        memory.close()


@pytest.mark.parametrize("chunk_cycles", [1, 1000, 20_000])
def test_random_programs_in_chunks(chunk_cycles: int) -> None:
    rng = np.random.default_rng(choose_seed())
    device, shelf = _farm(chunk_cycles)
    device.memcpy(0x40, programs.image(rng, programs.WEIGHT_BYTES), programs.WEIGHT_BYTES)
    total = 0
    for _ in range(12):
        batch = [each for _ in range(rng.integers(1, 30)) for each in programs.command(rng)]
        total += 1
        with contextlib.suppress(NpuDeviceError):
            if rng.random() < 0.5:
                device.submit_batch(batch)
            else:
                device.execute(batch)
        if rng.random() < 0.3:
            device.memcpy(0x40 + 4 * int(rng.integers(0, 999)), programs.image(rng, 400), 400)
        with contextlib.suppress(NpuDeviceError):
            device.wait()
    device.close()
    assert len(shelf.chunks) >= total
    assert sum(chunk.commands for chunk in shelf.chunks) > total
    _check(shelf.chunks)


def _unwaited(device: echo_npu.Device) -> None:
    """Submit through the window and the ring more than they hold, and wait for nothing."""
    rng = np.random.default_rng(6)
    device.memcpy(0x40, programs.image(rng, programs.WEIGHT_BYTES), programs.WEIGHT_BYTES)
    for number in range(60):
        batch = [each for _ in range(rng.integers(1, 9)) for each in programs.command(rng)]
        if number % 20 < 10:
            device.submit_batch(batch)
        else:
            device.submit(*echo_npu.matmul_packets(0x40, 0x4000, programs.ACTIVATION, 9, 9, 9))


def test_two_runs_are_cut_into_the_same_chunks() -> None:
    """What the host sees of queues is the model's, which knows no time."""
    runs = []
    for _ in range(2):
        device, shelf = _farm(20_000)
        _unwaited(device)
        device.close()
        runs.append([pickle.dumps(chunk) for chunk in shelf.chunks])
    assert len(runs[0]) > 3
    assert runs[0] == runs[1]


def test_a_ring_begins_where_its_chunk_does_unless_the_chunk_comes_to_its_end() -> None:
    device, shelf = _farm(1, ring_slots=16)
    with device:
        for _ in range(9):
            device.submit_batch([echo_npu.nop_packet()] * 5)
            device.wait()
    busy = [chunk for chunk in shelf.chunks if chunk.commands][-9:]
    assert [chunk.state.head for chunk in busy] == [0, 5, 10, 15, 4, 9, 14, 3, 8]
    assert [chunk.ring_shift for chunk in busy] == [0, 5, 10, 0, 4, 9, 0, 3, 8]
    tail = RegisterBatch((WriteReg(regs.RING_TAIL, 2),))
    base = RegisterBatch((WriteReg(regs.RING_BASE, 0x40),))
    reset = RegisterBatch((WriteReg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask),))
    for action in (tail, base, reset):
        assert dataclasses.replace(busy[1], actions=[*busy[1].actions, action]).ring_shift == 0


def _layers(npu: echo_npu.Device, count: int) -> echo_npu.RecordedProgram:
    rng = np.random.default_rng(3)
    weights = npu.tensor(rng.standard_normal((24, 24)).astype(np.float32))
    with npu.record() as program:
        y = x = program.input("x", (8, 24))
        for _ in range(count):
            y = npu.add(npu.softmax(npu.matmul(y, weights)), x)
        program.output("y", y)
    return program


def test_one_submission_is_cut_between_its_commands() -> None:
    device, shelf = _farm(4000)
    program = _layers(device, 60)
    for _ in range(2):
        program.run(x=np.ones((8, 24), np.float32))
    device.close()
    assert sum(chunk.start is not None for chunk in shelf.chunks) >= 4
    for before, after in zip(shelf.chunks, shelf.chunks[1:], strict=False):
        assert before.end == after.start
    _check(shelf.chunks)


def test_weights_are_kept_once() -> None:
    """Chunks that find a page unchanged share its copy, and carry no copy of what the host wrote before."""
    device, shelf = _farm(1)
    weights = device.tensor(np.ones((512, 64), np.float32))
    rows = device.tensor(np.ones((4, 512), np.float32))
    for _ in range(3):
        device.matmul(rows, weights)
    device.close()
    first, *others = [chunk for chunk in shelf.chunks if weights.ptr // PAGE + 3 in chunk.pages]
    assert len(others) >= 2
    for number in range(weights.ptr // PAGE + 1, (weights.ptr + weights.nbytes) // PAGE):
        assert all(chunk.pages[number] is first.pages[number] for chunk in others)
    assert max(chunk.nbytes - len(chunk.pages) * PAGE for chunk in shelf.chunks) < weights.nbytes
    _check(shelf.chunks)


def test_what_the_host_writes_by_itself_is_part_of_the_run() -> None:
    """PyTorch computes on shared memory where the device has no operator."""
    device, shelf = _farm(1_000_000)
    x = device.tensor(np.ones(2000, np.float32))
    device.add(x, x)
    held = device.backend.read_mem(x.ptr, x.nbytes)
    device.backend.exposed(x.ptr, x.nbytes)
    device.backend.read_reg(regs.STATUS)  # asks, and submits nothing
    device.backend.memory.bytes[x.ptr : x.ptr + 4000] = 0  # type: ignore[attr-defined]
    device.add(x, x)
    device.backend.exposed(x.ptr, x.nbytes)
    device.backend.memory.bytes[x.ptr : x.ptr + x.nbytes] = held  # type: ignore[attr-defined]
    device.close()
    _check(shelf.chunks)


def test_a_host_that_writes_by_itself_and_submits_nothing_more() -> None:
    device, shelf = _farm(1_000_000)
    x = device.tensor(np.ones(2000, np.float32))
    device.add(x, x)
    device.backend.exposed(x.ptr, x.nbytes)
    device.backend.memory.bytes[x.ptr : x.ptr + 4000] = 7  # type: ignore[attr-defined]
    device.close()
    _check(shelf.chunks)


def test_rows_of_a_table_are_in_the_chunk_that_reads_them() -> None:
    """The first index and the last one, each row in pages of its own."""
    device, shelf = _farm(1)
    table = device.tensor(np.random.default_rng(1).standard_normal((64, 4 * PAGE // 4)).astype(np.float32))
    device.wait()
    for ids in ([5, 40], [40], [63, 0, 7]):
        device.embedding(table, device.tensor(np.array(ids, np.int32)))
        device.wait()
    device.close()
    _check(shelf.chunks)
    chunk = next(each for each in reversed(shelf.chunks) if each.commands)
    assert {(table.ptr + row * 4 * PAGE) // PAGE for row in (63, 0, 7)} <= set(chunk.pages)
    assert (table.ptr + 30 * 4 * PAGE) // PAGE not in chunk.pages


def test_rows_that_are_scattered_are_in_the_chunk_that_writes_them() -> None:
    """Each row in pages of its own; the rest of the table is not in the chunk."""
    device, shelf = _farm(1)
    table = device.tensor(np.zeros((64, PAGE), np.float32))
    rows = device.tensor(np.random.default_rng(1).standard_normal((3, PAGE)).astype(np.float32))
    device.wait()
    for ids in ([5, 40, 5], [63, 0, 7]):
        device.scatter_rows(table, device.tensor(np.array(ids, np.int64)), rows)
        device.wait()
    device.close()
    _check(shelf.chunks)
    chunk = next(each for each in reversed(shelf.chunks) if each.commands)
    assert {(table.ptr + row * 4 * PAGE) // PAGE for row in (63, 0, 7)} <= set(chunk.pages)
    assert (table.ptr + 30 * 4 * PAGE) // PAGE not in chunk.pages


def test_the_pages_beside_those_of_a_command_are_in_its_chunk() -> None:
    """Hardware that reads or writes beyond an operand finds there what the run has there."""
    source, target = 0x1000_0000, 0x1002_0000
    data = np.random.default_rng(8).integers(0, 256, 5 * PAGE, dtype=np.uint8)
    device, shelf = _farm(1_000_000)
    for address in (source, target):
        device.memcpy(address, data, data.nbytes)
    device.wait()
    device.submit(memcpy_packets(source + 2 * PAGE, target + 2 * PAGE, 64))
    device.close()
    pages = shelf.chunks[-1].pages
    for address in (source, target):
        for number in (1, 2, 3):
            content = data[number * PAGE : (number + 1) * PAGE].tobytes()
            assert pages[address // PAGE + number].digest == digest_of(content)


def test_only_what_a_failed_command_was_to_write_is_undefined() -> None:
    """And only in the chunk in which it fails, or which comes to the error again."""
    device, shelf = _farm(1_000_000)
    table = device.tensor(np.ones((8, PAGE // 2), np.float32))
    good, bad = (device.tensor(np.array([index], np.int32)) for index in (1, 99))
    targets = [device.empty((1, PAGE // 2)) for _ in range(4)]
    pages = [pages_of(np.array([[each.ptr, each.nbytes]])) for each in targets]
    device.counters()
    before = len(shelf.chunks)
    device.embedding(table, good, out=targets[0])
    with pytest.raises(NpuDeviceError):
        device.embedding(table, bad, out=targets[1])
    device.counters()
    device.clear_error()
    with pytest.raises(NpuDeviceError):
        device.execute([echo_npu.NpuCommandPacket(0x77)])  # writes nothing
    device.clear_error()
    device.counters()
    device.embedding(table, good, out=targets[1])
    device.counters()
    device.embedding(table, good, out=targets[2])
    device.close()
    _check(shelf.chunks)
    failing = [each for each in shelf.chunks[before:] if each.undefined]
    assert failing
    assert all(each.undefined == set(pages[1]) for each in failing)
    assert failing[-1].number < shelf.chunks[-1].number
    assert {page for each in shelf.chunks[before:] for page in each.final} >= {
        *pages[0],
        *pages[1],
        *pages[2],
    }


def test_what_was_rung_for_twice_is_one_chunk() -> None:
    """The host looks at the ring's level in between, which the RTL comes to at another time."""
    device, shelf = _farm(1, ring_slots=512)
    device.wait()
    before = len(shelf.chunks)
    for _ in range(2):
        device.submit_batch([echo_npu.nop_packet()] * 230)
    device.wait()
    device.close()
    assert all(chunk.start is None for chunk in shelf.chunks[before:])
    assert sum(chunk.commands for chunk in shelf.chunks[before:]) == 460
    _check(shelf.chunks)


def test_a_command_that_fails_anywhere_around_a_cut() -> None:
    """Whatever was before it counts once, and takes its time."""
    device, shelf = _farm(2000, ring_slots=512)
    x = device.tensor(np.ones(1600, np.float32))
    size = {"m": 1, "k": 1600, "n": 1}
    add = NpuCommandPacket(Opcode.ADD_TENSOR, src1_addr=x.ptr, src2_addr=x.ptr, dst_addr=x.ptr, **size)
    cuts = 0
    for position in range(60):
        device.counters()
        before = len(shelf.chunks)
        device.submit_batch([*[add] * position, NpuCommandPacket(0x77), *[add] * 300])
        with pytest.raises(NpuDeviceError):
            device.wait()
        device.clear_error()
        device.counters()
        made = shelf.chunks[before:]
        assert sum(chunk.commands for chunk in made) == position
        if position == 1:
            each = sum(chunk.estimate for chunk in made)
        elif position:
            assert sum(chunk.estimate for chunk in made) == pytest.approx(position * each)
        cuts += sum(chunk.start is not None for chunk in made)
    device.close()
    assert cuts > 20
    _check(shelf.chunks)


@pytest.mark.parametrize("fails", [False, True])
def test_a_host_that_each_command_stops(fails: bool) -> None:
    """It writes memory and asks for counters while one chunk ends and the next one has begun."""
    device, shelf = _farm(2000, ring_slots=512)
    x, y = device.tensor(np.ones((40, 40), np.float32)), device.empty((40, 40))
    spare = device.tensor(np.ones(300, np.float32))
    device.wait()
    before = len(shelf.chunks)
    device.backend.run([WriteReg(regs.IRQ_ENABLE, 7)])
    size = {"m": 1, "k": 1600, "n": 1}
    add = NpuCommandPacket(
        Opcode.ADD_TENSOR, Flags.IRQ, src1_addr=x.ptr, src2_addr=x.ptr, dst_addr=y.ptr, **size
    )
    last = dataclasses.replace(add, src1_addr=spare.ptr, src2_addr=spare.ptr, **(size | {"k": 300}))
    device.submit_batch([add] * 250 + ([NpuCommandPacket(0x77)] if fails else []) + [last] * 50)
    marks = 0
    for number in range(250):
        assert device.backend.run([WaitIrq(10**6), WriteReg(regs.IRQ_STATUS, 7)]) == [1, 0]
        device.backend.write_mem(spare.ptr + 4 * number, np.full(4, number, np.uint8))
        if number % 7 == 0:
            device.backend.counters_later()
            marks += 1
    with contextlib.suppress(NpuDeviceError):
        device.wait()
    device.close()
    cut = [chunk for chunk in shelf.chunks[before:] if chunk.start is not None]
    assert len(cut) > 3
    for chunk in cut:
        assert chunk.start is not None
        if chunk.end is not None:
            assert chunk.commands == chunk.end.retired - chunk.start.retired
    assert sum(chunk.commands for chunk in shelf.chunks[before:]) == (250 if fails else 300)
    counting = [
        action.number
        for chunk in shelf.chunks
        for index, action in enumerate(chunk.actions)
        if isinstance(action, CounterMark) and index >= chunk.warm
    ]
    assert set(counting) == set(range(marks))
    _check(shelf.chunks)


def test_a_chunk_survives_its_file(tmp_path: Path) -> None:
    device, shelf = _farm(1)
    device.add(np.ones(5, np.float32), np.ones(5, np.float32))
    device.close()
    path = tmp_path / "folder" / "x.chunk"
    shelf.chunks[-1].save(path)
    loaded = RunChunk.load(path)
    assert loaded.number == shelf.chunks[-1].number
    assert _final(loaded) == _final(shelf.chunks[-1])
    assert [each.name for each in path.parent.iterdir()] == ["x.chunk"]
    (tmp_path / "garbage").write_bytes(b"no chunk")
    refuses(BackendError, "is no chunk", RunChunk.load, tmp_path / "garbage")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"jobs": 0}, ValueError, "jobs is 0"),
        ({"jobs": 1.5}, TypeError, "jobs is 1.5"),
        ({"chunk_cycles": 0}, ValueError, "chunk_cycles is 0"),
        ({"sample": 0}, ValueError, "sample is 0"),
        ({"sample": "all"}, TypeError, "sample is 'all'"),
        ({"executor": "localhost"}, ValueError, "executor is 'localhost'"),
        ({"failures": 3}, TypeError, "failures is 3"),
        ({"latency": 0}, ValueError, "latency is 0"),
        ({"waves": True}, TypeError, "rtlfarm has no option 'waves'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        echo_npu.open("rtlfarm", **options)  # type: ignore[arg-type]


def test_a_chunk_knows_what_came_since_the_host_cleared_the_counters() -> None:
    ones = np.ones(900, np.float32)
    device, shelf = _farm(1 << 30)
    with device:
        device.add(ones, ones)
        device.wait()
        device.add(ones, ones)
        device.wait()
        device.add(ones, ones)
        device.clear_counters()
        device.add(ones, ones)
        device.add(ones, ones)
        device.wait()
    _, alone, cleared = shelf.chunks
    assert alone.since_cleared is None
    assert alone.estimate > 0
    assert cleared.estimate == 3 * alone.estimate
    assert cleared.since_cleared == 2 * alone.estimate
