"""The matrix products of real workloads that are measured, from gemm.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ATTENTION: Final = "attention"
"""The set of an attention layer's products, which are batches of small ones."""

TRANSPOSED: Final = "transposed"
"""The set of products whose right operand is stored as [n, k]."""

LATENCY_MACS: Final = 1 << 18
"""Single products with fewer multiply-accumulates are judged by their fixed cost, not by their roofline."""

DECODE_MACS: Final = 1 << 16
"""Products of one row with at least so many multiply-accumulates are judged by bandwidth."""


@dataclass(frozen=True, slots=True, order=True)
class Product:
    """`batch` products [m, k] @ [k, n], each with operands of its own.

    Attributes:
        trans_b: the right operand is stored as [n, k].
    """

    m: int
    k: int
    n: int
    batch: int = 1
    trans_b: bool = False

    @classmethod
    def parse(cls, text: str) -> Product:
        """Parse a text like "128x576x192"; ValueError for any other."""
        match = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
        if match is None:
            raise ValueError(f"shape {text!r}: it must be MxKxN, e.g. 128x576x192")
        m, k, n = (int(size) for size in match.groups())
        return cls(m, k, n)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all batches."""
        return self.batch * self.m * self.k * self.n

    @property
    def is_decode(self) -> bool:
        """Whether it is one row of activations against a matrix of weights."""
        return self.m == 1 and self.batch == 1 and self.macs >= DECODE_MACS

    @property
    def is_latency(self) -> bool:
        """Whether it is a single product too small for its roofline to say anything."""
        return self.batch == 1 and self.macs < LATENCY_MACS

    def __str__(self) -> str:
        """Return e.g. "128x576x192", or "9x16x64x16 nt" for nine products with a transposed right operand."""
        batch = f"{self.batch}x" if self.batch > 1 else ""
        return f"{batch}{self.m}x{self.k}x{self.n}" + (" nt" if self.trans_b else "")


def load_products() -> dict[str, tuple[Product, ...]]:
    """Return the products of each set by its name, the sets "transposed" and "attention" last."""
    content = json.loads(Path(__file__).with_name("gemm.json").read_text(encoding="utf-8"))
    sets = {
        name: tuple(Product(m, k, n) for m, k, n in shapes) for name, shapes in content["products"].items()
    }
    sets[TRANSPOSED] = tuple(Product(m, k, n, trans_b=True) for m, k, n in content["transposed"])
    attention = content["attention"]
    size = attention["head_size"]
    sets[ATTENTION] = tuple(
        product
        for heads in attention["heads"]
        for tokens in attention["tokens"]
        for product in (
            Product(tokens, size, tokens, batch=heads, trans_b=True),
            Product(tokens, tokens, size, batch=heads),
        )
    )
    return sets


def choose_products(names: Iterable[str] | None = None) -> dict[Product, str]:
    """Return the products of some sets, each once, with the name of its set.

    Args:
        names: of sets; None for all but transposed and attention.

    Raises:
        ValueError: there is no such set; the message lists them.
    """
    sets = load_products()
    wanted = [name for name in sets if name not in (TRANSPOSED, ATTENTION)] if names is None else list(names)
    for name in wanted:
        if name not in sets:
            raise ValueError(f"there is no set {name!r}; the sets are {', '.join(sets)}")
    chosen: dict[Product, str] = {}
    for name in wanted:
        for product in sets[name]:
            chosen.setdefault(product, name)
    return chosen
