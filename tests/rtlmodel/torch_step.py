"""A training step of two small models on one backend; what it leaves goes to a file.

A program of its own, because a process chooses the devices of PyTorch once:
python -m tests.rtlmodel.torch_step BACKEND CONFIG FILE
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import echo_npu.torch

DEVICE = "echo_npu"


class TrainedBlock(nn.Module):
    """One layer of a language model, with a tied table of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.norm = nn.RMSNorm(8)
        self.qkv = nn.Linear(8, 16)
        self.last = nn.LayerNorm(8)
        self.up = nn.Linear(8, 12, bias=False)
        self.down = nn.Linear(12, 8, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        q, k, v = self.qkv(self.norm(x)).split([8, 4, 4], -1)
        q, k, v = (each.unflatten(-1, (-1, 4)).transpose(1, 2) for each in (q, k, v))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + heads.transpose(1, 2).flatten(2)
        x = x + self.down(functional.silu(self.up(self.last(x))))
        return x @ self.table.weight.t()


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, 3),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(12, 4),
    )


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, labels: torch.Tensor
) -> list[torch.Tensor]:
    """One step: gradients, parameters and the optimizer's state after it."""
    logits = model(x)
    functional.cross_entropy(logits.flatten(0, -2), labels.flatten()).backward()
    optimizer.step()
    left = [logits.detach()]
    for parameter in model.parameters():
        assert parameter.grad is not None
        left += [parameter.detach(), parameter.grad]
        left += [each for each in optimizer.state[parameter].values() if isinstance(each, torch.Tensor)]
    return [each.cpu() for each in left]


def others() -> list[torch.Tensor]:
    """Operators of other types: integers, masks, indices, low precision."""
    x = torch.randn(3, 9).to(DEVICE)
    ids, more = torch.randint(-(2**40), 2**40, (2, 3, 9)).to(DEVICE)
    half = x.bfloat16()
    return [
        (ids + more).cpu(),
        (ids < more).cpu(),
        ids.cumsum(1).cpu(),
        ids.float().cpu(),
        x.argmax(1).cpu(),
        torch.where(x > 0, ids, 3).cpu(),
        x[:, torch.tensor([2, 0, 8], device=DEVICE)].cpu(),
        (half * half.exp()).float().cpu(),
        half.softmax(1).float().cpu(),
        functional.max_pool2d(x[None, None], 2, return_indices=True)[1].cpu(),
    ]


def main(backend: str, config: str, file: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    echo_npu.torch.configure(backend=backend, config=config)
    left = others()
    model = lenet().to(DEVICE)
    images, labels = torch.randn(2, 1, 8, 8), torch.randint(0, 4, (2,))
    adamw = torch.optim.AdamW(model.parameters(), fused=True)
    left += step(model, adamw, images.to(DEVICE), labels.to(DEVICE))
    block = TrainedBlock().to(DEVICE)
    ids = torch.randint(0, 11, (2, 6))
    sgd = torch.optim.SGD(block.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    with torch.autocast(DEVICE, torch.bfloat16):
        left += step(block, sgd, ids[:, :-1].to(DEVICE), ids[:, 1:].to(DEVICE))
    on_cpu = {name for name, each in echo_npu.torch.op_counts().items() if each["cpu"]}
    assert not on_cpu, on_cpu
    torch.save(left, file)
    print(echo_npu.torch.device().counters()["cycles"])


if __name__ == "__main__":
    main(*sys.argv[1:])
