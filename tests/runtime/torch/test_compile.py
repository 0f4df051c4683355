"""torch.compile: recorded graphs, fused programs, their reports."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import torch
from torch import nn
from torch.nn import functional

import echo_npu.torch
from echo_npu.torch.compiled.arena import Lifetime, layout
from tests.runtime.torch.comparison import DEVICE, assert_native, assert_same
from tests.runtime.torch.test_training import lenet

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""The stated error of fused programs, absolute and relative, for numbers of about 1."""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing compiled before or afterwards."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compiled(function: Any, *, fuse: bool = True) -> Any:
    return torch.compile(function, backend="echo_npu", options={"fuse": fuse})


def gradients(model: Any, parameters: Any, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """The loss and all gradients of a step."""
    made = functional.cross_entropy(model(x), y)
    return [made.detach(), *torch.autograd.grad(made, list(parameters))]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fuse", [False, True], ids=["unfused", "fused"])
def test_a_training_step_is_a_doorbell(fuse: bool, launched: dict[str, int]) -> None:
    """Three runs: one that records, two from the record, with other images. Unfused they equal eager."""
    model = lenet().to(DEVICE)
    fast = compiled(model, fuse=fuse)
    y = torch.arange(8, device=DEVICE)
    for _ in range(3):
        x = torch.randn(8, 1, 8, 8, device=DEVICE)
        expected = gradients(model, model.parameters(), x, y)
        torch.accelerator.synchronize()
        launched["doorbells"] = 0
        echo_npu.torch.reset_op_counts()
        found = gradients(fast, model.parameters(), x, y)
        torch.accelerator.synchronize()
        assert launched["doorbells"] == 1
        assert_native()
        for one, other in zip(found, expected, strict=True):
            if fuse:
                torch.testing.assert_close(one.cpu(), other.cpu(), rtol=1e-5, atol=1e-5)
            else:
                assert torch.equal(one.cpu(), other.cpu())
    kinds = [each.name.split("::")[1].split("_")[0] for each in echo_npu.torch.compiled_graphs()]
    assert kinds == ["forward", "backward"]
    assert all(not each.fallbacks and each.runs == 3 for each in echo_npu.torch.compiled_graphs())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_step_with_its_optimizer_is_a_doorbell(launched: dict[str, int]) -> None:
    """The bits of eager training. The rate changes without another recording."""
    models = [lenet().to(DEVICE) for _ in range(2)]
    rates = [torch.tensor(1e-2) for _ in models]
    optimizers = [
        torch.optim.AdamW(model.parameters(), lr=rate) for model, rate in zip(models, rates, strict=True)
    ]
    fast = compiled(models[0], fuse=False)
    step = torch.compile(optimizers[0].step, backend="echo_npu")
    y = torch.arange(4, device=DEVICE)
    for rate in (1e-2, 1e-2, 5e-3):
        x = torch.randn(4, 1, 8, 8, device=DEVICE)
        for each in rates:
            each.fill_(rate)
        functional.cross_entropy(models[1](x), y).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        torch.accelerator.synchronize()
        launched["doorbells"] = 0
        echo_npu.torch.reset_op_counts()
        functional.cross_entropy(fast(x), y).backward()
        step()
        torch.accelerator.synchronize()
        optimizers[0].zero_grad()
        assert launched["doorbells"] == 1
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one.cpu(), other.cpu())
        states = [dict(each.state) for each in optimizers]
        for name, value in states[0][one].items():
            assert torch.equal(value.cpu(), states[1][other][name].cpu())
    reports = {each.name.split("::")[1].split("_")[0]: each for each in echo_npu.torch.compiled_graphs()}
    assert list(reports) == ["forward", "backward", "step"]
    assert all(each.parts == 1 and not each.fallbacks for each in reports.values())
    assert reports["step"].commands == 2 * len(list(models[0].parameters()))
    assert_native()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_compiled_step_of_sgd(momentum: float, launched: dict[str, int]) -> None:
    """Its first step differs where there is momentum; parameters with and without weight decay."""
    lists = [[torch.ones(3, device=DEVICE), torch.ones(2, 2, device=DEVICE)] for _ in range(2)]
    optimizers = [
        torch.optim.SGD(
            [{"params": params[:1]}, {"params": params[1:], "weight_decay": 0.5}], lr=0.1, momentum=momentum
        )
        for params in lists
    ]
    step = torch.compile(optimizers[0].step, backend="echo_npu")
    for number in range(4):
        for pair in zip(*lists, strict=True):
            grad = torch.randn(pair[0].shape)
            for each in pair:
                each.grad = grad.to(DEVICE)
        optimizers[1].step()
        torch.accelerator.synchronize()
        launched["commands"] = 0
        step()
        if number > 1:  # the compiler itself looks at tensors
            assert launched["commands"] == 2 * (1 + bool(momentum))
    for one, other in zip(*lists, strict=True):
        assert torch.equal(one.cpu(), other.cpu())


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def layer_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * weight + 1


def masked_softmax(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x * 0.3).masked_fill(x < weight - 1, float("-inf")), -1)


def without_small_shares(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    shares = torch.softmax(x, -1)
    return torch.where(shares > 0.01, shares, shares * 0.1) * weight


def gate(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.silu(x) * weight


def rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (functional.gelu(x) * weight).sum(-1)


@pytest.mark.parametrize("function", [rms_norm, layer_norm, masked_softmax, without_small_shares, gate, rows])
def test_chains_are_one_program(function: Callable[..., torch.Tensor], launched: dict[str, int]) -> None:
    """Rows that a row register holds and one that none does; bfloat16; a last axis with gaps."""
    fast = torch.compile(function, backend="echo_npu", dynamic=False)
    for x in (
        torch.randn(2, 3, 40),
        torch.randn(2, 5000),
        torch.randn(2, 40).bfloat16(),
        torch.randn(40, 6).t(),
    ):
        weight = torch.randn(x.shape[-1]).to(x.dtype)
        expected = function(x, weight)
        for _ in range(2):
            launched["commands"] = 0
            found = fast(x.to(DEVICE), weight.to(DEVICE))
            assert launched["commands"] == 1
            assert_same(found, expected, TOLERANCE[x.dtype])


Pair: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CHAINED: dict[str, Pair] = {
    "rsub": lambda x, y: 2 - x,
    "sub": lambda x, y: x - y,
    "scaled sub": lambda x, y: torch.sub(x, y, alpha=3),
    "scaled add": lambda x, y: torch.add(x, y, alpha=3),
    "div": lambda x, y: x / (y + 3),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp from the end": lambda x, y: torch.lerp(x, y, 0.7),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.3),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y + 3, value=0.3),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "masked_fill": lambda x, y: y.masked_fill(x > 0, 5.0),
    "clamp": lambda x, y: x.clamp(-0.3, 0.4),
    "least": torch.minimum,
    "cube": lambda x, y: x**3,
    "reciprocal": lambda x, y: (y + 3) ** -1.0,
    "gelu": lambda x, y: functional.gelu(x),
    "gelu by tanh": lambda x, y: functional.gelu(x, approximate="tanh"),
    "sigmoid_backward": torch.ops.aten.sigmoid_backward,
    "tanh_backward": torch.ops.aten.tanh_backward,
    "silu_backward": torch.ops.aten.silu_backward,
    "threshold_backward": lambda x, y: torch.ops.aten.threshold_backward(x, y, 0.1),
    **{
        function.__name__: lambda x, y, function=function: torch.where(function(x.round(), y.round()), x, y)
        for function in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
    },
}


def test_every_operator_of_fused_programs() -> None:
    """Each in a chain of its own, with operands that are not alike."""

    def all_results(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [function(x, y) * 0.5 for function in CHAINED.values()]

    x, y = torch.randn(3, 20), torch.rand(3, 20) * 2 - 1
    found = compiled(all_results)(x.to(DEVICE), y.to(DEVICE))
    for name, one, other in zip(CHAINED, found, all_results(x, y), strict=True):
        print(name)
        assert_same(one, other, TOLERANCE[torch.float32])
    (report,) = echo_npu.torch.compiled_graphs()
    assert report.fused == len(CHAINED)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_fused_comparisons_take_numbers_as_elements(dtype: torch.dtype) -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == 0.1, 2.0, x.masked_fill(x <= -0.7, 5.0)) * 2

    x = torch.tensor([0.1, 0.3, -0.7, 1e-3] * 4).to(dtype).reshape(2, 8)
    assert_same(compiled(masked)(x.to(DEVICE)), masked(x), 2e-2)


def test_a_result_that_is_a_part() -> None:
    """A view that does not start where its memory does, from the recording and from the record."""
    x = torch.randn(4, 6)
    fast = compiled(lambda x: (x * 2)[1:, 2::2].t())
    for _ in range(3):
        assert_same(fast(x.to(DEVICE)), (x * 2)[1:, 2::2].t(), 0.0)


def test_a_reduction_that_does_not_fit() -> None:
    """A chain of one element a row whose program would have five operands leaves its reduction out."""

    def chain(x: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
        return rows[0] * rows[1] + rows[2] * (rows[3] + x.sum(-1, keepdim=True))

    given = [torch.randn(6, 40), *torch.randn(4, 6, 1)]
    found = compiled(chain)(*(each.to(DEVICE) for each in given))
    assert_same(found, chain(*given), TOLERANCE[torch.float32])


def test_parts_of_a_joined_tensor_are_computed_in_place(launched: dict[str, int]) -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        return torch.cat((-x[..., 3:], x[..., :3]), -1)

    x = torch.randn(2, 6)
    found = compiled(turned)(x.to(DEVICE))
    assert launched["commands"] == 2
    assert_same(found, turned(x), 0.0)


def test_operands_may_be_smaller_than_the_result(launched: dict[str, int]) -> None:
    """A chain expands them, alone or as a part of a joined tensor."""

    def function(x: torch.Tensor) -> torch.Tensor:
        wide = torch.tanh(x.sum(1, keepdim=True)).expand(x.shape[0], 5)
        return torch.cat([torch.relu(wide * 2 - 1), x[:, :2]], 1)

    x = torch.randn(4, 3)
    found = torch.compile(function, backend="echo_npu")(x.to(DEVICE)).cpu()
    torch.testing.assert_close(found, function(x), rtol=1e-5, atol=1e-5)


def test_a_fallback_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ordered(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x * 2 + 1).values * 3

    x = torch.randn(6)
    fast = compiled(ordered)
    for _ in range(2):
        assert_same(fast(x.to(DEVICE)), ordered(x), 1e-6)
    (report,) = echo_npu.torch.compiled_graphs()
    assert len(report.fallbacks) == 1
    assert "aten::sort" in report.fallbacks[0]
    assert "aten::sort" in echo_npu.torch.compile_report()
    monkeypatch.setenv("ECHO_NPU_FALLBACK", "error")
    with pytest.raises(echo_npu.torch.NotNativeError, match="sort"):
        fast(x.to(DEVICE))


def test_what_the_host_does_divides_a_recording(launched: dict[str, int]) -> None:
    """The stretches before, between and after are a recorded program each, with a doorbell."""

    def divided(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ x) * 2
        z = torch.sort(y.relu(), dim=-1).values @ x + scale
        rest = (z * (scale + 1)).sum(0)
        return torch.sort(rest).values @ y, z, (scale + 2).sqrt()

    fast = compiled(divided, fuse=False)
    for number in range(4):
        x, scale = torch.randn(5, 5), torch.tensor(float(number))
        expected = divided(x.to(DEVICE), scale)
        found = x.to(DEVICE)
        torch.accelerator.synchronize()
        launched["doorbells"] = 0
        found = fast(found, scale)
        torch.accelerator.synchronize()
        assert launched["doorbells"] == 3
        for one, other in zip(found, expected, strict=True):
            assert one.device == other.device
            assert torch.equal(one.cpu(), other.cpu())
    (report,) = echo_npu.torch.compiled_graphs()
    assert report.parts >= 3
    assert report.commands >= 4
    assert any("aten::sort" in each for each in report.fallbacks)
    assert any("on the CPU" in each for each in report.fallbacks)
    assert f"{report.name} is divided by" in echo_npu.torch.compile_report()


def test_a_number_that_the_host_reads_divides_a_recording() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        return y * y.max().item() - 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        fast = compiled(scaled)
        for _ in range(4):
            x = torch.randn(6)
            assert_same(fast(x.to(DEVICE)), scaled(x), 1e-5)
        (report,) = echo_npu.torch.compiled_graphs()
        assert report.parts == 2
        assert report.commands
        assert any("host" in each or "CPU" in each for each in report.fallbacks)


def test_graph_breaks_are_named() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(4)
    assert_same(compiled(broken)(x.to(DEVICE)), broken(x), 0.0)
    assert len(echo_npu.torch.compiled_graphs()) == 2
    ((place, count),) = echo_npu.torch.graph_breaks().items()
    assert count == 1
    line = broken.__code__.co_firstlineno + 2
    assert place.endswith(f"at {__file__}:{line}: torch._dynamo.graph_break()")
    assert f"graph break (1): {place}" in echo_npu.torch.compile_report()
    torch.compiler.reset()
    assert not echo_npu.torch.graph_breaks()


def test_what_runs_between_graphs_is_not_compiled() -> None:
    """The device's own code runs there as it is; only the user's breaks are reported."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum().item() > 0:  # a break, behind which operators run one by one
            y = y + torch.tensor([1.0]).to(x.device)
        torch._dynamo.graph_break()
        return torch.lgamma(y.abs() + 1)

    fast = compiled(broken)
    for _ in range(2):
        x = torch.rand(3, 5)
        assert_same(fast(x.to(DEVICE)), broken(x), 1e-5)
    places = echo_npu.torch.graph_breaks()
    assert places
    assert all(__file__ in each for each in places)
    assert any(".item()" in each for each in places)


def test_other_shapes_other_places_and_state() -> None:
    """Sizes that Dynamo makes variable, inputs that share memory, buffers that a run changes."""
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)).to(DEVICE)
    reference = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3))
    reference.load_state_dict(model.state_dict())
    fast = compiled(model)
    for count in (4, 6, 9, 9, 6):
        x = torch.randn(count, 5)
        assert_same(fast(x.to(DEVICE)).detach(), reference(x).detach(), 1e-5)
    for name, each in reference.state_dict().items():
        assert_same(model.state_dict()[name], each, 1e-5)

    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return x + y, y.view(-1)

    for x, y in ((torch.ones(4), torch.ones(4)), (torch.ones(4), None), (torch.ones(4), torch.ones(4))):
        expected = both(x, x if y is None else y)
        x = torch.ones(4, device=DEVICE)
        assert_same(compiled(both)(x, x if y is None else torch.ones(4, device=DEVICE)), expected, 0.0)


@pytest.mark.parametrize("affine", [False, True])
def test_statistics_of_a_batch_do_not_divide_a_recording(affine: bool) -> None:
    """Their operator changes the running ones, so it has no decomposition in PyTorch's tables."""
    model = nn.BatchNorm2d(3, affine=affine, track_running_stats=affine).to(DEVICE)
    reference = nn.BatchNorm2d(3, affine=affine, track_running_stats=affine)
    fast = compiled(model)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        echo_npu.torch.reset_op_counts()
        assert_same(fast(x.to(DEVICE)).detach(), reference(x).detach(), 1e-5)
        assert_native()
    for name, each in reference.state_dict().items():
        assert_same(model.state_dict()[name], each, 1e-5)
    assert all(not each.fallbacks for each in echo_npu.torch.compiled_graphs())


def test_the_profiler_sees_the_operators() -> None:
    x = torch.randn(3, 8, device=DEVICE)
    fast = compiled(lambda x: functional.silu(x @ x.t()) * 2)
    fast(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        fast(x)
    names = {each.key for each in profile.key_averages()}
    assert "aten::mm" in names
    assert any(name.startswith("echo_npu::fused_silu_mul") for name in names)
    assert any(name.startswith("echo_npu::inference") for name in names)


def test_options() -> None:
    for options in ({"fused": True}, {"fuse": 1}):
        with pytest.raises(Exception, match="option fuse"):
            torch.compile(lambda x: x + 1, backend="echo_npu", options=options)(torch.ones(2, device=DEVICE))
    assert "echo_npu" in torch.compiler.list_backends()


def test_blocks_that_live_at_the_same_time_lie_apart() -> None:
    """Random lifetimes: no overlap in space and time, and less memory than all together."""
    torch.manual_seed(0)
    blocks = []
    for size, first, span in torch.randint(1, 100, (200, 3)).tolist():
        blocks.append(Lifetime(size * 10, first, first + span % 7))
    offsets, total = layout(blocks)
    for i, a in enumerate(blocks):
        assert offsets[i] % 64 == 0
        assert offsets[i] + a.nbytes <= total
        for j, b in enumerate(blocks[:i]):
            if a.first <= b.last and b.first <= a.last:
                assert offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
    assert total < sum(each.nbytes for each in blocks) / 3


def test_autograd_sees_what_a_compiled_step_changes() -> None:
    """Parameters, and what else the compiled function writes to; in the first run and from the record."""
    layer, other = nn.Linear(3, 2).to(DEVICE), torch.ones(2, device=DEVICE)
    optimizer = torch.optim.AdamW(layer.parameters())

    @torch.compile(backend="echo_npu")
    def step() -> None:
        optimizer.step()
        other.mul_(2)

    for _ in range(4):
        weight, factor = layer.weight.clone().requires_grad_(), other
        loss = (layer.weight * weight).sum() + (factor * weight[:, 0]).sum()
        for each in layer.parameters():
            each.grad = torch.ones_like(each)
        before = [each._version for each in (*layer.parameters(), other)]
        with torch.no_grad():
            step()
        after = [each._version for each in (*layer.parameters(), other)]
        assert all(new > old for old, new in zip(before, after, strict=True))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert other.tolist() == [16.0, 16.0]


def filled(spare: int) -> list[torch.Tensor]:
    """Tensors that leave about so many bytes in each region."""
    torch.accelerator.empty_cache()
    regions = echo_npu.torch.device().memory_statistics().values()
    sizes = sorted(each.largest_free_block - spare for each in regions)
    return [torch.empty(each, dtype=torch.uint8, device=DEVICE) for each in reversed(sizes)]


def test_intermediate_results_in_both_regions(launched: dict[str, int]) -> None:
    """A graph runs where its operators one by one would; else the error says what was asked for."""

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = x + 1, x * 2, x - 3, x.tanh()
        return a * b + c * d

    fast = compiled(function, fuse=False)
    x = torch.randn(1 << 19, device=DEVICE)  # 2 MiB
    expected = function(x).cpu()
    fast(x)
    for profiled in (False, True):
        held = filled(7 << 20)
        torch.accelerator.synchronize()
        launched["doorbells"] = 0
        with torch.profiler.profile() if profiled else contextlib.nullcontext():
            found = fast(x)
        torch.accelerator.synchronize()
        assert launched["doorbells"] == 1
        assert torch.equal(found.cpu(), expected)
        del found
        held.clear()
        before, held = torch.accelerator.memory_allocated(), filled(3 << 20)
        with pytest.raises(torch.OutOfMemoryError, match="tried to allocate 2097152 bytes"):
            fast(x)
        held.clear()
        assert torch.accelerator.memory_allocated() == before
    assert torch.equal(fast(x).cpu(), expected)
