"""Arguments of Verilator for a tree with changes, and for one without."""

from pathlib import Path

from echo_sim.places import OWN_RTL
from tb.changed_trees import SELECTOR_FILE, WITHOUT_LOOKING_BACK, verilator_args


def test_only_changes_need_arguments(tmp_path: Path) -> None:
    assert verilator_args(OWN_RTL) == ()
    assert verilator_args(tmp_path) == ()
    (tmp_path / SELECTOR_FILE).touch()
    assert verilator_args(tmp_path) == WITHOUT_LOOKING_BACK
