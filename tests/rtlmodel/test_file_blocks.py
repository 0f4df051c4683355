"""Blocks as a file has them: the RTL and the functional model make the same floats and the same blocks."""

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS
from echo_npu.server.operations.file_blocks.tensors import quantised_blocks
from tests.arrays import normal
from tests.runtime.server.direct_emitter import DirectEmitter

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_values_and_blocks_are_equal(pair: tuple[Device, Device], name: str) -> None:
    form = FILE_FORMATS[name]
    raw = np.random.default_rng(3).integers(0, 256, (3, form.size)).astype(np.uint8)
    floats = normal(3, form.elements)
    found = []
    for device in pair:
        emitter = DirectEmitter(device)
        made = [form.values(FileBlocks(emitter, device.tensor(raw))).tensor]
        if form.quantise is not None:
            made.append(quantised_blocks(emitter, device.tensor(floats), form))
        found.append([each.to_numpy().tobytes() for each in made])
    assert found[0] == found[1]
