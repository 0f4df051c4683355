"""A LoRA of the package peft, trained on the NPU: adapters of a tiny Qwen2 learn a sentence by heart.

python examples/torch/lora.py [--backend cmodel|rtlfarm|rtlmodel] [--config NAME] [--steps 20]
"""

import argparse
import json

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

import echo_npu.torch
from echo_sim.numerals import Whole

SENTENCE = b"The systolic array multiplies."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel", "rtlfarm"])
    parser.add_argument("--config", default="default")
    parser.add_argument("--steps", type=Whole(1), default=20)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = parser.parse_args()
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
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
    model = get_peft_model(Qwen2ForCausalLM(config), adapters).to("echo_npu")
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-2, fused=True)
    ids = torch.tensor([list(SENTENCE)], device="echo_npu")
    losses = []
    echo_npu.torch.reset_op_counts()
    for step in range(chosen.steps):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not chosen.json:
            print(f"step {step + 1}: loss {losses[-1]:.4f}")
    counts = echo_npu.torch.op_counts()
    result = {
        "backend": chosen.backend,
        "losses": losses,
        "trained parameters": sum(each.numel() for each in trained),
        "operators on the CPU": sorted(name for name, each in counts.items() if each["cpu"]),
        "cycles": echo_npu.torch.device().counters()["cycles"],
    }
    if chosen.json:
        print(json.dumps(result))
        return
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}; {result['trained parameters']} parameters were trained")
    on_cpu = ", ".join(result["operators on the CPU"]) or "none"
    print(f"operators on the CPU: {on_cpu}; {result['cycles']} cycles")


if __name__ == "__main__":
    main()
