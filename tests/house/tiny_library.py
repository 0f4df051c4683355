"""A technology library of a few cells, as a Liberty file and as numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

ENDS = (0.0, 10.0)
"""Loads and transition times at the ends of all tables, which are linear in between."""


@dataclass(frozen=True)
class TinyCell:
    """A cell with one output, Y or Q. Times are those of a rising and a falling output.

    Attributes:
        function: of Y; empty for the flip-flop.
        pins: the inputs with their loads; the flip-flop's first one is its clock.
        rising_inverts: whether a rising input lets Y fall; None if it may do either.
        delay: without load and with an input that changes at once.
        by_load: what a unit of load adds to the delay; a transition takes twice that and nothing else.
    """

    area: float
    function: str
    pins: dict[str, float]
    rising_inverts: bool | None
    delay: tuple[float, float]
    by_load: tuple[float, float]

    @property
    def output(self) -> str:
        """Name of the output pin."""
        return "Y" if self.function else "Q"

    def causes(self, edge: int) -> tuple[int, ...]:
        """Return the edges of an input that lead to this edge of the output: 0 rises, 1 falls."""
        if not self.function:
            return (0,)
        return (0, 1) if self.rising_inverts is None else (edge ^ self.rising_inverts,)

    def time(self, edge: int, load: float, transition: float) -> float:
        """Return the delay."""
        return self.delay[edge] + self.by_load[edge] * load + BY_TRANSITION * transition

    def transition(self, edge: int, load: float) -> float:
        """Return the output's transition time."""
        return 2 * self.by_load[edge] * load


_INDEX = f'("{", ".join(map(str, ENDS))}")'
BY_TRANSITION = 0.25
SETUP = 0.125
CELLS = {
    "INVX1": TinyCell(16, "(!A)", {"A": 0.01}, True, (0.02, 0.015), (2.0, 1.5)),
    "INVX8": TinyCell(40, "(!A)", {"A": 0.08}, True, (0.02, 0.015), (0.25, 0.1875)),
    "BUFX2": TinyCell(24, "A", {"A": 0.01}, False, (0.05, 0.06), (1.0, 0.75)),
    "NAND2X1": TinyCell(24, "(!(A B))", {"A": 0.012, "B": 0.011}, True, (0.03, 0.02), (2.0, 1.75)),
    "NAND2X4": TinyCell(56, "(!(A B))", {"A": 0.048, "B": 0.044}, True, (0.03, 0.02), (0.5, 0.4375)),
    "NOR2X1": TinyCell(24, "(!(A+B))", {"A": 0.014, "B": 0.013}, True, (0.04, 0.02), (3.0, 1.5)),
    "XOR2X1": TinyCell(56, "(A^B)", {"A": 0.02, "B": 0.021}, None, (0.06, 0.055), (2.5, 2.25)),
    "DFFPOSX1": TinyCell(96, "", {"CLK": 0.02, "D": 0.01}, None, (0.1, 0.125), (2.0, 1.75)),
}


def liberty() -> str:
    """Return the library in Liberty's format."""
    return "\n".join(
        [
            "library(tiny) {",
            '  time_unit : "1ns";',
            "  capacitive_load_unit (1, pf);",
            "  lu_table_template(shape) {",
            "    variable_1 : total_output_net_capacitance;",
            "    variable_2 : input_net_transition;",
            f"    index_1 {_INDEX}; index_2 {_INDEX};",
            "  }",
            *(line for name, cell in CELLS.items() for line in _cell(name, cell)),
            "}",
            "",
        ]
    )


def _cell(name: str, cell: TinyCell) -> Iterator[str]:
    yield f"  cell ({name}) {{ area : {cell.area};"
    clock = "" if cell.function else next(iter(cell.pins))
    if clock:
        yield f'    ff (IQ, IQN) {{ next_state : "D"; clocked_on : "{clock}"; }}'
    for pin, load in cell.pins.items():
        yield f"    pin({pin}) {{ direction : input; capacitance : {load};"
        if pin == clock:
            yield "      clock : true;"
        elif clock:
            yield f'      timing() {{ related_pin : "{clock}"; timing_type : setup_rising;'
            for edge in ("rise", "fall"):
                yield f'        {edge}_constraint(scalar) {{ values ("{SETUP}"); }}'
            yield "      }"
        yield "    }"
    yield f'    pin({cell.output}) {{ direction : output; function : "{cell.function or "IQ"}";'
    for pin in [clock] if clock else cell.pins:
        yield f'      timing() {{ related_pin : "{pin}";'
        if clock:
            yield "        timing_type : rising_edge;"
        else:
            sense = {True: "negative_unate", False: "positive_unate", None: "non_unate"}
            yield f"        timing_sense : {sense[cell.rising_inverts]};"
        for edge, word in enumerate(("rise", "fall")):
            yield _table(f"cell_{word}", [[cell.time(edge, load, each) for each in ENDS] for load in ENDS])
            yield _table(f"{word}_transition", [[cell.transition(edge, load)] * 2 for load in ENDS])
        yield "      }"
    yield "    }"
    yield "  }"


def _table(name: str, rows: list[list[float]]) -> str:
    values = ", ".join(f'"{", ".join(map(str, row))}"' for row in rows)
    return f"        {name}(shape) {{ index_1 {_INDEX}; index_2 {_INDEX}; values ({values}); }}"
