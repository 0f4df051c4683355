"""A small model file, and networks of it on functional models."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import echo_npu
from echo_npu.language.network import Network
from echo_npu.models.gguf_model import GgufModel
from tests.runtime.model_files import CONTEXT, write_model

MakeNetwork = Callable[..., Network]


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="session")
def model(model_path: Path) -> GgufModel:
    return GgufModel(model_path)


@pytest.fixture
def make_network(model: GgufModel) -> Iterator[MakeNetwork]:
    """Returns a function that opens a device and brings a model to it."""
    with ExitStack() as stack:

        def make(
            source: GgufModel = model, *, backend: str = "cmodel", config: str = "default", **options: Any
        ) -> Network:
            device = stack.enter_context(echo_npu.open(backend, config=config))
            return Network(device, source, **{"context": CONTEXT, **options})

        yield make
