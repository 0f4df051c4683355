"""A LeNet on handwritten digits, trained on the NPU.

python examples/torch/lenet.py [--backend cmodel|rtlfarm|rtlmodel] [--config NAME] [--epochs 3] [--steps N]
"""

import argparse
import json

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import echo_npu.torch
from echo_sim.config import config_argument
from echo_sim.numerals import Whole

BATCH = 16


def lenet() -> nn.Module:
    """A network for images of 8x8: two convolutions, one pooling, two layers."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """All images, float32 [1797, 1, 8, 8] between -0.3 and 0.7, and labels, int64 [1797], in random order."""
    loaded = load_digits()
    order = torch.randperm(len(loaded.target))
    images = torch.tensor(loaded.images, dtype=torch.float32)[order] / 16 - 0.3
    return images[:, None], torch.tensor(loaded.target, dtype=torch.int64)[order]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel", "rtlfarm"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--epochs", type=Whole(1), default=3)
    parser.add_argument("--steps", type=Whole(1), help="stop after so many steps")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = parser.parse_args()
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
    torch.manual_seed(0)
    images, labels = digits()
    held_out = len(images) // 5
    model = lenet().to("echo_npu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, fused=True)
    losses: list[float] = []
    echo_npu.torch.reset_op_counts()
    for _ in range(chosen.epochs):
        for batch in torch.randperm(len(images) - held_out).split(BATCH):
            if len(losses) == chosen.steps:
                break
            x, y = images[held_out + batch].to("echo_npu"), labels[held_out + batch].to("echo_npu")
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if not chosen.json and len(losses) % 10 == 1:
                print(f"step {len(losses)}: loss {losses[-1]:.4f}")
    on_cpu = sorted(name for name, each in echo_npu.torch.op_counts().items() if each["cpu"])
    tested = held_out if chosen.steps is None else BATCH
    with torch.no_grad():
        found = model(images[:tested].to("echo_npu")).argmax(1).cpu()
    result = {
        "backend": chosen.backend,
        "steps": len(losses),
        "losses": losses,
        "tested": tested,
        "right": int((found == labels[:tested]).sum()),
        "operators on the CPU": on_cpu,
        "cycles": echo_npu.torch.device().counters()["cycles"],
    }
    if chosen.json:
        print(json.dumps(result))
        return
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps of {BATCH} images")
    print(f"right: {result['right']} of {tested} images that were not trained on")
    print(f"operators of a step on the CPU: {', '.join(on_cpu) or 'none'}; {result['cycles']} cycles")


if __name__ == "__main__":
    main()
