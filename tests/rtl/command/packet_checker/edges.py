"""Cases that break two rules at once, and cases in which ranges just meet or just do not."""

import itertools
import random
from collections.abc import Iterator, Sequence

from echo_npu.commands.packets import Opcode
from echo_npu.spec.status import ErrorCode
from tests.rtl.command.packet_checker.oracle import (
    ADDRESS_HIGH,
    ADDRESS_LOW,
    DST_OPERAND,
    ERROR,
    FIRST,
    LAST,
    expected,
    operand_word,
)
from tests.rtl.command.packet_checker.rules import Changes, PacketRule, independent, rules_of
from tests.rtl.command.packet_checker.sound import (
    ADDRESSES,
    DST,
    EXTENSION,
    EXTENSIONS_OF,
    GUARD_BASE,
    GUARD_SIZE,
    INDICES,
    STREAMS,
    M,
    sound,
    stream_word,
)

ATTEMPTS = 400
"""Packets that are drawn before a case counts as out of reach."""

GUARD_EDGES = {
    "the first byte of the range": True,
    "the last byte of the range": True,
    "the range within dst": True,
    "dst within the range": True,
    "a range that ends with the address space": True,
    "just below the range": False,
    "just behind the range": False,
    "a range of no byte": False,
}
"""Relations of a destination and the protected range; whether the command is refused."""

NEAR = 8
"""Bytes: operands that are aligned can meet or miss each other by less."""

Case = list[int]


def pairs(rng: random.Random) -> Iterator[Case]:
    """Draw, for all pairs of rules of all opcodes, packets that break the first, the second and both.

    The answer for both is that for the first. Raises: AssertionError if a pair is out of reach.
    """
    for opcode in Opcode:
        for first, second in itertools.combinations(rules_of(opcode), 2):
            if independent(first, second):
                yield from _pair(rng, opcode, first, second)


def _pair(rng: random.Random, opcode: Opcode, first: PacketRule, second: PacketRule) -> list[Case]:
    for _ in range(ATTEMPTS):
        words = sound(rng, opcode)
        assert expected(words)[ERROR] == ErrorCode.NONE, f"a refused {opcode.name}: {words}"
        one, other = first.spoil(rng, words), second.spoil(rng, words)
        if one.keys() & other.keys():
            continue
        cases = [_with(words, one), _with(words, other), _with(words, one | other)]
        wins, loses, both = (_refusal(case) for case in cases)
        if wins[0] in first.codes and loses[0] in second.codes and wins != loses:
            # If both are about one address, that of the answer has what is wrong of both.
            same = both[0] == wins[0] if first.operand == second.operand != "" else both == wins
            assert same, f"{opcode.name}: {second.name} wins over {first.name}"
            return cases
    raise AssertionError(f"{opcode.name}: never both {first.name} and {second.name}")


def guard_edges(rng: random.Random) -> Iterator[Case]:
    """Draw, for all opcodes with a destination, every relation of it and the protected range."""
    for opcode in Opcode:
        for edge, refused in GUARD_EDGES.items() if "dst" in ADDRESSES[opcode] else ():
            words = sound(rng, opcode)
            answer = expected(words)
            first, last = (answer[operand_word(DST_OPERAND, word)] for word in (FIRST, LAST))
            base, size = {
                "the first byte of the range": (last, 64),
                "the last byte of the range": (first - 63, 64),
                "the range within dst": (first + 1, 1),
                "dst within the range": (first - 64, last - first + 128),
                "a range that ends with the address space": (first, (1 << 32) - first),
                "just below the range": (last + 1, 1 << 31),
                "just behind the range": (first - 64, 64),
                "a range of no byte": (first, 0),
            }[edge]
            case = _with(words, {GUARD_BASE: base, GUARD_SIZE: size})
            wanted = ErrorCode.PROTECTED if refused else ErrorCode.NONE
            assert _refusal(case)[0] == wanted, f"{opcode.name}: {edge}"
            yield case


def overlap_edges(rng: random.Random) -> Iterator[Case]:
    """Draw, for all sources of all opcodes, a destination that meets or just misses it at either end."""
    for opcode in Opcode:
        sources = [name for name in ADDRESSES[opcode] if "dst" in ADDRESSES[opcode] and name != "dst"]
        for (place, name), meets, below in itertools.product(
            enumerate(sources), (True, False), (True, False)
        ):
            yield _overlap_edge(rng, opcode, place, ADDRESSES[opcode][name], meets=meets, below=below)
    yield from _in_place(rng)
    yield from _nearly_in_place(rng)


def _overlap_edge(
    rng: random.Random, opcode: Opcode, place: int, word: int, *, meets: bool, below: bool
) -> Case:
    for _ in range(ATTEMPTS):
        words = sound(rng, opcode)
        answer = expected(words)
        source, target = (
            [answer[operand_word(operand, end)] for end in (FIRST, LAST)] for operand in (place, DST_OPERAND)
        )
        # The source's last byte beside the destination's first, or the other way round.
        move = target[0] - source[1] if below else target[1] - source[0]
        case = _with(words, {word: words[word] + move + rng.randint(-NEAR, NEAR)})
        first, last = case[word], case[word] + source[1] - source[0]
        common = min(last, target[1]) - max(first, target[0]) + 1
        wanted = ErrorCode.OVERLAP if meets else ErrorCode.NONE
        if (1 <= common <= 4 if meets else -4 < common <= 0) and _refusal(case)[0] == wanted:
            return case
    raise AssertionError(f"{opcode.name}: never {'just' if meets else 'no'} overlap with operand {place}")


def _in_place(rng: random.Random) -> Iterator[Case]:
    """Draw destinations that are a source, for all opcodes: refused, or not where it is exactly the same."""
    for opcode, word in itertools.product(Opcode, (2, 4)):
        if "dst" not in ADDRESSES[opcode] or word not in ADDRESSES[opcode].values():
            continue
        wanted = {int(ErrorCode.OVERLAP)}
        if opcode == Opcode.VECTOR:
            wanted.add(int(ErrorCode.NONE))
        elif opcode == Opcode.ADD_TENSOR:
            wanted = {int(ErrorCode.NONE)}
        for _ in range(ATTEMPTS):
            words = sound(rng, opcode)
            case = _with(words, {word: words[DST]})
            if _refusal(case)[0] in wanted:
                wanted.discard(_refusal(case)[0])
                yield case
        assert not wanted, f"{opcode.name}: never {wanted} in place"


def _nearly_in_place(rng: random.Random) -> Iterator[Case]:
    """Draw, for all inputs of a VECTOR, a destination that is that input but for one difference."""
    for stream, name in enumerate(list(ADDRESSES[Opcode.VECTOR])[: STREAMS - 1]):
        words = sound(rng, Opcode.VECTOR)
        places = stream, STREAMS - 1
        words[M], words[EXTENSION + 2], words[EXTENSION + 15] = 2, 1, 0
        words[ADDRESSES[Opcode.VECTOR][name]] = words[DST]
        input_last, output_last = (1 | int(each < STREAMS - 1) << 20 | 1 << 28 for each in places)
        words[stream_word(stream, 5)], words[stream_word(STREAMS - 1, 5)] = input_last, output_last
        words[stream_word(stream, 4)] = words[stream_word(STREAMS - 1, 4)]
        assert _refusal(words)[0] == ErrorCode.NONE, f"{name} in place"
        yield words
        short = 4 * words[stream_word(stream, 4)] - 4
        different: dict[str, Changes] = {
            "inner batches": {EXTENSION + 2: 2},
            "outer batches": {EXTENSION + 3: 2, stream_word(STREAMS - 1, 2): 0x1000},
            "segments": {stream_word(each, 5): words[stream_word(each, 5)] + 1 for each in places},
            "length": {stream_word(stream, 4): words[stream_word(stream, 4)] - 1},
            "size": {stream_word(stream, 5): input_last | 1 << 24},
            "passes": {stream_word(stream, 5): input_last + (1 << 20)},
            "row stride": {stream_word(stream, 0): words[stream_word(stream, 0)] + 4},
            "rows that overlap": {stream_word(each, 0): short for each in places},
        }
        if stream != INDICES:
            listed = {stream_word(INDICES, 4): 1, stream_word(INDICES, 5): 1 | 1 << 20 | 1 << 28}
            different["a scatter"] = {EXTENSION + 15: 2, **listed}
        for what, changes in different.items():
            case = _with(words, changes)
            assert _refusal(case)[0] == ErrorCode.OVERLAP, f"{name} in place but for {what}"
            yield case


def _with(words: Sequence[int], changes: Changes) -> Case:
    case = list(words)
    for place, value in changes.items():
        case[place] = value
    has_extension = case[1] >> 31
    kept = EXTENSIONS_OF.get(case[0], 0) if has_extension else 0
    case[EXTENSION + 16 * kept : EXTENSION + 48] = [0] * (48 - 16 * kept)
    return case


def _refusal(case: Case) -> tuple[int, int, int]:
    """Return error and address, two words."""
    answer = expected(case)
    return answer[ERROR], answer[ADDRESS_LOW], answer[ADDRESS_HIGH]
