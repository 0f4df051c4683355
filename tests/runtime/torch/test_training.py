"""Whole models: training, autocast, checkpoints, transforms."""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import echo_npu.torch
from tests.runtime.torch.comparison import assert_native

DEVICE = "echo_npu"
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "AdamW, fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
    "AdamW, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, foreach=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, weight_decay=0.01),
    "Adam, fused": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, weight_decay=0.01, fused=True),
    "SGD, fused": lambda parameters: torch.optim.SGD(
        parameters, lr=0.02, momentum=0.9, weight_decay=0.01, nesterov=True, fused=True
    ),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
}


def lenet() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_lenet_trains_as_on_the_cpu(name: str) -> None:
    steps = 20 if name == "AdamW" else 3
    images, labels = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
    trained = []
    for device in ("cpu", DEVICE):
        model = lenet().to(device)
        optimizer = OPTIMIZERS[name](model.parameters())
        x, y = images.to(device), labels.to(device)
        echo_npu.torch.reset_op_counts()
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        trained.append([each.detach().cpu() for each in model.parameters()])
    assert_native()
    for expected, found in zip(*trained, strict=True):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_and_scaled_gradients(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 4)).to(DEVICE)
    x = torch.randn(5, 8, device=DEVICE)
    scaler = torch.amp.GradScaler(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        with torch.autocast(DEVICE, dtype=dtype):
            made = model(x)
            loss = nn.functional.mse_loss(made, torch.ones_like(made))
        assert made.dtype == dtype
        assert loss.dtype == torch.float32
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


CASTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "norm": lambda x, y: torch.linalg.vector_norm(y),
    "cosine_similarity": lambda x, y: nn.functional.cosine_similarity(y, y * 2),
    "cdist": torch.cdist,
    "pow of a number": lambda x, y: 2**y,
    "prod": lambda x, y: y.prod(1),
    "dot": lambda x, y: torch.dot(x[0], y[0]),
    "scatter_add": lambda x, y: x.scatter_add(0, torch.zeros(4, 3, dtype=torch.int64, device=x.device), y),
    "index_put": lambda x, y: x.index_put((torch.tensor([0, 2], device=x.device),), y[:2]),
    "cross": lambda x, y: torch.cross(x, y, dim=1),
    "tensordot": lambda x, y: torch.tensordot(x, y, 2),
    "bilinear": lambda x, y: nn.functional.bilinear(x, y, torch.ones(2, 3, 3, device=x.device)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASTS)
def test_what_autocast_keeps_in_float32(name: str, dtype: torch.dtype) -> None:
    """What overflows or sums up, and what takes the widest of its types: here float32 and a lower one."""
    x, y = torch.rand(2, 4, 3) + 0.5
    y = y.to(dtype)
    with torch.autocast(DEVICE, dtype=dtype):
        found = CASTS[name](x.to(DEVICE), y.to(DEVICE))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.cpu(), CASTS[name](x, y.float()), rtol=1e-4, atol=1e-4)


def test_autocast_leaves_float64_as_it_is() -> None:
    x = torch.rand(3, 3, dtype=torch.float64)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        for function in (torch.mm, torch.matmul, torch.dist):
            found = function(x.to(DEVICE), x.to(DEVICE) + 1)
            assert found.dtype == torch.float64
            torch.testing.assert_close(found.cpu(), function(x, x + 1))


@pytest.mark.parametrize("name", ["AdamW, fused", "SGD, fused"])
def test_a_fused_step_of_scaled_gradients(name: str) -> None:
    """A step with an infinite gradient is left out, as on the CPU."""
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        layer = nn.Linear(4, 3).to(device)
        optimizer = OPTIMIZERS[name](layer.parameters())
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for number in range(3):
            optimizer.zero_grad()
            scaler.scale(layer(torch.ones(2, 4, device=device)).square().mean()).backward()
            if number == 1:
                assert layer.bias.grad is not None
                layer.bias.grad[0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 4.0
        results.append([each.detach().cpu() for each in layer.parameters()])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_jacobians_of_a_layer() -> None:
    """Forward mode, backward mode, and both: products with operands that have no tangent."""
    x, weight = torch.randn(3), torch.randn(3, 4)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weight.to(x.device))

    for transform in (torch.func.jacfwd, torch.func.jacrev, torch.func.hessian):
        found, expected = transform(layer)(x.to(DEVICE)), transform(layer)(x)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_a_checkpoint_gives_the_same_gradients() -> None:
    layer = nn.Linear(4, 4).to(DEVICE)
    grads = []
    for run in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False)):
        x = torch.ones(2, 4, device=DEVICE, requires_grad=True)
        run(lambda x: torch.relu(layer(x)), x).sum().backward()
        assert x.grad is not None
        grads.append(x.grad.cpu())
    assert torch.equal(*grads)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_transforms_hooks_and_second_derivatives() -> None:
    x = torch.randn(4, 3, device=DEVICE)

    def square(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    rows = torch.func.vmap(torch.func.grad(square))(x)
    torch.testing.assert_close(rows.cpu(), 2 * x.cpu())
    value, tangent = torch.func.jvp(square, (x,), (x,))
    torch.testing.assert_close(tangent.cpu(), 2 * value.cpu())
    y = x.clone().requires_grad_()
    seen = []
    y.register_hook(lambda grad: seen.append(grad.shape))
    (first,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    first.sum().backward()
    assert y.grad is not None
    torch.testing.assert_close(y.grad.cpu(), 6 * x.cpu())
    assert seen == [x.shape, x.shape]


class InterruptedPassError(Exception):
    pass


def interrupt(*values: object) -> None:
    raise InterruptedPassError


INTERRUPTIONS: dict[str, Callable[[torch.Tensor, nn.Module], object]] = {
    "of a leaf": lambda x, model: x.register_hook(interrupt),
    "behind a sum": lambda x, model: x.register_post_accumulate_grad_hook(interrupt),
    "of a module": lambda x, model: model.register_full_backward_hook(interrupt),
    "before a module": lambda x, model: model.register_full_backward_pre_hook(interrupt),
}


@pytest.mark.parametrize("name", INTERRUPTIONS)
@pytest.mark.parametrize("threads", [True, False])
def test_what_a_hook_raises_ends_the_backward_pass(name: str, threads: bool) -> None:
    """The process goes on, and the next pass is whole."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(DEVICE)
    x = torch.rand(2, 3, device=DEVICE, requires_grad=True)
    handle = INTERRUPTIONS[name](x, model)
    for _ in range(3):
        with torch.autograd.set_multithreading_enabled(threads), pytest.raises(InterruptedPassError):
            model(x).sum().backward()
    handle.remove()  # type: ignore[attr-defined]
    (gradient,) = torch.autograd.grad(model(x).sum(), x)
    model(x).sum().backward()
    assert not gradient.isnan().any()


def test_a_transformer_layer_and_an_lstm() -> None:
    torch.manual_seed(0)
    for model, shape in (
        (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
        (nn.LSTM(16, 8, batch_first=True), (2, 5, 16)),
        (nn.LSTM(16, 8, bias=False), (3, 2, 16)),
        (nn.GRU(16, 8), (3, 2, 16)),
        (nn.BatchNorm1d(16), (12, 16)),
    ):
        x = torch.randn(*shape)
        results = []
        for device in ("cpu", DEVICE):
            model.to(device).zero_grad()
            made = model(x.to(device))
            made = made[0] if isinstance(made, tuple) else made
            made.square().sum().backward()
            results.append([made.detach().cpu(), *(each.grad.cpu().clone() for each in model.parameters())])
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
