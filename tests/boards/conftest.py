"""What the tests of boards share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_npu.backends import get_backend_class
from tests.boards.fuse import fuse_is_missing
from tests.boards.slots import CardSlot, inserted

CONFIG = "small"


@pytest.fixture(params=["fuse", "calls"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the device files are shown; None: the calls are answered in this process."""
    if request.param == "calls":
        return None
    if reason := fuse_is_missing(tmp_path):
        pytest.skip(reason)
    return tmp_path


@pytest.fixture
def slot(folder: Path | None) -> Iterator[CardSlot]:
    """A card with the functional model behind it."""
    with inserted(get_backend_class("cmodel").open(CONFIG, {}), CONFIG, folder) as made:
        yield made
