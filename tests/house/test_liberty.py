"""Liberty files: cells, tables and templates; and files that are none."""

from pathlib import Path

import pytest

from scripts.synth.liberty import Cell, LibertyError, read_library
from scripts.synth.timing import Analysis, Delay, LongestPath
from tests.house.netlists import netlist

LIBRARY = """
/* a comment with { in it */
library(tiny) {
  lu_table_template(by_load) {
    variable_1 : total_output_net_capacitance;
    variable_2 : input_net_transition;
    index_1 ("1, 2");
    index_2 ("1, 2");
  }
  lu_table_template(by_transition) {
    variable_1 : input_net_transition;
    variable_2 : total_output_net_capacitance;
    index_1 ("1, 2");
    index_2 ("1, 2");
  }
  cell (INVX1) {
    area : 16;
    pin(A) { direction : input; capacitance : 0.5; }
    pin(Y) {
      direction : output;
      timing() {
        related_pin : "A";
        timing_sense : negative_unate;
        cell_rise(by_load) { index_1 ("0, 1"); index_2 ("0, 2"); values ("1, 3", "5, 7"); }
        rise_transition(by_load) { index_1 ("0, 1"); index_2 ("0, 2"); values ("0, 0", \\
          "0, 0"); }
        cell_fall(by_transition) { index_1 ("0, 2"); index_2 ("0, 1"); values ("1, 5", "3, 7"); }
        fall_transition(scalar) { values ("0.25"); }
      }
    }
  }
  cell (TBUFX1) {
    area : 99;
    pin(A) { direction : input; }
    pin(Y) { direction : output; three_state : "EN'"; }
  }
  cell (DFFX1) {
    area : 96;
    ff (IQ, IQN) { next_state : "D"; clocked_on : "CLK"; }
    pin(CLK) { direction : input; capacitance : 0.125; clock : true; }
    pin(D) {
      direction : input;
      capacitance : 0.25;
      timing() {
        related_pin : "CLK";
        timing_type : setup_rising;
        rise_constraint(scalar) { values ("0.75"); }
        fall_constraint(scalar) { values ("0.5"); }
      }
      timing() {
        related_pin : "CLK";
        timing_type : hold_rising;
        rise_constraint(scalar) { values ("0.875"); }
        fall_constraint(scalar) { values ("0.875"); }
      }
    }
    pin(Q) {
      direction : output;
      timing() {
        related_pin : "CLK";
        timing_type : rising_edge;
        cell_rise(scalar) { values ("2"); }
        rise_transition(scalar) { values ("0.25"); }
        cell_fall(scalar) { values ("2"); }
        fall_transition(scalar) { values ("0.25"); }
      }
    }
  }
}
"""


def test_a_library_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tiny.lib"
    path.write_text(LIBRARY, encoding="utf-8")
    library = read_library(path)
    assert library.keys() == {"INVX1", "DFFX1"}  # none with three states
    inverter, flip_flop = library["INVX1"], library["DFFX1"]
    assert (inverter.area, inverter.loads, inverter.sequential) == (16, {"A": 0.5}, False)
    (arc,) = inverter.outputs["Y"]
    assert arc.causes == ((1,), (0,))
    for table in arc.delay:  # the same numbers, once by load and once by transition
        assert table.at(0.5, 0.0) == 3
        assert table.at(0.0, 1.0) == 2
        assert table.at(0.5, 1.0) == 4
        assert table.at(9.0, 9.0) == 7
    assert arc.transition[1].at(1, 1) == 0.25
    assert flip_flop.sequential
    assert flip_flop.setup == {"D": 0.75}  # the longer edge; hold is none


def test_another_file_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(LibertyError, match="cannot be read"):
        read_library(tmp_path / "absent.lib")
    for text in ("", "library(x) { cell(A) {", "some words"):
        (tmp_path / "bad.lib").write_text(text, encoding="utf-8")
        with pytest.raises(LibertyError, match=r"bad\.lib is not a Liberty library"):
            read_library(tmp_path / "bad.lib")


def test_times_follow_loads_and_edges(tmp_path: Path) -> None:
    """A register, an inverter and a register: clock to output, the inverter with one pin as load, set-up."""
    path = tmp_path / "tiny.lib"
    path.write_text(LIBRARY, encoding="utf-8")
    cells = {
        "first": {"type": "DFFX1", "connections": {"CLK": [0], "D": [5], "Q": [6]}},
        "inverter": {"type": "INVX1", "connections": {"A": [6], "Y": [7]}},
        "second": {"type": "DFFX1", "connections": {"CLK": [0], "D": [7], "Q": [8]}},
    }
    model = Analysis(netlist([5], [], cells), read_library(path), {}).model
    # The load is 0.25, the transition 0.25: 1 + 4 * 0.25 + 0.25.
    expected = LongestPath(Delay(2 + 2.25 + 0.75, 1), "register first", "register second")
    assert model.longest == expected
    assert model.loads == {("in", 0): 0.25}
    assert model.required == {("in", 0): Delay(0.75, 0)}


def buffer_of(tmp_path: Path, table: str, *, templates: str = "", sense: str = "positive_unate") -> Cell:
    """Return a cell of a library with these templates, all of whose delays are `table`."""
    path = tmp_path / "small.lib"
    path.write_text(
        f"""
library(small) {{
  {templates}
  cell (BUF) {{
    area : 1;
    pin(A) {{ direction : input; }}
    pin(Y) {{
      direction : output;
      timing() {{
        related_pin : "A";
        timing_sense : {sense};
        cell_rise{table}
        cell_fall{table}
        rise_transition(scalar) {{ values ("0.5"); }}
        fall_transition(scalar) {{ values ("0.5"); }}
      }}
    }}
  }}
}}
""",
        encoding="utf-8",
    )
    return read_library(path)["BUF"]


def template(first: str, second: str = "", *, indices: str = "") -> str:
    other = f"variable_2 : {second};" if second else ""
    return f"lu_table_template(shape) {{ variable_1 : {first}; {other} {indices} }}"


LOAD, TRANSITION = "total_output_net_capacitance", "input_net_transition"
BOTH = 'index_1 ("0, 2"); index_2 ("0, 4, 8");'
ROWS = '("0, 4, 8", "2, 6, 10")'
"""By the first index and the second one: their sum."""


@pytest.mark.parametrize(
    ("indices", "own"),
    [
        (BOTH, ""),
        ('index_1 ("5, 6"); index_2 ("5, 6, 7");', BOTH),
        ('index_1 ("5, 6"); index_2 ("0, 4, 8");', 'index_1 ("0, 2");'),
        ('index_1 ("0, 2"); index_2 ("5, 6, 7");', 'index_2 ("0, 4, 8");'),
    ],
)
@pytest.mark.parametrize("values", [ROWS, '("0, 4, 8, 2, 6, 10")'])
def test_a_table_without_indices_has_those_of_its_template(
    tmp_path: Path, indices: str, own: str, values: str
) -> None:
    for first, second in ((LOAD, TRANSITION), (TRANSITION, LOAD)):
        shape = template(first, second, indices=indices)
        (arc,) = buffer_of(tmp_path, f"(shape) {{ {own} values {values}; }}", templates=shape).outputs["Y"]
        for table in arc.delay:
            for at_1, at_2 in ((1.0, 2.0), (2.0, 8.0), (1.5, 5.0)):
                assert table.at(*((at_1, at_2) if first == LOAD else (at_2, at_1))) == at_1 + at_2


@pytest.mark.parametrize("variable", [LOAD, TRANSITION])
def test_a_template_may_have_one_variable(tmp_path: Path, variable: str) -> None:
    shape = template(variable, indices='index_1 ("0, 2, 4");')
    (arc,) = buffer_of(tmp_path, '(shape) { values ("1, 5, 7"); }', templates=shape).outputs["Y"]
    for table in arc.delay:
        assert [table.at(*((at, 9) if variable == LOAD else (9, at))) for at in (0, 1, 3, 9)] == [1, 3, 6, 7]


@pytest.mark.parametrize(
    ("templates", "table", "said"),
    [
        ("", '(shape) { values ("1, 2"); }', "no template shape of cell_rise"),
        (
            template(LOAD),
            '(shape) { values ("1, 2"); }',
            "neither cell_rise nor its template shape has index_1",
        ),
        (
            template(LOAD, TRANSITION, indices='index_1 ("0, 2");'),
            '(shape) { values ("1, 2"); }',
            "neither cell_rise nor its template shape has index_2",
        ),
        (
            template(LOAD, TRANSITION, indices=BOTH),
            '(shape) { values ("1, 2", "3, 4"); }',
            "cell_rise by shape has 4 values, not 2 x 3",
        ),
        (
            template(LOAD, TRANSITION, indices=BOTH + "variable_3 : related_out_output_net_length;"),
            f"(shape) {{ values {ROWS}; }}",
            "template shape has 3 variables, not one or two",
        ),
        (
            template(LOAD, indices='index_1 ("2, 0");'),
            '(shape) { values ("1, 2"); }',
            "index_1 of cell_rise by shape does not rise",
        ),
    ],
)
def test_a_table_that_does_not_fit_its_template_is_an_error(
    tmp_path: Path, templates: str, table: str, said: str
) -> None:
    with pytest.raises(LibertyError, match=f"small.lib is not a Liberty library .*{said}"):
        buffer_of(tmp_path, table, templates=templates)


@pytest.mark.parametrize(
    ("sense", "causes"),
    [
        ("positive_unate", ((0,), (1,))),
        ("negative_unate", ((1,), (0,))),
        ("non_unate", ((0, 1), (0, 1))),
    ],
)
def test_the_sense_says_which_edge_leads_to_which(tmp_path: Path, sense: str, causes: object) -> None:
    (arc,) = buffer_of(tmp_path, '(scalar) { values ("1"); }', sense=sense).outputs["Y"]
    assert arc.causes == causes
