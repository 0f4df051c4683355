"""The reference with a cache, against the one without."""

import numpy as np
import pytest

from echo_npu.language.reference import ReferenceModel
from echo_npu.models import reference
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import StackCase
from tests.runtime.model_files import LAYERS

IDS = np.random.default_rng(2).integers(0, 259, 11)


@pytest.mark.parametrize("parts", [[11], [1] * 11, [4, 7]])
def test_against_the_model_without_a_cache(model: GgufModel, parts: list[int]) -> None:
    expected = [
        reference.stack_logits(
            StackCase(
                "small", "small", model.config, LAYERS, model.layer, model.tensor("token_embd.weight"),
                model.tensor("output_norm.weight"), IDS[: end + 1].astype(np.int32), str, (),
            )
        )
        for end in range(len(IDS))
    ]  # fmt: skip
    decoder = ReferenceModel(model)
    for _ in range(2):
        found = [decoder.read(part) for part in np.split(IDS, np.cumsum(parts)[:-1])]
        assert np.allclose(np.concatenate(found), expected, rtol=0, atol=1e-10 * np.abs(expected).max())
        decoder.forget()


def test_float32(model: GgufModel) -> None:
    wide, narrow = ReferenceModel(model).read(list(IDS)), ReferenceModel(model, np.float32).read(list(IDS))
    assert narrow.dtype == np.float32
    assert 0 < np.abs(narrow - wide).max() < 1e-4 * np.abs(wide).max()


def test_fewer_layers(model: GgufModel) -> None:
    one = ReferenceModel(model, layers=1).read(list(IDS))
    assert not np.allclose(one, ReferenceModel(model).read(list(IDS)))
