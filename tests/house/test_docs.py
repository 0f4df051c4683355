"""What the documentation names exists, and its snippets run."""

import dataclasses
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer.main

import echo_npu
import tb.cli
from echo_npu import Blocks, DataType, ErrorCode, Flags, Opcode, OutType
from echo_npu.cli import app
from echo_npu.devices import MOST_DEVICES
from echo_npu.server import protocol
from echo_npu.spec.registers import COUNTERS
from echo_npu.vector.isa import OPERAND_CODES, Form, Instruction, Op, form_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:    .*\n)+")
CODE = re.compile(r"`([^`\n]+)`")
FOLDERS = (
    "benchmarks", "docs", "examples", "ip", "plugins", "rtl", "runtime", "scripts", "spec", "tb", "tests",
)  # fmt: skip
TB = "python-m-tb"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
GENERATED = re.compile(r"^<!-- table of .*?^<!-- end of the table -->", re.MULTILINE | re.DOTALL)
WIDEST = 150
"""Most characters of a line of prose."""
CHILDREN = {"ECHO_NPU_BRIDGE", "ECHO_NPU_LIFELINE", "ECHO_NPU_MEMORY", "ECHO_NPU_PROFILE", "ECHO_NPU_RUNS"}
"""Variables by which a program speaks to its own child processes."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    """Return a page without its fenced code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings} | set(
        re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text(encoding="utf-8"))
    )


def _commands(page: Path) -> list[list[str]]:
    """Return every `make ...`, `echo-npu ...` and `python -m tb ...` of a page, as words."""
    fenced = FENCE.findall(page.read_text(encoding="utf-8"))
    blocks = [body for language, body in fenced if language in ("", "sh")]
    lines = [line for block in [*blocks, *INDENTED.findall(_prose(page))] for line in block.splitlines()]
    found = []
    for line in [*lines, *CODE.findall(_prose(page))]:
        command = line.partition(" # ")[0].strip().removeprefix(".venv/bin/").replace("python -m tb", TB)
        if command.split(" ")[0] in ("make", "echo-npu", TB):
            found.append(shlex.split(command))
    return found


def test_pages_exist() -> None:
    names = {_name(page) for page in PAGES}
    docs = ("architecture", "packets", "registers", "numerics", "running", "performance", "own_rtl")
    assert names >= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{name}.md" for name in docs)}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_resolve(page: Path) -> None:
    for target in LINK.findall(_prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{_name(page)} links to {target}"
        assert file.is_relative_to(ROOT), f"{_name(page)} links out of the repository: {target}"
        if anchor:
            assert anchor in _anchors(file), f"{_name(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_are_named_exist(page: Path) -> None:
    for word in CODE.findall(_prose(page)):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", word):
            assert (ROOT / word).exists(), f"{_name(page)} names {word}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "registers"], ids=_name)
def test_prose_is_wrapped(page: Path) -> None:
    """All but docs/registers.md, which is generated as a whole."""
    assert not _wide(page.read_text(encoding="utf-8")), f"{_name(page)}: wrap these lines"


def _wide(text: str) -> list[str]:
    """Return the lines of prose that are too long. Code, tables and what is generated may be wide."""
    prose = INDENTED.sub("", GENERATED.sub("", FENCE.sub("", text)))
    return [line for line in prose.splitlines() if len(line) > WIDEST and not line.startswith("|")]


def test_wide_prose_is_found() -> None:
    wide = "x" * (WIDEST + 1)
    code, generated = f"```\n{wide}\n```", f"<!-- table of make x -->\n{wide}\n<!-- end of the table -->"
    assert not _wide(f"{wide[1:]}\n\n    {wide}\n\n| {wide} |\n{code}\n{generated}\n")
    assert _wide(f"a\n{wide}\nb\n") == [wide]
    assert _wide(f"- a\n  {wide}\n") == [f"  {wide}"]


def _snippets() -> list[tuple[str, str]]:
    return [
        (_name(page), body)
        for page in PAGES
        for language, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "python"
    ]


@pytest.mark.parametrize(("page", "code"), _snippets(), ids=[page for page, _ in _snippets()])
def test_snippets_run(page: str, code: str) -> None:
    """Run every snippet on the functional model, which is quick."""
    exec(compile(code.replace('"rtlmodel"', '"cmodel"'), page, "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_exist(page: Path) -> None:
    makefile = _text("Makefile")
    targets = set(re.findall(r"^([\w-]+)\s*:(?!=)", makefile, re.MULTILINE))
    groups = {"echo-npu": typer.main.get_group(app), TB: typer.main.get_group(tb.cli.app)}
    for words in _commands(page):
        said = f"{_name(page)} says {shlex.join(words)}"
        if words[0] == "make":
            for word in words[1:]:
                variable, is_setting, _ = word.partition("=")
                if is_setting:
                    assert re.search(rf"\b{variable}\b", makefile), f"{said}: no variable {variable}"
                else:
                    assert word in targets, f"{said}: no target {word}"
        elif len(words) > 1:
            command, rest = groups[words[0]], [word for word in words[1:] if not word.isupper()]
            # A command may be a group of others; a page may say COMMAND for any of them.
            while hasattr(command, "commands") and rest and rest[0] != "--help":
                assert rest[0] in command.commands, f"{said}: no command {rest[0]}"
                command, rest = command.commands[rest[0]], rest[1:]
            options = {"--help", *(option for parameter in command.params for option in parameter.opts)}
            for word in rest:
                if word.startswith("--"):
                    assert word.partition("=")[0] in options, f"{said}: no option {word}"
            if rest and "--help" not in rest and not hasattr(command, "commands"):
                command.make_context(said, words[words.index(command.name) + 1 :])  # refuses illegal values


def _tables(name: str, first: str) -> list[list[list[str]]]:
    """Return the rows, as cells, of each table in page `name` whose first column is `first`."""
    lines = _text(name).splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith(f"| {first} |")]
    bodies = [itertools.takewhile(lambda line: line.startswith("|"), lines[at + 2 :]) for at in heads]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in body] for body in bodies]


def _rows(name: str, first: str) -> list[list[str]]:
    """Return the rows of the first of these tables."""
    return _tables(name, first)[0]


def test_packet_page_has_the_real_numbers() -> None:
    opcodes = {row[1]: int(row[0], 16) for row in _rows("docs/packets.md", "opcode")}
    assert opcodes == {opcode.name: opcode.value for opcode in Opcode}
    flags = {row[0]: 1 << int(row[1]) for row in _rows("docs/packets.md", "flag")}
    assert flags == {flag.name: flag.value for flag in Flags if flag}
    types, outs, blocks = _rows("docs/packets.md", "field")
    assert types[2:] == [dtype.label for dtype in DataType]
    assert outs[2:].index("reserved") == len(OutType)
    assert blocks[2:] == [each.label for each in Blocks]
    for row, field in ((types, Flags.DTYPE), (outs, Flags.OUT), (blocks, Flags.BLOCKS)):
        high, low = (int(bit) for bit in row[1].split(":"))
        assert field == (2 << high) - (1 << low)
    codes = {row[1].partition(":")[0]: int(row[0]) for row in _rows("docs/packets.md", "code")}
    assert codes == {code.name: code.value for code in ErrorCode}


def test_performance_page_has_every_counter() -> None:
    named = {name for row in _rows("docs/performance.md", "counter") for name in CODE.findall(row[0])}
    assert named == {name.lower() for name in COUNTERS}


def test_architecture_page_names_real_modules() -> None:
    named = {name for row in _rows("docs/architecture.md", "module") for name in CODE.findall(row[0])}
    for name in named:
        assert [*(ROOT / "rtl").rglob(f"{name}.sv")], f"there is no module {name}"


def test_architecture_page_has_the_real_configurations() -> None:
    from echo_sim.config import LEGAL, MEMORY, load_config

    rows = _rows("docs/architecture.md", "key")
    assert [row[0].strip("`") for row in rows] == list(LEGAL)
    for key, default, small, legal, _ in rows:
        name = key.strip("`")
        assert legal == f"{LEGAL[name][0]} to {LEGAL[name][-1]}"
        assert int(default) == getattr(load_config("default"), name)
        assert int(small) == getattr(load_config("small"), name)
    sizes = _rows("docs/architecture.md", "size")
    assert [row[0].strip("`") for row in sizes] == list(MEMORY)
    for key, *values, legal, _ in sizes:
        name = key.strip("`")
        assert legal == f"{MEMORY[name][0]} to {MEMORY[name][-1]}"
        named = [load_config(config) for config in ("default", "small", "large")]
        assert [int(value) for value in values] == [getattr(config, name) for config in named]


@pytest.mark.parametrize(("package", "tests"), [("runtime/echo_npu", "tests/runtime"), ("tb", "tests/tb")])
def test_contributing_page_says_where_the_tests_of_a_folder_are(package: str, tests: str) -> None:
    page = _text("CONTRIBUTING.md")
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    elsewhere = {name for name in folders if not (ROOT / tests / name).is_dir()}
    assert {name for name in elsewhere if f"`{package}/{name}/`" not in page} == set()


def test_running_page_names_every_backend() -> None:
    assert {row[0].strip("`") for row in _rows("docs/running.md", "name")} == set(echo_npu.list_backends())


def test_running_page_has_every_variable_of_the_environment() -> None:
    """All that the runtime reads; of the rest of the table, that something reads it."""
    listed = {name for row in _rows("docs/running.md", "variable") for name in CODE.findall(row[0])}
    read = {folder: _environment(folder) for folder in ("runtime", "plugins", "tb", "scripts", "benchmarks")}
    assert read["runtime"] >= CHILDREN
    assert not read["runtime"] - CHILDREN - listed
    assert not listed - set().union(*read.values()) - {"CXX"}


def _environment(folder: str) -> set[str]:
    """Return the variables of ours that the sources in a folder name as text."""
    files = [
        path for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".c", ".cpp", ".hpp", ".h")
    ]
    return {name for path in files for name in re.findall(r'"(ECHO_NPU_[A-Z_]+)"', path.read_text("utf-8"))}


def test_server_page_has_the_real_limits() -> None:
    page, header = _text("docs/server.md"), _text("plugins/runtime/echo_npu_protocol.h")
    (lent,) = re.findall(r"#define ECHO_NPU_MAX_DEVICES (\d+)", header)
    for sentence in (
        f"| HELLO | version u32: {protocol.VERSION}; zero u32 |",
        f"This page describes version {protocol.VERSION};",
        f"number of sources u32, at most {protocol.MAX_SOURCES};",
        f"A graph is a list of at most {protocol.MAX_NODES} nodes",
        f"A server has up to {lent} devices.",
        f"of a Python process are up to {MOST_DEVICES}.",
    ):
        assert sentence in page.replace("\n", " "), sentence
    assert f"A process numbers up to {MOST_DEVICES} NPUs." in _text("docs/sharding.md")


def test_verification_page_shows_a_real_exclusion() -> None:
    (example,) = [body for kind, body in FENCE.findall(_text("docs/verification.md")) if kind == "toml"]
    (shown,) = tomllib.loads(example)["exclusion"]
    real = tomllib.loads(_text("tb/coverage/exclusions.toml"))["exclusion"]
    assert shown in [{"kind": "toggle", **each} for each in real]


def test_vector_page_has_the_real_opcodes() -> None:
    """The page has each opcode's number, mnemonic and number of sources."""
    rows = [row for table in _tables("docs/vector.md", "opcode") for row in table if not row[1].isupper()]
    assert {row[1].split()[0]: int(row[0], 16) for row in rows} == {op.mnemonic: op.value for op in Op}
    for number, syntax, *_ in rows:
        op = Op(int(number, 16))
        if form_of(op) == Form.ALU:
            assert len(Instruction(op).sources) == syntax.count(","), syntax


def test_vector_page_has_the_real_operands() -> None:
    named: dict[str, int] = {}
    for names, codes, *_ in _rows("docs/vector.md", "operand"):
        first, _, last = codes.partition("..")
        numbers = list(range(int(first), int(last) + 1)) if last else [int(code) for code in codes.split(",")]
        bank = re.fullmatch(r"([a-z])0\.\.[a-z]\d+", names)
        listed = [f"{bank[1]}{i}" for i in range(len(numbers))] if bank else names.split(", ")
        named.update(zip(listed, numbers, strict=True))
    assert named == OPERAND_CODES


def test_vector_page_has_the_real_fields() -> None:
    """Each field of an instruction lies where the page says."""
    for bits, what in _rows("docs/vector.md", "bits"):
        high, _, low = bits.partition(":")
        width = int(high) - int(low or high) + 1
        name, value = what.split(":")[0], (1 << width) - 1
        if name == "opcode":
            assert all(op < 1 << width for op in Op)
            continue
        blank = Instruction(Op.ADD)
        filled = dataclasses.replace(blank, **{name: bool(value) if name == "one" else value})
        assert filled.encode() ^ blank.encode() == value << int(low or high), what
