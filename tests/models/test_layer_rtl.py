"""The tiny layer on the RTL, in both configurations."""

from __future__ import annotations

import pytest

import echo_npu
from echo_npu.models import run_layer, tiny_layer

pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.mark.parametrize("config", ["default", "small"])
@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_tiny_layer_on_the_rtl(config: str, stalls: float) -> None:
    with (
        echo_npu.open("cmodel", config=config) as twin,
        echo_npu.open("rtlmodel", config=config, stalls=stalls) as device,
    ):
        run = run_layer(tiny_layer(), device, twin)
    assert run.failures == []
    assert run.config == config
    for record in run.records:
        if record.where == "NPU":
            assert record.exact is True
            assert record.cycles > 0
            assert record.bus is not None
        if record.op == "MATMUL":
            assert record.utilisation is not None
            assert 0 < record.utilisation <= 1
