"""A LoRA of the package peft, trained on the NPU: adapters of a language model learn a sentence by heart.

python examples/torch/lora.py [--model tiny|smollm2] [--backend cmodel|rtlmodel] [--steps 20] [--replay N]

`tiny` is a Qwen2 with random weights, `smollm2` SmolLM2-135M with those of its file, in bfloat16. With
`--replay N`, the RTL repeats step N from the state before it, and all adapters and the state of the optimizer
must be equal to the bit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

import echo_npu.torch
from echo_sim.config import config_argument
from echo_sim.numerals import Whole

SENTENCE = "The systolic array multiplies."
RATES = {"tiny": 2e-2, "smollm2": 1e-3}


def tiny_model() -> tuple[torch.nn.Module, list[int]]:
    """Return a tiny Qwen2 with adapters, and the sentence in tokens."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    adapters = LoraConfig(
        r=4, lora_alpha=16, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "down_proj"]
    )
    return get_peft_model(Qwen2ForCausalLM(config), adapters), list(SENTENCE.encode())


def smollm2() -> tuple[torch.nn.Module, list[int]]:
    """Return SmolLM2 with adapters, and the sentence in tokens."""
    from echo_npu.models.extras import smollm2_file  # of the extra "models", which `tiny` does without

    file = smollm2_file()
    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(dtype=torch.bfloat16, **place)
    tokens = AutoTokenizer.from_pretrained(**place)(SENTENCE).input_ids
    torch.manual_seed(0)
    adapters = LoraConfig(r=4, lora_alpha=16, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
    return get_peft_model(model, adapters), tokens


class Training:
    """Steps of training the adapters on the device."""

    def __init__(self, name: str) -> None:
        model, tokens = tiny_model() if name == "tiny" else smollm2()
        self.model = model.to("echo_npu")
        self.adapters = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        self.optimizer = torch.optim.AdamW(self.adapters.values(), lr=RATES[name])
        self._ids = torch.tensor([tokens], device="echo_npu")

    def step(self) -> float:
        """Do a step and return the loss before it."""
        self.optimizer.zero_grad()
        loss = self.model(self._ids, labels=self._ids).loss
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def state(self) -> dict[str, Any]:
        """Return a copy of the adapters and the optimizer's state, on the CPU."""
        adapters = {name: each.detach().cpu() for name, each in self.adapters.items()}
        state = self.optimizer.state_dict()
        kept = {key: {k: v.cpu().clone() for k, v in each.items()} for key, each in state["state"].items()}
        return {"adapters": adapters, "optimizer": {**state, "state": kept}}

    def restore(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, each in self.adapters.items():
                each.copy_(state["adapters"][name])
        self.optimizer.load_state_dict(state["optimizer"])


def tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    moments = [each for own in state["optimizer"]["state"].values() for each in own.values()]
    return [*state["adapters"].values(), *moments]


def equal_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other)))


def repeated(file: str, name: str) -> dict[str, Any]:
    """Do the step that a file holds, and compare what it leaves."""
    before, after = torch.load(file)
    training = Training(name)
    training.restore(before)
    training.step()
    found, expected = tensors(training.state()), tensors(after)
    same = [equal_bits(*pair) for pair in zip(found, expected, strict=True)]
    cycles = echo_npu.torch.device().counters()["cycles"]
    return {"tensors": len(same), "equal": sum(same), "cycles": cycles}


def replay(chosen: argparse.Namespace, states: list[dict[str, Any]]) -> dict[str, Any]:
    """Do a step on the RTL in a process of its own, as a process has one kind of device."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "states")
        torch.save(states, file)
        words = ["--model", chosen.model, "--config", chosen.config, "--backend", "rtlmodel", "--step", file]
        done = subprocess.run(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True
        )
    result = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny", choices=RATES)
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel", "rtlfarm"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--steps", type=Whole(1), default=20)
    parser.add_argument("--replay", type=Whole(1), metavar="N", help="repeat step N on the RTL, and compare")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.replay is not None and chosen.replay > chosen.steps:
        parser.error(f"--replay is {chosen.replay}; there are {chosen.steps} steps")
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
    if chosen.step:
        print(json.dumps(repeated(chosen.step, chosen.model)))
        return
    training = Training(chosen.model)
    losses, states = [], []
    echo_npu.torch.reset_op_counts()
    for step in range(1, chosen.steps + 1):
        states += [training.state()] if step == chosen.replay else []
        losses.append(training.step())
        states += [training.state()] if step == chosen.replay else []
        if not chosen.json:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    counts = echo_npu.torch.op_counts()
    result = {
        "backend": chosen.backend,
        "model": chosen.model,
        "losses": losses,
        "trained parameters": sum(each.numel() for each in training.adapters.values()),
        "operators on the CPU": sorted(name for name, each in counts.items() if each["cpu"]),
        "cycles": echo_npu.torch.device().counters()["cycles"],
    }
    if chosen.replay is not None:
        result["replay"] = replay(chosen, states)
    if chosen.json:
        print(json.dumps(result))
    else:
        show(result, chosen)
    if chosen.replay is not None and result["replay"]["equal"] != result["replay"]["tensors"]:
        raise SystemExit(f"step {chosen.replay} is not the same on the RTL")


def show(result: dict[str, Any], chosen: argparse.Namespace) -> None:
    losses = result["losses"]
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}; {result['trained parameters']} parameters were trained")
    on_cpu = ", ".join(result["operators on the CPU"]) or "none"
    print(f"operators on the CPU: {on_cpu}; {result['cycles']} cycles")
    if "replay" in result:
        same = result["replay"]
        print(
            f"step {chosen.replay} on the RTL: {same['equal']} of {same['tensors']} tensors of adapters and "
            f"optimizer are equal to the bit; {same['cycles']} cycles"
        )


if __name__ == "__main__":
    main()
