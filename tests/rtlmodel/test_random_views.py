"""Operations on random views give the same bits on the RTL as on the functional model."""

import pytest

from echo_npu import Device
from tests.runtime.ops.every_operation import EVERY
from tests.runtime.ops.random_views import Draw
from tests.runtime.ops.test_random_views import FIRST, arrays, same_bits

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", EVERY)
def test_the_bits_are_those_of_the_functional_model(pair: tuple[Device, Device], name: str) -> None:
    """Replay: SEED=<seed> python -m pytest tests/rtlmodel/test_random_views.py -k <name>."""
    trial = EVERY[name](Draw(f"{name} {FIRST}"))
    if not trial.offered(pair[0]):
        for device in pair:
            with pytest.raises(TypeError, match="of the device"):
                trial.call(device, *(view.on(device) for view in trial.views))
        return
    ours, theirs = (arrays(trial.call(device, *(view.on(device) for view in trial.views))) for device in pair)
    for one, other in zip(ours, theirs, strict=True):
        assert same_bits(one, other), f"seed {FIRST}"
