"""A contract that contradicts itself is refused; the message names the place."""

import pytest

from spec.contract import ROOT, SOURCE, ContractError, load, parse
from spec.registers import check_map, compile_map, enumerations_text
from tests.refusals import refuses

TEXT = (ROOT / SOURCE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("place", "old", "new", "message"),
    [
        ("code = ", "0x02\nengine", "0x01\nengine", "opcodes.ADD_TENSOR: code 1 is that of MATMUL"),
        ("code = ", "0xFF\nengine", "0x1_0000_0000\nengine", "opcodes.SYNC: code 4294967296 does not fit"),
        ("code = ", "0x02\nengine", '"x"\nengine', "opcodes.ADD_TENSOR: code is 'x'; it must be int"),
        ('shape = "', '{m}x{n}"', '{m}x{q}"', "shape names 'q'; it is one of m, k, n, count"),
        ("DONE = { code = ", "2", "1", "states.DONE: code 1 is that of BUSY"),
        ("TIMEOUT = { code = ", "17", "256", "errors.TIMEOUT: code 256 does not fit into 8"),
        ('BAD_OPCODE = { code = 1, stages = ["', "check", "chek", "BAD_OPCODE: stage 'chek'; it is one of"),
        ("INT8 = { code = ", "3", "4", "data_types.INT8: code 4 does not fit into 2 bits"),
        ("BIAS = { bit = ", "12", "11", "flags.BIAS: bit 11 belongs to COL_SCALE"),
        ("EXT = { bit = ", "31", "32", "flags.EXT: bit 32 is outside of the 32 bits"),
        ("OUT = { bit = ", "8, width = 2", "5, width = 2", "flags.OUT: bit 5 belongs to DTYPE"),
        (
            "",
            'values = "out_types", ',
            "",
            "flags.OUT: a flag of several bits, and no other one, names its values",
        ),
        ('flags = ["IRQ"', ', "EXT"]\nextensions = 3', "]\nextensions = 3", "opcodes.VECTOR: it has ext"),
        ('flags = ["', 'IRQ"]\nmeaning = "nothing"', 'IRK"]\nmeaning = "nothing"', "NOP: flag 'IRK'; it is"),
        ('engine = "', 'matrix"', 'scalar"', "opcodes.MATMUL: engine 'scalar'; it is one of none, matrix"),
        ('name = "src2_addr", offset = ', "16", "8", "command.src2_addr: byte 8 belongs"),
        ('name = "row_scales", offset = ', "56", "60", "extension: nothing is said of|row_"),
        ('"row_scales_high", offset = ', '60, type = "u32"', '64, type = "u32"', "byte 67"),
        ('name = "entry", offset = ', "4", "5", "vector_extension.*entry"),
        ('name = "k", offset = ', "40", "36", "command.param.k: byte 4 belongs to m"),
        ('value = "', 'EXT1"', 'EXTRA"', "extension.magic: value 'EXTRA' has not the 4 bytes"),
        ('name = "n", offset = 48, type = "', 'i64"', 'i65"', "n: type 'i65'; it is"),
        ('name = "passes", shift = ', "180", "179", "descriptor.passes: bit 179 belongs to segs"),
        ('name = "imm", shift = ', "32, width = 32", "33, width = 32", "imm: bit 64 is outside"),
        ("sub = { code = ", "0x01", "0x00", "instructions.sub: code 0 is that of add"),
        ("end = { code = ", "0x44", "0x80", "instructions.end: code 128 does not fit into 7 bits"),
        ('folds = "', 'imax"', 'imix"', "instructions.fold_imax: folds 'imix'"),
        ("first = 36, count = ", "4", "5", "operands.row: code 40 belongs to acc"),
        ("first = 56, count = ", "8", "9", "operands.param: code 64 is outside of the 64 codes"),
        ("inputs = ", "4 ", "5 ", "vector.inputs: 5, but operands.stream has 4"),
        ("activation = { base = ", "0x1000_0000", "0x0FFF_0000", "regions.activation: byte"),
        ("activation = { base = ", "0x3_0000_0000", "0x2_0000_0000", "large_regions.activation: byte"),
        ("weight = { base = ", "0x1_0000_0000", "0x0_F000_0000", "large_regions.weight: it does not lie"),
        ("tile_depth = ", "64", "48", "blocks.tile_depth: 48 is not a power of two"),
        ("tile_bytes = ", "576", "577", "block_formats.Q4_0: 577 bytes are not aligned"),
        ("default = ", "0.5", "1.5", "knobs.early_read: its default 1.5 is not in 0..1"),
        ('unit = "', 'switch"', 'button"', "knobs.reorder: unit 'button'; it is one of chance"),
        ("", "stall_ar = {", "stall_xx = {", "knobs: the channels are aw, w, b, ar, r"),
        ('"POWER", "', 'KNOB"', 'POWER"', "operations: a name is there twice"),
        ("[", "limits]", "limit]", "contract: unknown key limit"),
        ("MAX_BATCH = { ", "value = 0xFFFF, ", "", "limits.MAX_BATCH: value is missing"),
        ("[", "limits]", "limits", "line"),
    ],
)
def test_a_bad_contract_is_refused(place: str, old: str, new: str, message: str) -> None:
    assert place + old in TEXT
    refuses(ContractError, message, parse, TEXT.replace(place + old, place + new, 1))


def test_the_contract_is_good() -> None:
    assert parse(TEXT) == load()


def test_a_register_map_that_contradicts_the_contract_is_refused() -> None:
    contract = load()
    top = compile_map(enumerations_text(contract, ""))
    check_map(top, contract)
    renamed = parse(TEXT.replace("INT8 = { code", "INT9 = { code", 1))
    refuses(ContractError, "CAP_TYPES", check_map, top, renamed)
    smaller = parse(TEXT.replace("bytes = 0x1_0000,", "bytes = 0x100,", 1))
    refuses(ContractError, "bytes of registers", check_map, top, smaller)


def test_a_state_without_a_name_is_refused_in_the_register_map() -> None:
    without = enumerations_text(load(), "").replace("enum state_e", "enum other_e")
    refuses(ContractError, r"npu\.rdl", compile_map, without)
