"""What each of several devices holds of a layer."""

import numpy as np
import pytest

from echo_npu.language.share import WHOLE, Share, check_shares, even_runs
from echo_npu.models.layer_types import LayerConfig
from tests.refusals import refuses

CONFIG = LayerConfig(hidden=96, heads=10, kv_heads=5, head_dim=8, ffn=192)


@pytest.mark.parametrize(
    ("count", "parts", "unit"), [(7, 3, 1), (3, 3, 1), (2, 3, 1), (259, 3, 16), (16, 1, 16)]
)
def test_runs_are_even_and_cover_the_range(count: int, parts: int, unit: int) -> None:
    runs = even_runs(count, parts, unit)
    assert len(runs) == parts
    assert [each for run in runs for each in range(count)[run]] == list(range(count))
    assert all(run.start % unit == 0 for run in runs if run.start < run.stop)
    units = [-(-(run.stop - run.start) // unit) for run in runs]
    assert max(units) - min(units) <= 1


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_shares_have_every_row_once(count: int) -> None:
    """Query heads are on the device of their key head."""
    shares = [Share(index, count) for index in range(count)]
    for weight, shape in CONFIG.weight_shapes().items():
        if len(shape) == 2:
            rows = [np.arange(shape[0])[share.rows(CONFIG, weight)] for share in shares]
            assert np.array_equal(np.concatenate(rows), np.arange(shape[0])), weight
            assert all(len(each) for each in rows)
    for share in shares:
        own = share.config(CONFIG)
        assert own.hidden == CONFIG.hidden
        assert own.group == CONFIG.group
        assert own.q_width == len(range(1000)[share.query(CONFIG)])
        assert own.kv_width == len(range(1000)[share.key_value(CONFIG)])
        assert own.ffn == CONFIG.ffn // count
        assert share.query(CONFIG).start == CONFIG.group * share.key_value(CONFIG).start
    assert WHOLE.config(CONFIG) == CONFIG


def test_what_cannot_be_divided_is_refused() -> None:
    refuses(ValueError, ["hidden is 96", "5 devices"], check_shares, CONFIG, 5)
    refuses(ValueError, ["kv_heads is 5", "6 devices"], check_shares, CONFIG, 6)
    refuses(ValueError, ["devices is 0"], check_shares, CONFIG, 0)
    refuses(ValueError, ["hidden is 96"], Share(0, 5).config, CONFIG)
