"""Qwen2 of the package transformers on the NPU, with random weights: forward, backward, generate.

python examples/torch/qwen2.py [--backend NAME] [--config NAME] [--shape tiny|0.5b|0.5b-full]

The full shape needs a configuration with 1 GiB of memory for the weights: `--backend cmodel --config large`.
"""

import argparse
import copy
import json
import time
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import echo_npu.torch
from echo_sim.config import config_argument
from echo_sim.numerals import Whole

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 128,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    },
    # The layers of Qwen2-0.5B. The vocabulary is cut from 151936 to what 16 tokens need.
    "0.5b": {
        "vocab_size": 1024,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 1,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    },
}
SHAPES["0.5b-full"] = {
    **SHAPES["0.5b"],
    "vocab_size": 151936,
    "num_hidden_layers": 24,
    "tie_word_embeddings": True,
}


def error_of(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, as a part of the largest value."""
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel", "rtlfarm"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--layers", type=Whole(1), help="how many layers")
    parser.add_argument("--tokens", type=Whole(1), default=4, help="how many tokens to generate")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = parser.parse_args()
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
    torch.manual_seed(0)
    shape = dict(SHAPES[chosen.shape])
    if chosen.layers is not None:
        shape["num_hidden_layers"] = chosen.layers
    on_cpu = Qwen2ForCausalLM(Qwen2Config(**shape)).eval()
    if chosen.shape != "tiny":
        on_cpu = on_cpu.bfloat16()
    ids = torch.randint(0, shape["vocab_size"], (1, 8))
    with torch.no_grad():
        exact = copy.deepcopy(on_cpu).double()(ids).logits
    on_npu = copy.deepcopy(on_cpu).to("echo_npu")
    result: dict[str, Any] = {"backend": chosen.backend, "shape": chosen.shape}
    result["parameters"] = sum(each.numel() for each in on_npu.parameters())
    echo_npu.torch.reset_op_counts()
    moved = ids.to("echo_npu")
    start = time.perf_counter()
    made = on_npu(moved, labels=moved)
    result["logits error"] = error_of(made.logits.detach(), exact)
    result["seconds"] = round(time.perf_counter() - start, 1)
    result["MiB of the device"] = torch.accelerator.max_memory_allocated() >> 20
    result["logits error of the CPU"] = error_of(on_cpu(ids).logits.detach(), exact)
    if chosen.shape == "tiny":
        made.loss.backward()
        on_cpu(ids, labels=ids).loss.backward()
        pairs = zip(on_npu.parameters(), on_cpu.parameters(), strict=True)
        result["gradient error"] = max(error_of(npu.grad, cpu.grad.double()) for npu, cpu in pairs)
        options = {"max_new_tokens": chosen.tokens, "do_sample": False}
        result["tokens"] = on_npu.generate(moved, **options)[0, ids.shape[1] :].tolist()
        result["tokens of the CPU"] = on_cpu.generate(ids, **options)[0, ids.shape[1] :].tolist()
    counts = echo_npu.torch.op_counts()
    result["operators on the CPU"] = sorted(name for name, each in counts.items() if each["cpu"])
    result["cycles"] = echo_npu.torch.device().counters()["cycles"]
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
