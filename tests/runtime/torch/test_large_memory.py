"""PyTorch on a device with memory above 4 GiB: tensors larger than a small region, eager and compiled."""

import os
import subprocess
import sys

PROGRAM = """
import torch
import torch.nn.functional as F
import echo_npu.torch

torch.manual_seed(0)
fill = [torch.empty(1 << 30, dtype=torch.uint8, device="echo_npu") for _ in range(3)]
table = torch.randn(1_200_000, 128).to(torch.bfloat16)  # 293 MiB
x, y = torch.randn(5, 128), torch.randn(5, 128)
picked = torch.tensor([0, 600_000, 1_199_999])


def step(x, y, weight, bias):
    hidden = F.gelu(F.linear(x, weight, bias)) * y
    return F.layer_norm(hidden, (128,), bias, y[0]).softmax(-1)


weight, bias = torch.randn(128, 128), torch.randn(128)
operands = (x, y, weight, bias)
on_npu = [each.to("echo_npu") for each in operands]
device_table = table.to("echo_npu")
assert device_table.data_ptr() >= (12 << 30) + (3 << 30)
assert torch.equal(device_table[picked.to("echo_npu")].cpu(), table[picked])
assert torch.equal(device_table[-4096:].cpu(), table[-4096:])
eager = step(*on_npu).cpu()
torch.testing.assert_close(eager, step(*operands), rtol=1e-4, atol=1e-5)
compiled = torch.compile(step, backend="echo_npu")
for _ in range(2):
    assert torch.equal(compiled(*on_npu).cpu(), eager)
try:
    torch.empty(9 << 30, dtype=torch.uint8, device="echo_npu")
except torch.OutOfMemoryError as error:
    assert str(9 << 30) in str(error), error
else:
    raise AssertionError("no region has 9 GiB")
print("done")
"""


def test_tensors_above_4_gib() -> None:
    settings = {**os.environ, "ECHO_NPU_CONFIG": "large", "ECHO_NPU_BACKEND": "cmodel"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=settings
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
