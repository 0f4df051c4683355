"""Which rows of a layer's weights, [out, in] each, one of several devices holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from echo_npu.formats import TILE_COLUMNS
from echo_npu.models.layer_types import LayerConfig


def even_runs(count: int, parts: int, unit: int = 1) -> list[slice]:
    """Divide a range into so many runs of whole units, of which none is more than a unit longer than another.

    Runs may be empty. The last one ends with the range, within a unit.
    """
    units = -(-count // unit)
    ends = [min(unit * (units * each // parts), count) for each in range(parts + 1)]
    return [slice(*each) for each in itertools.pairwise(ends)]


def check_shares(config: LayerConfig, devices: int) -> None:
    """Raise ValueError, naming the field, unless a layer can be divided among so many devices."""
    if devices < 1:
        raise ValueError(f"devices is {devices}; a layer has at least 1")
    for name in ("hidden", "ffn"):
        width = getattr(config, name)
        if width % devices:
            raise ValueError(f"{name} is {width}, which {devices} devices cannot divide into equal columns")
    if config.kv_heads < devices:
        raise ValueError(f"kv_heads is {config.kv_heads}: too few for {devices} devices, one each at least")


@dataclass(frozen=True, slots=True)
class Share:
    """What device `index` of `count` holds of a layer.

    Key heads are divided as evenly as they can be, with the query heads that share them; the columns of the
    residual stream and of the feed-forward part equally.

    Raises:
        ValueError: a layer that cannot be divided so, from `check_shares`, in every method.
    """

    index: int
    count: int

    def config(self, whole: LayerConfig) -> LayerConfig:
        """Return the layer that the device computes: all of `hidden`, and its own heads and columns."""
        check_shares(whole, self.count)
        heads = self._key_heads(whole)
        kv_heads = heads.stop - heads.start
        ffn = self.ffn(whole)
        return replace(whole, heads=kv_heads * whole.group, kv_heads=kv_heads, ffn=ffn.stop - ffn.start)

    def _key_heads(self, whole: LayerConfig) -> slice:
        check_shares(whole, self.count)
        return even_runs(whole.kv_heads, self.count)[self.index]

    def query(self, whole: LayerConfig) -> slice:
        """Return the columns of its query heads."""
        heads, width = self._key_heads(whole), whole.group * whole.head_dim
        return slice(heads.start * width, heads.stop * width)

    def key_value(self, whole: LayerConfig) -> slice:
        """Return the columns of its key heads."""
        heads = self._key_heads(whole)
        return slice(heads.start * whole.head_dim, heads.stop * whole.head_dim)

    def hidden(self, whole: LayerConfig) -> slice:
        """Return its columns of the residual stream."""
        check_shares(whole, self.count)
        return even_runs(whole.hidden, self.count)[self.index]

    def ffn(self, whole: LayerConfig) -> slice:
        """Return its columns of the feed-forward part."""
        check_shares(whole, self.count)
        return even_runs(whole.ffn, self.count)[self.index]

    def vocabulary(self, tokens: int) -> slice:
        """Return its tokens of the logits: whole tiles of weights, but for the last device's last one."""
        return even_runs(tokens, self.count, TILE_COLUMNS)[self.index]

    def rows(self, whole: LayerConfig, weight: str) -> slice:
        """Return its rows of a matrix, named as in `LayerWeights`."""
        divided = {"wq": self.query, "wk": self.key_value, "wv": self.key_value}
        divided |= {"wo": self.hidden, "w_gate": self.ffn, "w_up": self.ffn, "w_down": self.hidden}
        return divided[weight](whole)


WHOLE = Share(0, 1)
"""Everything."""
