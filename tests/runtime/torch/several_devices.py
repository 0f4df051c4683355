"""Several NPUs. A program of its own, because a process chooses its devices once."""

import copy
import io

import pytest
import torch
from torch import nn

import echo_npu.torch

DEVICE = "echo_npu"


def current_device() -> None:
    """ "echo_npu" is the device that was chosen, wherever it is said."""
    assert torch.accelerator.device_count() == torch.echo_npu.device_count() == 3
    x = torch.randn(2)
    torch.accelerator.set_device_index(2)
    made = [
        torch.ones(2, device=DEVICE),
        torch.tensor([1.0], device=DEVICE),
        torch.as_tensor([1.0], device=DEVICE),
        x.to(DEVICE),
        x.to(torch.device(DEVICE)),
        x.echo_npu(),
        nn.Linear(2, 2).to(DEVICE).weight,
    ]
    assert {each.device.index for each in made} == {2}
    assert torch.accelerator.current_device_index() == 2
    with torch.accelerator.device_index(1):
        assert torch.ones(2, device=DEVICE).device.index == 1
    with torch.echo_npu.device(1):
        assert x.to(DEVICE).device.index == 1
    assert x.to(DEVICE).device.index == 2
    torch.accelerator.set_device_index(0)
    assert x.to(DEVICE).device.index == 0


def separate() -> None:
    """Each device has its own NPU, memory and generator."""
    assert len({echo_npu.torch.device(index) for index in range(3)}) == 3
    before = [torch.accelerator.memory_allocated(index) for index in range(3)]
    held = torch.empty(1 << 20, dtype=torch.uint8, device="echo_npu:1")
    after = [torch.accelerator.memory_allocated(index) for index in range(3)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [0, held.numel(), 0]
    torch.manual_seed(1)
    first = torch.rand(3, device="echo_npu:0")
    assert torch.equal(torch.rand(3, device="echo_npu:1").cpu(), first.cpu())
    with pytest.raises(RuntimeError, match="generator of echo_npu:1 but found one of echo_npu:2"):
        torch.rand(3, device="echo_npu:1", generator=torch.Generator("echo_npu:2"))


def copies() -> None:
    """Between devices, with conversion and strides; files and objects keep the device."""
    x = torch.randn(3, 4)
    y = x.to("echo_npu:1")
    z = y.t().to("echo_npu:2", torch.bfloat16)
    assert z.device.index == 2
    assert torch.equal(z.cpu(), x.t().bfloat16())
    y[1:].copy_(y.to("echo_npu:0")[:-1] + 1)
    assert torch.equal(y.cpu()[1:], x[:-1] + 1)
    file = io.BytesIO()
    torch.save(y, file)
    for location, index in ((None, 1), ("echo_npu:2", 2)):
        file.seek(0)
        assert torch.load(file, map_location=location).device.index == index
    assert copy.deepcopy(y).device.index == 1
    for dtype in (torch.bool, torch.uint16, torch.complex64, torch.float8_e4m3fn):
        assert torch.zeros(3, dtype=dtype, device="echo_npu:1").cpu().dtype == dtype


def mixed() -> None:
    """Operands of two devices are refused, by native operators and by those of the CPU."""
    x = torch.rand(3, 3, device="echo_npu:0") + 1
    y = x.to("echo_npu:1")
    for function in (torch.add, torch.mm, torch.atan2, lambda a, b: torch.cat([a, b])):
        for operands in ((x, y), (y, x)):
            with pytest.raises(RuntimeError, match="same device"):
                function(*operands)
    assert torch.equal((x + x).cpu(), (y + y).cpu())


def training() -> None:
    """On one device that is not the first, and across two."""
    x, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    for options in ({"fused": True}, {"foreach": True}):
        trained = []
        for devices in (("cpu", "cpu"), ("echo_npu:1", "echo_npu:1"), ("echo_npu:0", "echo_npu:2")):
            torch.manual_seed(0)
            first, second = nn.Linear(4, 6).to(devices[0]), nn.Linear(6, 3).to(devices[1])
            parameters = [*first.parameters(), *second.parameters()]
            optimizer = torch.optim.AdamW(parameters, **options)
            logits = second(torch.relu(first(x.to(devices[0]))).to(devices[1]))
            nn.functional.cross_entropy(logits, labels.to(devices[1])).backward()
            optimizer.step()
            assert first.weight.grad is not None
            assert str(first.weight.grad.device) == devices[0]
            trained.append([each.detach().cpu() for each in parameters])
        for other in trained[1:]:
            for expected, found in zip(trained[0], other, strict=True):
                torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)


def scaled_gradients() -> None:
    """A fused step of parameters on two devices, or on one and the CPU; one step is left out."""
    for make in (torch.optim.AdamW, torch.optim.SGD):
        trained = []
        for devices in (("cpu", "cpu"), ("echo_npu:1", "echo_npu:2"), ("cpu", "echo_npu:2")):
            torch.manual_seed(0)
            params = [torch.randn(3, 2).to(each).requires_grad_() for each in devices]
            optimizer = make(params, lr=0.1, fused=True)
            scaler = torch.amp.GradScaler(devices[1], init_scale=8.0)
            for number in range(3):
                optimizer.zero_grad()
                loss = sum((each * each).sum().to(devices[1]) for each in params)
                scaler.scale(loss).backward()
                if number == 1:
                    params[0].grad[0, 0] = torch.inf
                before = [each._version for each in params]
                scaler.step(optimizer)
                if devices[0] != "cpu":
                    assert all(
                        (each._version > v) == (number != 1) for each, v in zip(params, before, strict=True)
                    )
                scaler.update()
            assert scaler.get_scale() == 4.0
            trained.append([each.detach().cpu() for each in params])
        for other in trained[1:]:
            for expected, found in zip(trained[0], other, strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(7)
    echo_npu.torch.configure(backend="cmodel", devices=3)
    for check in (current_device, separate, copies, mixed, training, scaled_gradients):
        check()
        print(check.__name__)
