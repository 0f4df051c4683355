"""The coverage plan: everything that is counted, why, and what is unreachable.

Commands are sampled when the scoreboard has compared their results. Device states are counted by the board in
each clock (board/npu_cover.sv). Sizes are classified relative to the hardware, so configurations share bins.
"""

from echo_npu.commands.packets import BLOCK_ROWS
from echo_npu.spec.contract import ERROR_STAGES, Blocks, DataType, Opcode
from tb.functional.model import CoverAxis, CoverGroup, Cross, ExcludedBins

TYPES = tuple(dtype.label for dtype in DataType)
HALF_B = "fp32_fp16"
PRODUCT_TYPES = (*TYPES, HALF_B)
"""Types of the operands of a product: of both, or fp32 by fp16."""
MOVES = ("copy", "rows", "add", "gather")
_SHORT = {Opcode.MEMCPY: "copy", Opcode.ADD_TENSOR: "add", Opcode.LOAD_PROGRAM: "load"}
OPCODE_LABELS = {opcode: _SHORT.get(opcode, opcode.name.lower()) for opcode in Opcode}
OPCODES = tuple(OPCODE_LABELS.values())
STEPS = ("alpha", "row_scale", "col_scale", "bias", "relu")
STEP_SETS = tuple(
    "+".join(step for place, step in enumerate(STEPS) if number >> place & 1) or "none"
    for number in range(1 << len(STEPS))
)
PLACES = ("dense", "strided", "inner", "outer", "both")
PACKED_FORMATS = tuple(each.label for each in Blocks if each)
BLOCK_KINDS = ("ordinary", "zeros", "special", "subnormal")
TILES = ("one", "part", "whole", "ragged", "blocks")
ALIGNMENTS = ("beat", "word", "odd")
HAZARDS = ("none", "adjacent", "raw", "war", "waw")
UNDER_WAY = ("idle", "M", "V", "MM", "MV", "VM", "MMV", "MVM", "VMM")
ENGINES = ("idle", "matrix", "vector", "both")
PHASES = ("wait", "head", "extension", "ext_check", "check", "issue", "drain", "fail", "error", "reset")
RING = ("empty", "one", "fetched", "more", "full")
CHECK_CODES, SUBMIT_CODES, ENGINE_CODES = (
    tuple(code.name for code, stages in ERROR_STAGES.items() if stage in stages)
    for stage in ("check", "submit", "engine")
)
CAUSES = ("done", "error", "command")

_CHECKED = "each command that the scoreboard has compared"
_CLOCK = "the board, in each clock"
_BIT_SETS = tuple(
    "".join(name[0] for bit, name in enumerate(CAUSES) if n >> bit & 1) or "-" for n in range(8)
)

_UNDER_WAY = CoverAxis("under_way", UNDER_WAY, "commands in the engines, the oldest first")
_ENGINES = CoverAxis("engines", ENGINES, "which engines have a command")
_PHASE = CoverAxis("phase", PHASES, "what the command processor does")
_WINDOW = CoverAxis("window", ("empty", "some", "full"), "the window queue")
_RING = CoverAxis("ring", RING, "slots in the ring; up to 8 are fetched ahead")
_SOURCE = CoverAxis("source", ("window", "ring"), "where the packet came from")
_MORE = CoverAxis("behind", ("nothing", "more"), "whether window or ring has packets behind the failing one")

COMMANDS = CoverGroup(
    "commands",
    _CHECKED,
    (
        CoverAxis("kind", (*OPCODES, "rows"), "every opcode; a copy with and without an extension"),
        CoverAxis("irq", ("quiet", "irq"), "the IRQ flag"),
        CoverAxis(
            "memory",
            ("steady", "aw", "w", "b", "ar", "r", "reorder", "one_read", "one_write", "quick", "slow"),
            "the memory's pattern: the channels that hold back at least every other cycle, bursts that "
            "overtake, one burst at a time, a latency of up to 3 or of more than 40 cycles",
        ),
    ),
    (
        Cross("kind_irq", ("kind", "irq"), "every command can raise the interrupt"),
        Cross("kind_memory", ("kind", "memory"), "every command meets every stall pattern"),
    ),
)

MATMUL = CoverGroup(
    "matmul",
    "each product without weights in blocks that the scoreboard has compared",
    (
        CoverAxis("dtype", PRODUCT_TYPES, "type of both operands, or of each"),
        CoverAxis("out", ("float32", "own", "int32"), "type of the result"),
        CoverAxis("layout", ("nn", "tn", "nt", "tt"), "which operands are stored transposed"),
        CoverAxis("steps", STEP_SETS, "what happens to an element after its sum"),
        CoverAxis("m", TILES, "rows: 1, part of a tile, whole tiles, several and a part, more than a block"),
        CoverAxis("k", TILES, "depth, in the words of the array; otherwise as rows"),
        CoverAxis("n", TILES, "columns; otherwise as rows"),
        CoverAxis("places", PLACES, "leading dimensions and batches"),
        CoverAxis("align_a", ("beat", "element"), "start of src1 on the bus"),
        CoverAxis("align_b", ("beat", "element"), "start of src2"),
        CoverAxis("align_c", ("beat", "element"), "start of dst"),
    ),
    (
        Cross("types", ("dtype", "out", "layout"), "every type in every layout to every result"),
        Cross("epilogue", ("dtype", "out", "steps"), "every set of steps on every type"),
        Cross("sizes", ("dtype", "m", "k", "n"), "every combination of sizes against array and blocks"),
        Cross("placed", ("dtype", "layout", "places"), "strides and batches of every layout"),
        Cross(
            "aligned", ("dtype", "align_a", "align_b", "align_c"), "all three operands anywhere on the bus"
        ),
    ),
    (
        ExcludedBins(
            {"dtype": (*TYPES[:3], HALF_B), "out": ("int32",)}, "int32 results are for int8 only (BAD_FLAGS)"
        ),
        ExcludedBins({"out": ("int32",), "steps": STEP_SETS[1:]}, "an int32 result has no steps (BAD_FLAGS)"),
    ),
)

PACKED = CoverGroup(
    "packed",
    "each product with weights in blocks that the scoreboard has compared; not every configuration has any",
    (
        CoverAxis("format", PACKED_FORMATS, "format of the weights"),
        CoverAxis("type", tuple(each.label for each in BLOCK_ROWS), "type of the rows"),
        CoverAxis("steps", STEP_SETS, "what happens to an element after its sum"),
        CoverAxis("m", TILES, "rows, as those of other products"),
        CoverAxis(
            "k",
            ("block", "whole", "odd", "panels"),
            "depth: one block, whole tiles, an odd number of blocks, more than a panel",
        ),
        CoverAxis("n", TILES, "columns, as those of other products"),
        CoverAxis(
            "takes",
            ("blocks", "halves"),
            "what a tile of the array takes: whole blocks, or half of one, whose sums wait for the rest",
        ),
        CoverAxis("places", PLACES, "leading dimensions and batches"),
        CoverAxis("align_a", ("beat", "element"), "start of src1 on the bus"),
        CoverAxis("align_c", ("beat", "element"), "start of dst"),
        CoverAxis(
            "meets",
            ("weights_written", "rows_written", "weights_overwritten"),
            "the command before writes its weights, or its rows; the one behind overwrites its weights",
        ),
        CoverAxis("blocks", BLOCK_KINDS, "kinds of blocks of src1; the converter treats each in its own way"),
        CoverAxis(
            "beside",
            ("same", "other", *PRODUCT_TYPES),
            "the product before: of this or another format, or type",
        ),
    ),
    (
        Cross("epilogue", ("format", "steps"), "every set of steps on every format"),
        Cross("types", ("type", "format", "m"), "every number of rows of both types"),
        Cross("rows", ("format", "m", "k"), "every number of rows of every depth"),
        Cross("columns", ("format", "n", "k"), "every number of columns of every depth"),
        Cross("taken", ("takes", "format", "m"), "every number of rows on arrays of both kinds"),
        Cross("placed", ("format", "places"), "strides and batches of every format"),
        Cross("aligned", ("format", "align_a", "align_c"), "rows and results anywhere on the bus"),
        Cross("contents", ("format", "blocks"), "every kind of block beside weights of every format"),
        Cross("hazards", ("format", "meets"), "weights and rows that a neighbour writes"),
        Cross("sequence", ("format", "beside"), "rows of two types follow each other in the array"),
    ),
)

MOVED = CoverGroup(
    "moves",
    "each MEMCPY, ADD_TENSOR and GATHER that the scoreboard has compared",
    (
        CoverAxis("op", MOVES, "rows is MEMCPY with an extension"),
        CoverAxis(
            "size",
            ("part", "beat", "beats", "ragged", "page"),
            "bytes of a row: beats of the bus, or over 4 KiB",
        ),
        CoverAxis("src", ALIGNMENTS, "start of the first source: on a beat, a multiple of 4, or anywhere"),
        CoverAxis("dst", ALIGNMENTS, "start of the destination"),
        CoverAxis("rows", ("one", "several"), "rows of a copy"),
        CoverAxis("batch", ("none", "inner", "outer", "both"), "batches of a copy"),
        CoverAxis(
            "src_rows", ("again", "dense", "gaps"), "rows of the source: one over the other, dense, apart"
        ),
        CoverAxis("dst_rows", ("dense", "gaps"), "rows of the destination"),
    ),
    (
        Cross("aligned", ("op", "size", "src", "dst"), "every realignment of every length"),
        Cross("places", ("rows", "batch", "src_rows", "dst_rows"), "every walk of a copy"),
    ),
    tuple(
        ExcludedBins({"op": ("add",), end: ("odd",)}, "ADD_TENSOR takes multiples of 4 (MISALIGNED)")
        for end in ("src", "dst")
    ),
)

VECTOR = CoverGroup(
    "vector",
    "each VECTOR command that the scoreboard has compared",
    (
        CoverAxis("inputs", ("0", "1", "2", "3", "4"), "input streams"),
        CoverAxis(
            "cols",
            ("lanes", "chunk", "row", "long"),
            "a row: up to the lanes, to a register, to a row register, more",
        ),
        CoverAxis("rows", ("one", "several"), "rows"),
        CoverAxis("batch", ("none", "inner", "outer", "both"), "batches"),
        CoverAxis("out_size", ("4", "2", "1"), "bytes of an element of the output"),
        CoverAxis("align", ("beat", "element"), "start of the output on the bus"),
    ),
    (
        Cross("shape", ("inputs", "cols", "rows"), "every number of streams of every length"),
        Cross("output", ("out_size", "align", "cols"), "every way of packing a result"),
        Cross("batches", ("batch", "rows", "inputs"), "every walk"),
    ),
)

SCATTERED = CoverGroup(
    "scatters",
    "each VECTOR command with a list of indices that the scoreboard has compared",
    (
        CoverAxis("index", ("int32", "int64"), "type of the indices"),
        CoverAxis("size", ("4", "2", "1"), "bytes of an element of the table"),
        CoverAxis("table", ("one", "dense", "gaps"), "a table of one row, of dense rows, of rows apart"),
        CoverAxis("rows", ("one", "several"), "indices of a batch"),
        CoverAxis("batch", ("none", "inner", "outer", "both"), "batches"),
        CoverAxis("list", ("again", "dense", "gaps"), "indices of a batch: one for all rows, dense, apart"),
    ),
    (
        Cross("tables", ("index", "size", "table"), "every type of index for every table"),
        Cross("walks", ("index", "rows", "batch"), "every walk through either list"),
        Cross("lists", ("index", "list"), "every spacing of either list"),
    ),
)

STREAMS = CoverGroup(
    "streams",
    "each input stream of a VECTOR command that the scoreboard has compared",
    (
        CoverAxis("number", ("s0", "s1", "s2", "s3"), "which one"),
        CoverAxis("size", ("4", "2", "1"), "bytes of an element"),
        CoverAxis("form", ("plain", "bcast", "segments", "packed", "passes"), "how a row is read"),
        CoverAxis("align", ("beat", "element"), "start on the bus"),
    ),
    (
        Cross("forms", ("number", "size", "form"), "every port in every form"),
        Cross("aligned", ("number", "size", "align"), "every port from anywhere"),
    ),
)


def _all_but(*opcodes: str) -> tuple[str, ...]:
    return tuple(opcode for opcode in OPCODES if opcode not in opcodes)


_NO_MEMORY = "NOP and SYNC touch no memory"
_ONLY_VECTOR = "LOAD_PROGRAM writes program memory, which only VECTOR reads"
_ONLY_LOAD = "only LOAD_PROGRAM writes program memory"
_FENCES = ("nop", "sync")
_MEETINGS = HAZARDS[1:]
NEIGHBOURS = CoverGroup(
    "neighbours",
    "two commands, one directly behind the other, that the scoreboard has compared together",
    (
        CoverAxis("before", OPCODES, "the opcode before"),
        CoverAxis("after", OPCODES, "the opcode behind it"),
        CoverAxis(
            "hazard",
            HAZARDS,
            "what they share, from first to last byte: the second reads what the first writes (raw), writes "
            "what it reads (war), writes what it writes (waw), or begins or ends where it does (adjacent); "
            "program memory counts: LOAD_PROGRAM writes it, VECTOR reads it",
        ),
        CoverAxis("before_type", PRODUCT_TYPES, "of two products in a row"),
        CoverAxis("after_type", PRODUCT_TYPES, "of two products in a row"),
    ),
    (
        Cross("pairs", ("before", "after", "hazard"), "every pair of opcodes with every hazard between them"),
        Cross("products", ("before_type", "after_type", "hazard"), "products overlap in the matrix engine"),
    ),
    (
        ExcludedBins({"before": _FENCES, "hazard": _MEETINGS}, _NO_MEMORY),
        ExcludedBins({"after": _FENCES, "hazard": _MEETINGS}, _NO_MEMORY),
        ExcludedBins(
            {"before": ("load",), "after": _all_but("vector", "load"), "hazard": ("raw",)}, _ONLY_VECTOR
        ),
        ExcludedBins(
            {"before": ("load",), "after": ("load",), "hazard": ("raw", "war")},
            "LOAD_PROGRAM reads memory and writes program memory",
        ),
        ExcludedBins({"before": ("load",), "after": _all_but("load"), "hazard": ("waw",)}, _ONLY_LOAD),
        ExcludedBins({"before": _all_but("load"), "after": ("load",), "hazard": ("waw",)}, _ONLY_LOAD),
        ExcludedBins({"before": _all_but("vector"), "after": ("load",), "hazard": ("war",)}, _ONLY_VECTOR),
    ),
)

QUEUES = CoverGroup(
    "queues",
    _CLOCK,
    (
        CoverAxis("level", tuple(map(str, range(17))), "packets in the window queue"),
        _WINDOW,
        _RING,
        CoverAxis("wrapped", ("straight", "wrapped"), "whether the tail of the ring is below its head"),
        _UNDER_WAY,
    ),
    (
        Cross("sources", ("window", "ring"), "both ways of submission, waiting at once"),
        Cross("ends", ("ring", "wrapped"), "the end of the ring at every level"),
        Cross(
            "waiting",
            ("window", "under_way"),
            "every set of commands in the engines, and the queue behind it",
        ),
    ),
    (ExcludedBins({"ring": ("empty",), "wrapped": ("wrapped",)}, "the tail of an empty ring is its head"),),
)

_ONE_VECTOR = "the vector engine takes one command"
STARTS = CoverGroup(
    "starts",
    _CLOCK,
    (
        CoverAxis("what", ("matrix", "vector"), "the engine that takes a command"),
        _SOURCE,
        _UNDER_WAY,
        CoverAxis("held", ("fence", "matrix", "vector"), "a checked packet that waits"),
        CoverAxis(
            "reason",
            ("all_before", "bytes", "engine", "both"),
            "what it waits for: its bytes, or room in its engine",
        ),
    ),
    (
        Cross("ways", ("what", "source"), "both engines from both sources"),
        Cross(
            "overlaps",
            ("what", "under_way"),
            "what an engine starts beside; the oldest may retire in the same clock",
        ),
        Cross("waits", ("held", "reason"), "every reason to wait"),
    ),
    (
        ExcludedBins({"under_way": ("MMV", "MVM", "VMM")}, "three commands are the most that are under way"),
        ExcludedBins({"what": ("vector",), "under_way": ("V", "MV", "VM")}, _ONE_VECTOR),
        ExcludedBins(
            {"held": ("fence",), "reason": ("bytes", "engine", "both")}, "a fence waits for all before it"
        ),
        ExcludedBins(
            {"held": ("matrix", "vector"), "reason": ("all_before",)}, "only NOP and SYNC are fences"
        ),
    ),
)

ERRORS = CoverGroup(
    "errors",
    _CLOCK,
    (
        CoverAxis("check", CHECK_CODES, "a packet that is refused"),
        CoverAxis("fetch", ("packet", "extension"), "a slot of the ring that cannot be read"),
        CoverAxis("submit", SUBMIT_CODES, "a doorbell that is refused"),
        CoverAxis("engine", ENGINE_CODES, "a command that fails in its engine"),
        CoverAxis("failing", ("matrix", "vector"), "that engine"),
        CoverAxis(
            "younger", ("none", "same", "other", "several"), "commands under way behind it, by their engine"
        ),
        _SOURCE,
        _ENGINES,
        _MORE,
        _WINDOW,
    ),
    (
        Cross("checks", ("check", "source", "engines"), "every refusal while the engines do anything"),
        Cross("dropped", ("check", "source", "behind"), "the queue behind a refused packet"),
        Cross("fetches", ("fetch", "engines"), "an unreadable slot while the engines do anything"),
        Cross("submissions", ("submit", "engines"), "a refused doorbell while the engines do anything"),
        Cross("executions", ("engine", "failing", "younger"), "whose error it is, and what stops with it"),
        Cross("left", ("engine", "failing", "behind"), "the queue behind a failing command"),
    ),
    (
        ExcludedBins(
            {"engine": ("BAD_PROGRAM", "BAD_INDEX"), "failing": ("matrix",)},
            "programs and indices are the vector engine's",
        ),
        ExcludedBins({"failing": ("vector",), "younger": ("same",)}, _ONE_VECTOR),
    ),
)

RESETS = CoverGroup(
    "resets",
    _CLOCK,
    (
        CoverAxis("reset", ("hard", "soft"), "rst_n, or CONTROL.soft_reset"),
        _PHASE,
        _UNDER_WAY,
        _WINDOW,
        _RING,
        CoverAxis("host", ("none", "reads", "writes", "both"), "bursts of the host that are under way"),
    ),
    (
        Cross("phases", ("reset", "phase"), "a reset in every state of the command processor"),
        Cross("engines", ("reset", "under_way"), "a reset while the engines do anything"),
        Cross("queue", ("reset", "window"), "a reset of a queue that is not empty"),
        Cross("ring_left", ("reset", "ring"), "a reset of a ring that is not empty"),
        Cross("host_traffic", ("reset", "host"), "a reset while the host reads and writes"),
    ),
)

CONTROLS = CoverGroup(
    "controls",
    _CLOCK,
    (
        CoverAxis("action", ("doorbell", "tail", "clear_error"), "what the host does"),
        _PHASE,
        _WINDOW,
        _RING,
    ),
    (
        Cross("phases", ("action", "phase"), "every action in every state"),
        Cross("cleared", ("window", "ring"), "what is dropped when an error is cleared"),
    ),
)

INTERRUPTS = CoverGroup(
    "interrupts",
    _CLOCK,
    (
        CoverAxis("status", _BIT_SETS, "IRQ_STATUS: d(one), e(rror), c(ommand)"),
        CoverAxis("enable", _BIT_SETS, "IRQ_ENABLE"),
        CoverAxis("cause", CAUSES, "an event"),
        CoverAxis("mask", ("masked", "enabled"), "whether the cause is enabled"),
        CoverAxis("pending", ("new", "pending"), "whether its bit is set already"),
        CoverAxis("clear", ("alone", "cleared"), "whether the host clears that bit in the same clock"),
    ),
    (
        Cross("levels", ("status", "enable"), "the output of every pair of registers"),
        Cross("causes", ("cause", "mask", "pending"), "every event"),
        Cross("races", ("cause", "clear"), "an event and its clear in one clock"),
    ),
)

HOST = CoverGroup(
    "host",
    _CLOCK,
    (
        CoverAxis("request", ("write", "read"), "a burst of the host that is accepted"),
        _ENGINES,
        _PHASE,
        CoverAxis(
            "answer",
            ("write_slverr", "write_decerr", "read_slverr", "read_decerr"),
            "a burst that is refused",
        ),
    ),
    (
        Cross("beside", ("request", "engines"), "host traffic while the engines work"),
        Cross("phases", ("request", "phase"), "host traffic in every state"),
        Cross("refused", ("answer", "engines"), "refused host traffic while the engines work"),
    ),
)

PLAN = (
    *(COMMANDS, MATMUL, PACKED, MOVED, VECTOR, STREAMS, SCATTERED, NEIGHBOURS),
    *(QUEUES, STARTS, ERRORS, RESETS, CONTROLS, INTERRUPTS, HOST),
)
"""All groups, in the order of the report."""
