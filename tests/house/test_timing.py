"""Static analysis of netlists: longest paths, edges, loads, boxes and loops."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from echo_sim.numerals import choose_seed
from scripts.synth.liberty import CLOCK_TRANSITION, Arc, Cell, Library, Table, constant, generic_library
from scripts.synth.timing import BOX_TRANSITION, Analysis, Delay, LongestPath, TimingModel
from tests.house.netlists import box, gate, netlist, register


def gates_on_longest(model: TimingModel) -> int:
    assert model.longest is not None
    return model.longest.delay.gates


def test_a_path_runs_through_boxes() -> None:
    """A child with a path from its input to its output, one to a register and one from a register."""
    library = generic_library()
    child = netlist(
        [1, 2],
        [4, 7],
        {
            "a": gate("NOT", 3, 1),
            "b": gate("NOT", 4, 3),  # through: 2
            "c": gate("AND", 5, 2, 3),
            "r": register(5, 6),  # required: 1 from bit 1, 2 from bit 0
            "d": gate("NOT", 7, 6),  # arrival: 1
        },
    )
    model = Analysis(child, library, {}).model
    assert model.through == {("in", 0): {("out", 0): Delay(2, 2)}}
    assert model.required == {("in", 0): Delay(2, 2), ("in", 1): Delay(1, 1)}
    assert model.arrival == {("out", 1): Delay(1, 1)}
    parent = netlist(
        [],
        [],
        {
            "r": register(31, 20),
            "x": box("c", [20, 31], [21, 30]),
            "g": gate("NOT", 31, 21),  # register, 2 in the box, 1, then 1 in the box again
        },
    )
    analysed = Analysis(parent, library, {"box_c": model}).model
    assert analysed.longest == LongestPath(Delay(4, 4), "register r", "x.in[1]")
    assert not analysed.cut
    cut = Analysis(parent, library, {}).model
    assert cut.cut
    assert cut.longest is None


def test_a_loop_is_named() -> None:
    cells = {"one": gate("NOT", 2, 3), "two": gate("NOT", 3, 2), "three": gate("NOT", 4, 1)}
    model = Analysis(netlist([1], [4], cells), generic_library(), {}).model
    assert model.loop in ("one", "two")
    assert gates_on_longest(model) == 1


def test_any_division_into_blocks_has_the_same_longest_path() -> None:
    """Random gates between registers, flat and divided at random into a block and a child of it."""
    random.seed(choose_seed())
    library = generic_library()
    for _ in range(50):
        cells: dict[str, Any] = {}
        nets = list(range(1, 9))
        for net in range(10, 10 + random.randrange(5, 60)):
            kind = random.choice(["NOT", "AND", "XOR", "MUX"])
            inputs = random.choices(nets, k={"NOT": 1, "MUX": 3}.get(kind, 2))
            cells[f"g{net}"] = gate(kind, net, *inputs)
            nets.append(net)
        for q in range(1, 9):
            cells[f"r{q}"] = register(random.choice(nets[8:]), q)
        for net in nets[8:]:  # every path ends in a register
            cells[f"e{net}"] = register(net, 100 + net)
        flat = Analysis(netlist([], [], cells), library, {}).model

        inside = {name: cell for name, cell in cells.items() if random.random() < 0.5}
        outside = {name: cell for name, cell in cells.items() if name not in inside}
        below = _crossing(outside, inside)
        above = _crossing(inside, outside)
        child = Analysis(netlist(below, above, inside), library, {}).model
        parts = {**outside, "child": box("c", below, above)}
        top = Analysis(netlist([], [], parts), library, {"box_c": child}).model
        longest = max(gates_on_longest(each) for each in (child, top) if each.longest)
        assert longest == gates_on_longest(flat)


def _crossing(drivers: Mapping[str, Any], users: Mapping[str, Any]) -> list[int]:
    """Return the nets that one part drives and the other one uses."""
    driven = {net for cell in drivers.values() for pin in "YQ" for net in cell["connections"].get(pin, [])}
    used = {net for cell in users.values() for pin in "ABSD" for net in cell["connections"].get(pin, [])}
    return sorted(driven & used)


def test_the_cell_of_a_loop_is_named_not_one_behind_it() -> None:
    """However the cells are ordered."""
    cells = {
        "behind": gate("NOT", 2, 3),
        "front": gate("NOT", 3, 5),
        "one": gate("AND", 5, 1, 6),
        "two": gate("NOT", 6, 5),
    }
    for names in (list(cells), list(reversed(cells))):
        ordered = {name: cells[name] for name in names}
        assert Analysis(netlist([1], [2], ordered), generic_library(), {}).model.loop in ("one", "two")


def test_a_loop_at_outputs_leaves_the_other_paths() -> None:
    """An output on a loop, one behind it, and one that it does not reach."""
    cells = {
        "and": gate("AND", 2, 1, 3),
        "not": gate("NOT", 3, 2),
        "behind": gate("NOT", 4, 3),
        "apart": gate("NOT", 5, 1),
        "register": register(5, 6),
    }
    model = Analysis(netlist([1], [2, 4, 5], cells), generic_library(), {}).model
    assert model.loop in ("and", "not")
    assert model.through == {("in", 0): {("out", 2): Delay(1, 1)}}
    assert model.required == {("in", 0): Delay(1, 1)}


def test_a_loop_through_a_box_is_named_by_the_box() -> None:
    child = Analysis(netlist([1], [2], {"a": gate("NOT", 2, 1)}), generic_library(), {}).model
    parent = netlist([], [8], {"child": box("c", [8], [8])})
    assert Analysis(parent, generic_library(), {"box_c": child}).model.loop == "child"


def sloped(base: float, by_load: float, by_transition: float) -> Table:
    """Return a table of `base` + `by_load` * load + `by_transition` * transition, up to 100 of each."""
    corner = base + 100 * by_load
    return Table(
        (0.0, 100.0),
        (0.0, 100.0),
        ((base, base + 100 * by_transition), (corner, corner + 100 * by_transition)),
    )


SAME, OTHER = ((0,), (1,)), ((1,), (0,))


def cell(delay: tuple[Table, Table], transition: tuple[Table, Table], causes: Any, load: float = 1.0) -> Cell:
    """Return a cell with one input and one output."""
    return Cell(1.0, {"A": load}, {"Y": [Arc("A", delay, transition, causes)]}, {}, sequential=False)


def path_of(library: Library, *kinds: str, start: str = "") -> LongestPath:
    """Return the longest path of cells in a row, behind an input or behind the register `start`."""
    cells: dict[str, Any] = {}
    if start:
        cells["start"] = {"type": start, "connections": {"C": [0], "D": [1], "Q": [10]}}
    for place, kind in enumerate(kinds):
        cells[f"g{place}"] = {"type": kind, "connections": {"A": [10 + place], "Y": [11 + place]}}
    inputs = [1] if start else [10]
    found = Analysis(netlist(inputs, [10 + len(kinds)], cells), library, {}).model.longest
    assert found is not None
    return found


FLAT = (constant(0.0), constant(0.0))


@pytest.mark.parametrize(
    ("rise", "fall", "causes", "row", "longest"),
    [
        (3.0, 1.0, SAME, 1, 3.0),
        (1.0, 3.0, SAME, 1, 3.0),
        (1.0, 3.0, SAME, 3, 9.0),
        (3.0, 1.0, OTHER, 3, 7.0),
        (1.0, 3.0, OTHER, 2, 4.0),
        (1.0, 3.0, ((0, 1), (0, 1)), 3, 9.0),
    ],
)
def test_edges_are_followed_apart(rise: float, fall: float, causes: Any, row: int, longest: float) -> None:
    """An inverter's slow edge follows the quick one of the inverter before it."""
    library = {"G": cell((constant(rise), constant(fall)), FLAT, causes)}
    assert path_of(library, *["G"] * row).delay == Delay(longest, row)


@pytest.mark.parametrize(("slow", "causes"), [(0, SAME), (1, SAME), (0, OTHER), (1, OTHER)])
def test_the_transition_of_the_edge_that_causes_another_counts(slow: int, causes: Any) -> None:
    """The first cell has a transition of 8 at one edge and of 2 at the other; the second one's delay is its
    input's transition, at one of its own edges."""
    transitions = (8.0, 2.0) if slow == 0 else (2.0, 8.0)
    first = cell(FLAT, (constant(transitions[0]), constant(transitions[1])), SAME)
    by_transition = sloped(0, 0, 1)
    for edge in (0, 1):
        delay = (by_transition, constant(0.0)) if edge == 0 else (constant(0.0), by_transition)
        library = {"first": first, "second": cell(delay, FLAT, causes)}
        (cause,) = causes[edge]
        assert path_of(library, "first", "second").delay == Delay(transitions[cause], 2)


def test_a_transition_follows_the_load_and_the_transition_before_it() -> None:
    """Three cells whose delay is their input's transition, which is that before it plus twice the load."""
    grown = sloped(0, 2, 1)
    library = {"G": cell((sloped(0, 0, 1),) * 2, (grown, grown), SAME, load=3.0)}
    slow = CLOCK_TRANSITION
    assert path_of(library, "G", "G", "G").delay.time == pytest.approx(slow + (slow + 6) + (slow + 12))


def test_a_register_begins_with_the_transition_of_the_clock() -> None:
    tables = (sloped(2, 0, 1),) * 2
    q = [Arc("C", tables, (sloped(0, 1, 0),) * 2, ((0,), (0,)))]
    library = {
        "R": Cell(1.0, {"C": 0.5, "D": 0.25}, {"Q": q}, {"D": 0.75}, sequential=True),
        "G": cell((sloped(0, 0, 1),) * 2, FLAT, SAME, load=3.0),
    }
    assert path_of(library, "G", start="R").delay.time == pytest.approx(2 + CLOCK_TRANSITION + 3)
    assert path_of(library, "G", start="R").start == "register start"


def test_a_net_has_the_load_of_all_its_pins() -> None:
    """Three pins of a load of 3, of which two are one cell's, and what a box and two outputs add."""
    driver = cell((sloped(0, 1, 0),) * 2, FLAT, SAME, load=0.5)
    both = Cell(1.0, {"A": 3.0, "B": 3.0}, {"Y": []}, {}, sequential=False)
    library = {"D": driver, "P": both, "INVX1": cell(FLAT, FLAT, OTHER, load=0.25)}
    cells = {
        "d": {"type": "D", "connections": {"A": [1], "Y": [2]}},
        "p": {"type": "P", "connections": {"A": [2], "B": [2], "Y": [3]}},
        "q": {"type": "P", "connections": {"A": [2], "B": ["0"], "Y": [4]}},
        "c": box("c", [2], []),
    }
    child = TimingModel(loads={("in", 0): 7.0})
    model = Analysis(netlist([1], [2, 2], cells), library, {"box_c": child}).model
    assert model.longest is not None
    assert model.longest.delay.time == 3 * 3 + 7 + 2 * 4 * 0.25
    assert model.loads == {("in", 0): 0.5}


def test_what_comes_from_an_input_is_not_from_a_register() -> None:
    """A block's own inputs are no begin of a path from within, even if they are all that there is."""
    cells = {"a": gate("NOT", 2, 1), "b": gate("NOT", 3, 2)}
    model = Analysis(netlist([1], [1, 3], cells), generic_library(), {}).model
    assert model.arrival == {}
    assert model.through == {("in", 0): {("out", 0): Delay(), ("out", 1): Delay(2, 2)}}


def test_what_a_memory_gives_and_takes_ends_paths() -> None:
    """A memory's words come at time 0, and its addresses must be there at the clock; its clock is no path."""
    pins = {"RD_ADDR": [3], "RD_DATA": [4], "WR_CLK": [9], "RD_CLK": [9]}
    cells = {"a": gate("NOT", 3, 1), "m": {"type": "$mem_v2", "connections": pins}, "b": gate("NOT", 5, 4)}
    model = Analysis(netlist([1, 9], [5], cells), generic_library(), {}).model
    assert model.required == {("in", 0): Delay(1, 1)}
    assert model.arrival == {("out", 0): Delay(1, 1)}
    assert model.through == {}


def test_a_parent_of_a_block_that_is_cut_is_cut() -> None:
    child = TimingModel(cut=True)
    assert Analysis(netlist([], [], {"c": box("c", [], [])}), generic_library(), {"box_c": child}).model.cut


def test_a_model_follows_edges_apart() -> None:
    """Two inverters, slow at their fall: between ports, in front of a register and behind one."""
    none = (constant(0.0), constant(0.0))
    q = [Arc("C", none, FLAT, ((0,), (0,)))]
    library = {
        "G": cell((constant(1.0), constant(3.0)), FLAT, OTHER),
        "R": Cell(1.0, {"C": 0.0, "D": 0.0}, {"Q": q}, {"D": 0.0}, sequential=True),
    }
    cells: dict[str, Any] = {}
    for begin in (1, 11, 21):
        for net in (begin, begin + 1):
            cells[f"g{net}"] = {"type": "G", "connections": {"A": [net], "Y": [net + 1]}}
    cells["end"] = {"type": "R", "connections": {"C": [0], "D": [13], "Q": [14]}}
    cells["begin"] = {"type": "R", "connections": {"C": [0], "D": ["0"], "Q": [21]}}
    model = Analysis(netlist([1, 11], [3, 23], cells), library, {}).model
    assert model.through == {("in", 0): {("out", 0): Delay(4, 2)}}
    assert model.required == {("in", 1): Delay(4, 2)}
    assert model.arrival == {("out", 1): Delay(4, 2)}


def test_what_comes_out_of_a_box_has_a_transition_of_its_own() -> None:
    """Behind a register in it, and behind an input."""
    library = {"G": cell((sloped(0, 0, 1),) * 2, FLAT, SAME)}
    for child, start in (
        (TimingModel(arrival={("out", 0): Delay(5, 1)}), "box c"),
        (TimingModel(through={("in", 0): {("out", 0): Delay(5, 1)}}), "input in[0]"),
    ):
        cells = {"c": box("c", [1], [2]), "g": {"type": "G", "connections": {"A": [2], "Y": [3]}}}
        longest = Analysis(netlist([1], [3], cells), library, {"box_c": child}).model.longest
        assert longest == LongestPath(Delay(5 + BOX_TRANSITION, 2), start, "output out[0]")
