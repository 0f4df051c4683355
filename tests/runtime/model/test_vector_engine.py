"""The functional model of the vector engine compared with a slow interpreter, in blocks of any size."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from echo_npu.commands.vector_command import VectorCommand
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_engine import ProgramFault, VectorModel
from echo_npu.vector.isa import IMMEDIATE, OPERAND_NAMES, Form, Instruction, Op, kind_of
from tb.stimulus.vector_programs import VectorCase, generate
from tests.runtime.model import vector_interpreter as interpreter

VECTOR_LENGTH, ROW_ELEMENTS = 32, 64
MEMORY_BYTES = 1 << 20
BASE = 256
SEEDS = 300


def case_of(seed: int, *, broken: bool = False, entry: int = 5) -> VectorCase:
    sizes = {"vector_length": VECTOR_LENGTH, "row_elements": ROW_ELEMENTS, "work": 6000}
    return generate(seed, base=BASE, entry=entry, broken=broken, **sizes)


def memory_of(case: VectorCase) -> np.ndarray:
    memory = np.full(MEMORY_BYTES, 0xA5, dtype=np.uint8)
    assert case.end < MEMORY_BYTES
    for address, data in case.data.items():
        memory[address : address + len(data)] = np.frombuffer(data, dtype=np.uint8)
    return memory


def programs_of(case: VectorCase) -> ProgramMemory:
    programs = ProgramMemory(256)
    programs.load(case.command.entry, case.words)
    return programs


def run(case: VectorCase, block_elements: int = 1 << 16, widen: bool = True) -> np.ndarray:
    memory = memory_of(case)
    VectorModel(
        memory, programs_of(case), VECTOR_LENGTH, ROW_ELEMENTS, block_elements=block_elements, widen=widen
    ).execute(case.command)
    return memory


def interpreted(case: VectorCase) -> np.ndarray:
    memory = memory_of(case)
    program: list[Instruction | None] = [None] * case.command.entry
    for each in case.instructions:
        program.append(each if isinstance(each, Instruction) else None)
    interpreter.execute(memory, program, case.command, VECTOR_LENGTH, ROW_ELEMENTS)
    return memory


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_random_programs(first: int) -> None:
    """Every byte of memory is the interpreter's, however rows and chunks are grouped."""
    for seed in range(first, first + 25):
        case = case_of(seed)
        expected = interpreted(case)
        assert np.array_equal(run(case), expected), case
        assert np.array_equal(run(case, block_elements=1, widen=False), expected), case
        assert np.array_equal(run(case, block_elements=100), expected), case


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_broken_programs(first: int) -> None:
    """BAD_PROGRAM at the instruction that breaks the rule, and nothing is written."""
    for seed in range(first, first + 25):
        case = case_of(seed, broken=True)
        with pytest.raises(interpreter.BadProgram) as slow:
            interpreted(case)
        assert slow.value.number == case.fault, case
        for widen in (True, False):
            memory = memory_of(case)
            model = VectorModel(memory, programs_of(case), VECTOR_LENGTH, ROW_ELEMENTS, widen=widen)
            with pytest.raises(ProgramFault) as fault:
                model.execute(case.command)
            assert fault.value.number == case.fault, case
            assert np.array_equal(memory, memory_of(case)), case


def test_generator_covers_the_instruction_set() -> None:
    """Opcodes, operand kinds, loop nests and stream shapes all occur among the tested seeds."""
    ops: Counter[Op] = Counter()
    kinds: Counter[str] = Counter()
    features: Counter[str] = Counter()
    for seed in range(SEEDS):
        case = case_of(seed)
        instructions = [each for each in case.instructions if isinstance(each, Instruction)]
        ops.update(each.op for each in instructions)
        for each in instructions:
            if each.form in (Form.ALU, Form.ASET, Form.FOLD):
                kinds.update(f"read {OPERAND_NAMES[code]}" for code in each.sources)
                kinds[f"write {kind_of(each.dst)}"] += 1
                features["one"] += each.one
        loops = "".join(
            {Op.CHUNKS: "c(", Op.REPEAT: "r(", Op.NEXT: ")"}.get(each.op, "") for each in instructions
        )
        features.update(nest for nest in ("c(r())", "r(c())", "c()", "r()") if nest in loops)
        features.update(_features(case.command))
    assert set(ops) == set(Op)
    assert {f"read {name}" for name in OPERAND_NAMES.values()} - set(kinds) == {"read o"}
    assert {f"write {kind}" for kind in "vrawo"} <= set(kinds)
    assert set(features) >= {
        "one", "c(r())", "r(c())", "c()", "r()", "in place", "pack", "bcast", "size 1", "size 2", "size 4",
        "passes", "segments", "output pack", "output segments", "batch0", "batch1", "long row", "same row",
        "output rows overlap", "output batches overlap",
    }  # fmt: skip


def _features(command: VectorCommand) -> set[str]:
    streams = [each for each in command.inputs if each is not None]
    output = command.output
    found = {f"size {each.size}" for each in (*streams, output)}
    found |= {"pack" for each in streams if each.pack} | {"bcast" for each in streams if each.bcast}
    found |= {"passes" for each in streams if each.passes > 1}
    found |= {"segments" for each in streams if each.segments > 1}
    found |= {"in place" for each in streams if each.address == output.address}
    found |= {"same row" for each in streams if command.rows > 1 and not each.row_stride}
    found |= {f"batch{i}" for i in range(2) if command.batch[i] > 1}
    if command.rows > 1 and output.row_stride < output.segment_bytes:
        found.add("output rows overlap")
    if command.batch[0] > 1 and output.batch_strides[0] < output.segment_bytes:
        found.add("output batches overlap")
    found |= {"output pack"} if output.pack else set()
    found |= {"output segments"} if output.segments > 1 else set()
    return found | ({"long row"} if command.cols > ROW_ELEMENTS else set())


def test_generator_covers_the_rules() -> None:
    """Each way of breaking a rule occurs."""
    rules = {case_of(seed, broken=True).rule.partition(":")[0] for seed in range(200)}
    joined = " ".join(sorted(rules))
    for words in (
        "unknown opcode", "bad operand", "next without", "of its kind", "end in a loop", "is not there",
        "a pass too few", "row register", "behind the row's end", "incomplete row",
    ):  # fmt: skip
        assert words in joined, words


def test_generator_repeats_itself() -> None:
    assert case_of(3) == case_of(3)
    assert case_of(3) != case_of(4)


def test_the_end_of_the_loaded_program() -> None:
    """A program without END runs into words that were never loaded."""
    case = case_of(1)
    cut = dataclasses.replace(case, instructions=case.instructions[:-1])
    model = VectorModel(memory_of(cut), programs_of(cut), VECTOR_LENGTH, ROW_ELEMENTS)
    with pytest.raises(ProgramFault) as fault:
        model.execute(cut.command)
    assert fault.value.number == cut.command.entry + len(cut.instructions)


def test_unused_fields_are_not_looked_at() -> None:
    """An opcode decides which fields count; the others, zero in programs, are ignored."""
    case = next(case for case in map(case_of, range(50)) if case.command.output.length > 1)
    changed = []
    for each in case.instructions:
        assert isinstance(each, Instruction)
        if len(each.sources) == 1 and each.a != IMMEDIATE:
            each = dataclasses.replace(each, b=63, c=36)
        changed.append(each)
    assert np.array_equal(run(dataclasses.replace(case, instructions=tuple(changed))), run(case))
