"""Storages, views, copies, files."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import echo_npu.torch
from echo_npu.torch import types

DEVICE = "echo_npu"
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[..., ::2],
    "permute": lambda x: x.permute(2, 0, 1),
    "expand": lambda x: x.unsqueeze(1).expand(3, 6, 4, 5),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "split": lambda x: x.reshape(12, 5).split(5)[1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "offset": lambda x: x.view(-1)[7:],
    "movedim": lambda x: x.movedim(0, 2),
    "flatten": lambda x: x.flatten(),
    "element": lambda x: x[0, 0, 0],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (5, 1), 3),
    "bits": lambda x: x.view(torch.int32),
    "transpose": lambda x: x.mT,
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_is_stored_and_rearranged(dtype: torch.dtype) -> None:
    x = (torch.arange(12).reshape(3, 4) % 2).to(dtype)
    y = x.to(DEVICE)
    assert y.dtype == dtype
    wide = torch.complex128
    assert torch.equal(y.cpu().to(wide), x.to(wide))
    assert torch.equal(y.t().contiguous().cpu().to(wide), x.t().to(wide))


ORDERED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "where, converted": lambda x: torch.where(x > 0, x.half(), x),
    "where, broadcast": lambda x: torch.where(x[:1] > 0, x, x),
    "logical_and": lambda x: torch.logical_and(x > 0, x < 1),
    "logical_or of floats": lambda x: torch.logical_or(x, x),
    "flip": lambda x: x.flip(0, -1),
    "add": lambda x: x + 1,
    "round to int64": lambda x: x.round().long(),
    "on the CPU": lambda x: x.double().cosh(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_moves_no_data(name: str) -> None:
    x = torch.arange(60.0).reshape(3, 4, 5)
    y = x.to(DEVICE)
    torch.accelerator.synchronize()
    echo_npu.torch.reset_op_counts()
    view, expected = VIEWS[name](y), VIEWS[name](x)
    counts = echo_npu.torch.op_counts().values()
    assert not any(each["npu"] or each["cpu"] for each in counts)
    assert view.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert (view.shape, view.stride(), view.storage_offset()) == (
        expected.shape,
        expected.stride(),
        expected.storage_offset(),
    )
    assert torch.equal(view.cpu(), expected)


@pytest.mark.parametrize("name", ORDERED)
def test_results_keep_the_order_of_memory(name: str) -> None:
    """That of dense operands, natively and on the CPU: a view that works there works here."""
    for x in (torch.randn(3, 4).t(), torch.randn(2, 3, 4).permute(2, 0, 1), torch.randn(2, 6)[:, ::2]):
        assert ORDERED[name](x.to(DEVICE)).stride() == ORDERED[name](x.to(DEVICE).cpu()).stride()


def test_empty_and_single_tensors() -> None:
    assert torch.empty(0, 3, device=DEVICE).cpu().shape == (0, 3)
    assert torch.tensor(3.0, device=DEVICE).item() == 3.0
    assert (torch.empty(0, device=DEVICE) + 1).shape == (0,)
    x = torch.ones(2, 2, device=DEVICE)
    assert x.contiguous() is x


def test_writes_through_views() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    y = x.to(DEVICE)
    for each in (x, y):
        each[1:, 2] = 7
        each[:, ::2] += 1
        each.t()[0] = each[0, :4].clone()
        each[1:] = each[:-1].clone()
        each[:, 1:].copy_(each[:, :-1].clone())
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.int32, torch.bool, torch.float64])
@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.int32, torch.int64, torch.bool])
def test_conversions_within_and_between_devices(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0, -2.0, 7.0, 100.0]).to(source)
    expected = x.to(target)
    y = x.to(DEVICE)
    assert torch.equal(y.to(target).cpu(), expected)
    assert torch.equal(x.to(DEVICE, target).cpu(), expected)
    assert torch.equal(y.to("cpu", target), expected)


def test_files_and_copies_of_objects() -> None:
    module = torch.nn.Linear(3, 4).to(DEVICE)
    weight = module.weight.detach().cpu()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    for location, device in ((None, DEVICE), ("cpu", "cpu"), (DEVICE, DEVICE)):
        file.seek(0)
        loaded = torch.load(file, map_location=location)["weight"]
        assert loaded.device.type == device
        assert torch.equal(loaded.cpu(), weight)
    for copied in (copy.deepcopy(module).weight, pickle.loads(pickle.dumps(module.weight.detach()))):
        assert copied.device.type == DEVICE
        assert copied.data_ptr() != module.weight.data_ptr()
        assert torch.equal(copied.detach().cpu(), weight)


def test_resizing_keeps_elements_and_place() -> None:
    for device in ("cpu", DEVICE):
        x = torch.arange(10.0, device=device)
        part = x[6:]
        part.resize_(3)
        assert part.tolist() == [6, 7, 8]
        part.resize_(9)  # beyond the storage, because it starts in its middle
        assert part.storage_offset() == 6
        assert part.tolist()[:4] == [6, 7, 8, 9]
        part.fill_(1)
        assert part.untyped_storage().nbytes() >= 60
        assert part.sum().item() == 9


def test_shared_memory() -> None:
    x = torch.arange(3.0)
    y = x.to(DEVICE, non_blocking=True)
    y.share_memory_()
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.to("cpu", non_blocking=True), x)
    assert torch.equal(y.to("cpu", torch.int32, non_blocking=True), x.int())


def test_moving_a_module_keeps_its_parameters() -> None:
    module = torch.nn.Linear(2, 2)
    before = module.weight
    module.to(DEVICE)
    assert module.weight is before
    assert before.device.type == DEVICE


WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "fill": lambda x: x.fill_(3),
    "zero": lambda x: x.zero_(),
    "masked_fill": lambda x: x.masked_fill_(torch.ones(3, dtype=torch.bool, device=x.device), 2),
    "mask": lambda x: x.__setitem__(torch.ones(4, 3, dtype=torch.bool, device=x.device), 2),
    "index_put": lambda x: x.__setitem__(torch.tensor([1, 2], device=x.device), 5),
    "add": lambda x: x.add_(1),
    "copy": lambda x: x.copy_(torch.zeros(4, 3, device=x.device)),
}


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")
@pytest.mark.parametrize(
    ("name", "view"),
    # In windows PyTorch does not say whether "add" adds once.
    [(name, view) for name in WRITES for view in ("expand", "windows") if (name, view) != ("add", "windows")],
)
def test_writes_to_elements_that_share_memory(name: str, view: str) -> None:
    """As on the CPU: the same result or the same refusal."""
    results = []
    for device in ("cpu", DEVICE):
        whole = torch.arange(6.0, device=device)
        x = whole[:3].expand(4, 3) if view == "expand" else whole.unfold(0, 3, 1)
        try:
            WRITES[name](x)
        except RuntimeError as error:
            results.append(str(error).splitlines()[0])
        else:
            results.append(str(whole.tolist()))
    assert results[0] == results[1]


WITHOUT_NUMBERS = sorted(types.WITHOUT_NUMBERS, key=str)
REST = (torch.complex32, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [*WITHOUT_NUMBERS, *REST], ids=str)
def test_types_of_bits_are_stored(dtype: torch.dtype) -> None:
    """Also those that PyTorch itself neither converts nor computes with: bit by bit."""
    raw = torch.arange(6 * dtype.itemsize, dtype=torch.uint8) + 1

    def same(x: torch.Tensor, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> bool:
        return torch.equal(x.cpu().view(torch.uint8), raw.view(6, -1)[list(order)].flatten())

    x = raw.view(dtype).to(DEVICE)
    assert x.dtype == dtype
    assert same(x)
    assert same(x.clone())
    assert same(torch.empty_like(x).copy_(x))
    assert same(torch.empty_like(x, device="cpu").copy_(x))
    assert same(x.view(2, 3).t().contiguous().flatten(), (0, 3, 1, 4, 2, 5))
    assert same(x[torch.tensor([1, 0, 2, 3, 4, 5])], (1, 0, 2, 3, 4, 5))
    assert not torch.zeros(3, dtype=dtype, device=DEVICE).view(torch.uint8).any()
    if "int" not in str(dtype):  # PyTorch neither joins nor saves those
        assert same(torch.cat([x[4:], x[:4]]), (4, 5, 0, 1, 2, 3))
        assert same(copy.deepcopy(x))
        for location in (DEVICE, "cpu"):
            file = io.BytesIO()
            torch.save(x, file)
            file.seek(0)
            loaded = torch.load(file, map_location=location)
            assert loaded.device.type == location
            assert same(loaded)
    if dtype in types.WITHOUT_NUMBERS:
        with pytest.raises(NotImplementedError, match=str(dtype)):
            x.fill_(1)
        with pytest.raises((NotImplementedError, RuntimeError)):
            x + x
        with pytest.raises((NotImplementedError, RuntimeError)):
            x.float()
    assert same(x)


REFUSED: dict[str, Callable[[torch.Tensor], object]] = {
    "a sparse tensor": lambda x: x.to_sparse(),
    "a sparse tensor of the CPU": lambda x: x.cpu().to_sparse().to(DEVICE),
    "an empty sparse tensor": lambda x: torch.empty(3, 3, layout=torch.sparse_coo, device=DEVICE),
    "a tensor in compressed rows": lambda x: x.to_sparse_csr(),
    "a tensor for oneDNN": lambda x: x.to_mkldnn(),
    "a quantized tensor": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "a quantized tensor of the CPU": lambda x: torch.quantize_per_tensor(x.cpu(), 0.1, 0, torch.qint8).to(
        DEVICE
    ),
    "an empty quantized tensor": lambda x: torch.empty(3, dtype=torch.quint8, device=DEVICE),
    "a nested tensor of the CPU": lambda x: torch.nested.nested_tensor([x[0].cpu(), x[0, :2].cpu()]).to(
        DEVICE
    ),
    "a sparse gradient": lambda x: (
        functional.embedding(torch.tensor([0, 1], device=DEVICE), x.clone().requires_grad_(), sparse=True)
        .sum()
        .backward()
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_tensors_that_are_not_stored_are_refused(name: str) -> None:
    x = torch.ones(3, 3, device=DEVICE)
    with pytest.raises(NotImplementedError, match="echo_npu has no"):
        REFUSED[name](x)
    assert (x + 1).sum().item() == 18


def test_a_part_that_is_turned_in_its_place() -> None:
    """The CPU does not see that such operands overlap; the device reads all elements before it writes one."""
    for dtype in (torch.float32, torch.int64, torch.bool):
        part = torch.arange(35, device=DEVICE).reshape(5, 7).to(dtype)[:, :5]
        expected = part.t().clone().cpu()
        assert torch.equal(part.copy_(part.t()).cpu(), expected)
