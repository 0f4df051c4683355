"""The LoRA of lora.py, trained by several processes, each with its own NPU and its share of a batch.

torchrun --nproc-per-node 2 examples/torch/lora_parallel.py [--backend cmodel|rtlmodel] [--steps 4]

Without torchrun, one process trains on the whole batch, to the same parameters.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from lora import tiny_model
from torch.nn.parallel import DistributedDataParallel

import echo_npu.torch
from echo_sim.config import config_argument
from echo_sim.numerals import Whole

SENTENCES = (b"The systolic array multiplies.", b"Partial sums move down a row!!")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--steps", type=Whole(1), default=4)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = parser.parse_args()
    echo_npu.torch.configure(backend=chosen.backend, config=chosen.config)
    torch.set_num_threads(1)
    model = tiny_model()[0].to("echo_npu")
    parallel = "RANK" in os.environ
    rank, size = 0, 1
    if parallel:
        dist.init_process_group("echo_npu")
        rank, size = dist.get_rank(), dist.get_world_size()
        if len(SENTENCES) % size:
            raise SystemExit(f"{size} processes cannot divide {len(SENTENCES)} sentences")
    trained = [each for each in model.parameters() if each.requires_grad]
    run = DistributedDataParallel(model) if parallel else model
    optimizer = torch.optim.AdamW(trained, lr=2e-2, fused=True)
    ids = torch.tensor([list(each) for each in SENTENCES[rank::size]], device="echo_npu")
    losses = []
    for step in range(chosen.steps):
        optimizer.zero_grad()
        loss = run(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        mean = loss.detach() / size
        if parallel:
            dist.all_reduce(mean)
        losses.append(mean.item())
        if rank == 0 and not chosen.json:
            print(f"step {step + 1}: loss {losses[-1]:.4f}")
    if rank == 0 and chosen.json:
        parameters = [each.detach().cpu().flatten().tolist() for each in trained]
        print(json.dumps({"processes": size, "losses": losses, "parameters": parameters}))
    if parallel:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
