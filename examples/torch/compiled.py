"""A layer of a language model, compiled: what it computes in one recorded program, and the cycles that saves.

python examples/torch/compiled.py [--backend cmodel|rtlmodel] [--config default|small] [--tokens 16]
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import echo_npu.torch
from echo_sim.config import config_argument
from echo_sim.numerals import Whole


class Layer(nn.Module):
    """A decoder layer in the shapes of the tiny Qwen2 of examples/torch/qwen2.py."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2, inner: int = 64) -> None:
        super().__init__()
        self.size = width // heads
        self.first, self.second = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.q = nn.Linear(width, heads * self.size)
        self.k, self.v = (nn.Linear(width, groups * self.size) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: [1, tokens, width]; cos, sin: [tokens, width / heads]."""
        normed = rms_norm(x, self.first)
        q, k, v = (
            each(normed).unflatten(-1, (-1, self.size)).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        q, k = (each * cos + rotated(each) * sin for each in (q, k))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(heads.transpose(1, 2).flatten(2))
        normed = rms_norm(x, self.second)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Normalise rows by their root mean square."""
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Exchange the halves of the last axis; the first one is negated."""
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def angles(tokens: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine of the rotary embedding."""
    rates = 1e4 ** (-torch.arange(0, size, 2) / size)
    whole = torch.outer(torch.arange(tokens), rates).repeat(1, 2)
    return whole.cos(), whole.sin()


def cycles_of(function: Callable[[], Any]) -> int:
    """Return the device's cycles of a call; 0 on a backend without cycles."""
    before = echo_npu.torch.device().counters()["cycles"]
    function()
    return echo_npu.torch.device().counters()["cycles"] - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--tokens", type=Whole(1), default=16)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = parser.parse_args()
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
    torch.manual_seed(0)
    layer = Layer().to("echo_npu")
    made = torch.randn(1, chosen.tokens, 32), *angles(chosen.tokens, layer.size)
    given = [each.to("echo_npu") for each in made]
    fast = torch.compile(layer, backend="echo_npu")
    with torch.no_grad():
        plain, quick = layer(*given), fast(*given)  # the first calls compile, and load programs
        result: dict[str, Any] = {
            "backend": chosen.backend,
            "difference": float((plain - quick).abs().max()),
            "cycles": cycles_of(lambda: layer(*given)),
            "cycles compiled": cycles_of(lambda: fast(*given)),
            "commands compiled": echo_npu.torch.compiled_graphs()[0].commands,
            "fallbacks": echo_npu.torch.compiled_graphs()[0].fallbacks,
        }
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value}")
    print(echo_npu.torch.compile_report())


if __name__ == "__main__":
    main()
