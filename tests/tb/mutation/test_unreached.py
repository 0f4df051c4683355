"""Cuts of bits that never change are told apart from those of bits that do."""

from tb.coverage.exclusions import Exclusion, load_exclusions, parse_exclusions
from tb.mutation.operators import mutants_of
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import RtlSource
from tb.mutation.unreached import why_unreached
from tb.repository import ROOT

SOURCE = RtlSource(ROOT / "rtl" / "matrix" / "weight_feeder.sv")
REASON = "A place within a block."


def cut(edit: str) -> Mutant:
    """The first mutant with this edit."""
    return next(each for each in mutants_of(SOURCE) if [part.mutated for part in each.edits] == [edit])


def excluding(*bits: str, kind: str = "toggle", file: str = "rtl/matrix/weight_feeder.sv") -> list[Exclusion]:
    return parse_exclusions(f'[[exclusion]]\nkind = "{kind}"\n"{file}" = {list(bits)}\nreason = "{REASON}"\n')


def test_all_bits_that_are_cut_off_must_be_excluded() -> None:
    mutant = cut("16'(k_left)")
    assert why_unreached(mutant, SOURCE, excluding("k_left[24:16]")) == f"bits that never change: {REASON}"
    assert why_unreached(mutant, SOURCE, excluding("k_left[20:7]", "k_left[24:21]"))
    for bits in ("k_left[24:17]", "k_left[23:7]", "n_left[24:7]", "k_left[24:7]:0->1", "k_left[24]"):
        assert not why_unreached(mutant, SOURCE, excluding(bits))


def test_the_place_must_be_the_one() -> None:
    mutant = cut("16'(k_left)")
    assert not why_unreached(
        mutant, SOURCE, excluding("k_left[24:7]", file="rtl/matrix/activation_feeder.sv")
    )
    assert not why_unreached(mutant, SOURCE, excluding("k_left", kind="line"))
    assert not why_unreached(mutant, SOURCE, [])


def test_only_cuts_are_judged() -> None:
    exclusions = excluding("k_left[24:0]", "n_left[24:0]")
    others = [each for each in mutants_of(SOURCE) if each.operator != "width"]
    assert others
    assert not any(why_unreached(each, SOURCE, exclusions) for each in others)


def test_the_list_of_the_repository_is_used_as_it_is() -> None:
    assert why_unreached(cut("16'(n_left)"), SOURCE, load_exclusions())
    assert not why_unreached(cut("8'(n_left)"), SOURCE, load_exclusions())
