"""Fixtures of the mutation tests."""

import pytest

from tb.mutation.operators import mutants_of
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import RtlSource
from tb.mutation.tree import sources


@pytest.fixture(scope="session")
def all_mutants() -> dict[str, list[Mutant]]:
    """All mutants of the RTL, by file."""
    return {path.name: mutants_of(RtlSource(path)) for path in sources()}
