"""Pairs of commands of which one writes what the other uses, for every role of an operand.

The first command is slow (several blocks of a product, several batches), so that the second one does harm if
it does not wait. Operands overlap in their first or last bytes, or in between. The functional model executes
commands one after the other, so a pair that was not kept apart shows in its results.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np

from echo_npu.commands.builders import add_packets, gather_packets, load_program_packets, memcpy_packets
from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.command import as_commands
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import BLOCK_ROWS, TILE_ALIGNMENT, Packet, packed_rows
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.formats import BLOCK
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT
from echo_npu.vector.program import Builder, Program
from echo_sim.config import NpuConfig
from tb.checking import check, loaded_programs
from tb.scoreboards.accuracy import addresses
from tb.stimulus.operands import elements, packed_bytes, stride_options

Slots = Sequence[Packet]
Place = Literal["first", "middle", "last"]

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "matmul": ("src1", "src2", "columns", "rows", "dst"),
    "add": ("src1", "src2", "dst"),
    "memcpy": ("src1", "dst"),
    "vector": ("s0", "s1", "s2", "s3", "dst"),
    "gather": ("table", "indices", "dst"),
    "scatter": ("source", "indices", "dst"),
    "load": ("code",),
}
"""Operands by kind of command."""
PLACES: Final[tuple[Place, ...]] = ("first", "middle", "last")


class Meeting(NamedTuple):
    """An operand of the first command that overlaps one of the second."""

    first: str
    first_role: str
    second: str
    second_role: str


MEETINGS: Final = tuple(
    Meeting(first, first_role, second, second_role)
    for first, first_roles in ROLES.items()
    for second, second_roles in ROLES.items()
    for first_role in first_roles
    for second_role in second_roles
    # One of the two writes, and one is a product, since the vector engine has only one command at a time.
    if "dst" in (first_role, second_role) and "matmul" in (first, second)
)

_PITCH: Final = 1 << 21
"""Bytes between operands, enough that neighbours never overlap."""
_FIRST: Final = 1 << 22
_TABLE_ROWS: Final = 40
"""More than a product of zeros and ones can count."""
_LOADED_AT: Final = 64
"""Program memory address at which freshly written programs are loaded."""


def fold() -> Program:
    """Build o = ((s0 + s1) * p0 + s2) + s3."""
    b = Builder("fold")
    streams = [b.stream(i) for i in range(4)]
    v = b.vector()
    with b.chunks(advance=streams):
        b.add(v, streams[0], streams[1])
        b.fma(v, v, b.param(0), streams[2])
        b.add(b.out, v, streams[3])
    return b.build()


def of_itself(op: str) -> Program:
    """Build o = s0 op s0, `op` being a mnemonic."""
    b = Builder(op)
    x = b.stream(0)
    with b.chunks(advance=[x]):
        getattr(b, op)(b.out, x, x)
    return b.build()


FOLD, DOUBLED, SQUARED = fold(), of_itself("add"), of_itself("mul")


class Draft(NamedTuple):
    """A command without addresses.

    Attributes:
        kind: key of ROLES.
        packets: makes its packets from the addresses, by role.
        contents: makes the given number of bytes of an operand, by role; other operands get floats.
        units: bytes that an operand's address is a multiple of, by role; 4 for others.
    """

    kind: str
    packets: Callable[[Mapping[str, int]], Slots]
    contents: Mapping[str, Callable[[int], bytes]]
    units: Mapping[str, int] = {}


class HazardMaker:
    """Draws pairs of commands. `images` is what device memory must hold before the first."""

    def __init__(self, rng: random.Random, config: NpuConfig) -> None:
        self._random = rng
        self._config = config
        self._values = np.random.default_rng(rng.getrandbits(64))
        self._wide = config.data_width // 64
        self._programs = loaded_programs(config.program_words)
        self._count = 0
        self.images: dict[int, bytes] = {}
        self._drafts: Mapping[str, Callable[[bool, str, bool], Draft]] = {
            "matmul": self._matmul,
            "add": self._add,
            "memcpy": self._memcpy,
            "vector": self._vector,
            "gather": self._gather,
            "scatter": self._scatter,
        }

    def forget(self) -> None:
        """Free the memory of earlier commands, which have been executed."""
        self._count = 0
        self.images.clear()

    def loads(self) -> Slots:
        """Return the command that loads the programs of VECTOR commands; it must come first."""
        at = self._fresh()
        self.images[at] = FOLD.code + DOUBLED.code
        return load_program_packets(at, len(FOLD) + len(DOUBLED), 0)

    def pair(self, meeting: Meeting, place: Place | None = None, meets: Place | None = None) -> Slots:
        """Draw the two commands of a meeting, possibly with unrelated ones before or between them.

        `place` and `meets` say where the operands of the first and of the second command overlap.
        """
        pick = self._random
        at: Place = place if place is not None else pick.choice(PLACES)
        other: Place = meets if meets is not None else pick.choice(PLACES)
        while True:
            slots: list[Packet] = []
            images = dict(self.images)
            count = self._count
            for _ in range(pick.choice((0, 0, 1))):
                slots += self._placed(self._draft("matmul", slow=True), {})[0]
            try:
                slots += self._meeting(meeting, at, other)
            except PacketFault:  # two operands of one command overlap
                self.images, self._count = images, count
                continue
            return slots

    def _meeting(self, meeting: Meeting, place: Place, meets: Place) -> Slots:
        pick = self._random
        if meeting.first == "load":
            return self._code_is_overwritten()
        if meeting.second == "load":
            return self._code_is_written()
        indices = "indices" in (meeting.first_role, meeting.second_role)
        first = self._draft(meeting.first, slow=True, role=meeting.first_role, counts=indices)
        second = self._draft(meeting.second, slow=False, role=meeting.second_role, counts=indices)
        slots, operands, command = self._placed(first, {})
        at = _byte(operands[meeting.first_role], command.batch, place, pick)
        for _ in range(pick.choice((0, 0, 0, 1, 2))):
            slots = [*slots, *self._placed(self._draft(pick.choice(("matmul", "memcpy")), slow=False), {})[0]]
        shape, command = self._shape(second)
        offset = _byte(shape[meeting.second_role], command.batch, meets, pick)
        unit = second.units.get(meeting.second_role, 4)
        address = at // unit * unit - (offset - shape[meeting.second_role].address) // unit * unit
        return [*slots, *self._placed(second, {meeting.second_role: address})[0]]

    # --- commands ---

    def _draft(self, kind: str, *, slow: bool, role: str = "", counts: bool = False) -> Draft:
        return self._drafts[kind](slow, role, counts)

    def _matmul(self, slow: bool, role: str, counts: bool) -> Draft:
        """Draft a product, of several blocks if `slow`; with `counts`, of zeros and ones in int32."""
        pick, config = self._random, self._config
        tile = config.array_rows
        if slow:
            m, k, n, batch = self._slow_product()
        else:
            m, k, n = (pick.randint(1, tile + 2) for _ in range(3))
            batch = pick.choice(((1, 1), (1, 1), (1, 2), (2, 2)))
        if not counts and config.has_blocks and pick.random() < (0.5 if role == "src2" else 0.2):
            return self._packed_matmul(
                m, max(1, k // BLOCK) * BLOCK, n, batch, vectors=role in ("columns", "rows")
            )
        dtype = DataType.INT8 if counts else pick.choice((DataType.FP32, DataType.FP32, *DataType))
        if counts:
            k = min(k, _TABLE_ROWS - 1)
        vectors = not counts and (role in ("columns", "rows") or pick.random() < 0.3)
        out = OutType.INT32 if counts else pick.choice((OutType.FLOAT32, OutType.OWN))
        trans_a, trans_b = pick.random() < 0.5, pick.random() < 0.5
        half_b = dtype == DataType.FP32 and pick.random() < 0.3
        right = DataType.FP16 if half_b else dtype
        size1, size2, out_size = dtype.itemsize, right.itemsize, out.itemsize(dtype)
        stored = [(k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n), (m, n)]
        strides = [
            self._strides(rows, columns * each, batch, each, written=each_is == 2)
            for each_is, ((rows, columns), each) in enumerate(
                zip(stored, (size1, size2, out_size), strict=True)
            )
        ]

        def packets(at: Mapping[str, int]) -> Slots:
            return matmul_packets(
                at["src1"],
                at["src2"],
                at["dst"],
                m,
                k,
                n,
                dtype=dtype,
                half_b=half_b,
                out=out,
                trans_a=trans_a,
                trans_b=trans_b,
                alpha=None if counts else 0.5,
                row_scales=at["rows"] if vectors else None,
                column_vectors=at["columns"] if vectors else None,
                column_scale=vectors,
                bias=vectors,
                batch=batch,
                **stride_options(*strides),
            )

        contents = {
            role: self._bits if counts else partial(elements, self._values, kind)
            for role, kind in (("src1", dtype), ("src2", right))
        }
        return Draft("matmul", packets, contents | ({"dst": self._indices} if counts else {}))

    def _slow_product(self) -> tuple[int, int, int, tuple[int, int]]:
        """Draw m, k, n and batches of a product of several blocks that takes some thousand clocks, or as many
        as small blocks allow."""
        pick, config = self._random, self._config
        tile, block_n = config.array_rows, config.block_n_tiles
        block_k = config.block_k_tiles * tile
        batches = ((1, 1), (1, 2), (2, 1), (2, 2), (3, 2))
        most = (config.block_m + tile) * max(block_k + tile + 1, 4 * block_k) * (block_n + 1) * tile * 6
        least = min(1500, most // tile**2 // 2)
        while True:
            m = pick.choice((tile + 1, config.block_m + pick.randint(1, tile)))
            k = pick.choice((tile + 1, block_k + tile + 1, 4 * block_k))
            n = pick.choice((tile + 1, block_n * tile + pick.randint(1, tile)))
            batch = pick.choice(batches)
            if least < m * k * n * batch[0] * batch[1] // tile**2 < 12000:
                return m, k, n, batch

    def _packed_matmul(self, m: int, k: int, n: int, batch: tuple[int, int], *, vectors: bool) -> Draft:
        """Draft a product with weights in blocks."""
        blocks, dtype = (
            self._random.choice([each for each in Blocks if each]),
            self._random.choice(BLOCK_ROWS),
        )
        down, row_bytes = packed_rows(blocks, k, n)
        strides = (
            self._strides(m, dtype.itemsize * k, batch, dtype.itemsize),
            self._strides(down, row_bytes, batch, blocks.tile_bytes),
            self._strides(m, 4 * n, batch, 4, written=True),
        )

        def packets(at: Mapping[str, int]) -> Slots:
            return matmul_packets(
                at["src1"],
                at["src2"],
                at["dst"],
                m,
                k,
                n,
                dtype=dtype,
                blocks=blocks,
                alpha=0.5,
                row_scales=at["rows"] if vectors else None,
                column_vectors=at["columns"] if vectors else None,
                column_scale=vectors,
                bias=vectors,
                batch=batch,
                **stride_options(*strides),
            )

        contents = {"src2": partial(packed_bytes, self._values, blocks)}
        return Draft("matmul", packets, contents, {"src2": TILE_ALIGNMENT})

    def _add(self, slow: bool, role: str, counts: bool) -> Draft:
        count = 1500 * self._wide if slow else self._random.randint(1, 20)
        return Draft("add", lambda at: add_packets(at["src1"], at["src2"], at["dst"], count, alpha=0.25), {})

    def _memcpy(self, slow: bool, role: str, counts: bool) -> Draft:
        pick = self._random
        rows = 60 * self._wide if slow else pick.randint(1, 3)
        nbytes = 4 * pick.randint(1, 10)
        batch = pick.choice(((1, 3), (2, 2), (3, 1))) if slow else pick.choice(((1, 1), (1, 2)))
        source = self._strides(rows, nbytes, batch, 4)
        result = self._strides(rows, nbytes, batch, 4, written=True)
        return Draft(
            "memcpy",
            lambda at: memcpy_packets(
                at["src1"],
                at["dst"],
                nbytes,
                rows=rows,
                batch=batch,
                **stride_options(source, result),
            ),
            {},
        )

    def _vector(self, slow: bool, role: str, counts: bool) -> Draft:
        pick = self._random
        rows, cols = (12 * self._wide, 40) if slow else (pick.randint(1, 3), pick.randint(1, 12))
        batch = pick.choice(((1, 2), (2, 1), (2, 2))) if slow else pick.choice(((1, 1), (1, 2)))
        strides = [self._strides(rows, 4 * cols, batch, 4, written=i == 4) for i in range(5)]
        strides = [(row or 4 * cols, inner, outer) for row, inner, outer in strides]

        def packets(at: Mapping[str, int]) -> Slots:
            streams = [
                Stream(at[name], row_stride=row, batch_strides=(inner, outer))
                for name, (row, inner, outer) in zip(ROLES["vector"], strides, strict=True)
            ]
            command = vector_command(
                0,
                rows=rows,
                cols=cols,
                batch=batch,
                inputs=streams[:4],
                output=streams[4],
                params=[0.5],
                passes=FOLD.passes,
            )
            return command.packets()

        return Draft("vector", packets, {})

    def _gather(self, slow: bool, role: str, counts: bool) -> Draft:
        pick = self._random
        rows = 150 * self._wide if slow else pick.randint(1, 6)
        nbytes = 4 * pick.randint(1, 4)
        return Draft(
            "gather",
            lambda at: gather_packets(at["table"], at["indices"], at["dst"], rows, nbytes, _TABLE_ROWS),
            {"indices": self._indices},
        )

    def _scatter(self, slow: bool, role: str, counts: bool) -> Draft:
        """Draft a VECTOR that scatters rows, each twice the source's."""
        pick = self._random
        rows = 60 * self._wide if slow else pick.randint(1, 6)
        cols, gap = pick.randint(1, 8), 4 * pick.randint(0, 3)
        # A product writes int32.
        wide = role != "indices" and pick.random() < 0.5

        def packets(at: Mapping[str, int]) -> Slots:
            return vector_command(
                len(FOLD),
                rows=rows,
                cols=cols,
                inputs=[Stream(at["source"], row_stride=4 * cols)],
                output=Stream(at["dst"], row_stride=4 * cols + gap),
                passes=DOUBLED.passes,
                indices=RowIndices(at["indices"], _TABLE_ROWS, wide),
            ).packets()

        return Draft("scatter", packets, {"indices": self._wide_indices if wide else self._indices})

    # --- programs as operands ---

    def _code_is_written(self) -> Slots:
        """Let a product write a program that a LOAD_PROGRAM reads."""
        code, source = SQUARED.code, self._fresh()
        self.images[source] = DOUBLED.code
        load = load_program_packets(source, len(SQUARED), _LOADED_AT)
        return [*self._written(code, source, slow=True), *load, *self._run()]

    def _code_is_overwritten(self) -> Slots:
        """Let a product overwrite a program that a LOAD_PROGRAM is reading."""
        words = self._config.program_words - _LOADED_AT - 8
        source = self._fresh()
        end = source + 8 * words
        code = DOUBLED.code
        self.images[source] = bytes(8 * words - len(code)) + code
        load = load_program_packets(source, words, _LOADED_AT)
        written = self._written(SQUARED.code, end - len(SQUARED.code), slow=False)
        return [*load, *written, *self._run(_LOADED_AT + words - len(DOUBLED))]

    def _written(self, data: bytes, at: int, *, slow: bool) -> Slots:
        """Return an int8 product whose result is `data`; all but its last products are zero."""
        rows, depth = len(data), 2000 if slow else 1
        left = np.zeros((rows, depth), np.int8)
        left[:, -1] = np.frombuffer(data, np.int8)
        right = np.zeros((depth, 1), np.int8)
        right[-1] = 1
        src1, src2 = self._fresh(), self._fresh()
        self.images[src1], self.images[src2] = left.tobytes(), right.tobytes()
        return matmul_packets(src1, src2, at, rows, depth, 1, dtype="int8", out=OutType.OWN)

    def _run(self, entry: int = _LOADED_AT) -> Slots:
        """Return a VECTOR of the loaded program."""
        source, dst = self._fresh(), self._fresh()
        self.images[source] = self._floats(80)
        return vector_command(
            entry, rows=1, cols=20, inputs=[Stream(source)], output=Stream(dst), passes=DOUBLED.passes
        ).packets()

    # --- places ---

    def _strides(
        self, rows: int, nbytes: int, batch: tuple[int, int], unit: int, *, written: bool = False
    ) -> tuple[int, int, int]:
        """Draw strides of rows, inner and outer batches; those of a destination (`written`) do not
        overlap."""
        pick = self._random
        row = pick.choice((0, -(-nbytes // unit) * unit + unit * pick.randint(0, 9)))
        matrix = rows * (row or nbytes) + unit * pick.randint(0, 20)
        if written:
            if pick.random() < 0.5:
                return row, matrix, matrix * batch[0]
            return row, matrix * batch[1], matrix
        steps = (0, unit * pick.randint(1, 20), matrix)
        return row, pick.choice(steps), pick.choice(steps)

    def _fresh(self) -> int:
        """Return an address with free space on both sides."""
        region = self._random.choice((WEIGHT, ACTIVATION))
        self._count += 1
        assert _FIRST + (self._count + 1) * _PITCH < region.size, "more commands than memory has room for"
        return region.base + _FIRST + self._count * _PITCH + 64 * self._random.randrange(64)

    def _shape(self, draft: Draft) -> tuple[dict[str, MemoryOperand], CheckedCommand]:
        """Return the operands by role, each placed separately."""
        at = {role: _FIRST + i * _PITCH for i, role in enumerate(ROLES[draft.kind])}
        return self._operands(draft, draft.packets(at))

    def _operands(
        self, draft: Draft, slots: Sequence[Packet]
    ) -> tuple[dict[str, MemoryOperand], CheckedCommand]:
        command = check(as_commands(slots)[0], self._programs, blocks=self._config.has_blocks)
        assert command.dst is not None
        roles = [role for role in ROLES[draft.kind] if role != "dst"]
        return dict(zip(roles, command.sources, strict=False)) | {"dst": command.dst}, command

    def _placed(
        self, draft: Draft, where: Mapping[str, int]
    ) -> tuple[Slots, dict[str, MemoryOperand], CheckedCommand]:
        """Return a draft with operands at the addresses in `where`, or at fresh ones, and fill them.

        Raises PacketFault if it is illegal there.
        """
        at = {role: where.get(role) or self._fresh() for role in ROLES[draft.kind]}
        slots = draft.packets(at)
        operands, command = self._operands(draft, slots)
        for role, operand in operands.items():
            # Fill destinations too, so that a premature read shows.
            contents = draft.contents.get(role, self._floats)
            data = contents(operand.extent(command.batch) + 3 & ~3)
            # Keep the end of a longer image at the same address.
            self.images[operand.address] = data + self.images.get(operand.address, b"")[len(data) :]
        return slots, operands, command

    def _floats(self, nbytes: int) -> bytes:
        return elements(self._values, DataType.FP32, nbytes)

    def _indices(self, nbytes: int) -> bytes:
        return self._values.integers(0, _TABLE_ROWS, nbytes // 4).astype("<i4").tobytes()

    def _wide_indices(self, nbytes: int) -> bytes:
        return self._values.integers(0, _TABLE_ROWS, nbytes // 8).astype("<i8").tobytes()

    def _bits(self, nbytes: int) -> bytes:
        return self._values.integers(0, 2, nbytes).astype(np.int8).tobytes()


def _byte(operand: MemoryOperand, batch: tuple[int, int], place: Place, rng: random.Random) -> int:
    """Return the address of a byte of an operand."""
    runs = addresses(operand, batch).reshape(-1)
    if place == "first":
        return int(runs.min())
    if place == "last":
        return int(runs.max()) + operand.row_bytes - 1
    return int(rng.choice(runs)) + rng.randrange(operand.row_bytes)
