"""The collectives of the process group "echo_npu". A program that torchrun starts in two processes."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives

import echo_npu.torch

DEVICE = "echo_npu"


def reductions(rank: int) -> None:
    for device in (DEVICE, "cpu"):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            x = torch.arange(6, device=device).reshape(2, 3).to(dtype) + rank
            dist.all_reduce(x)
            assert x.device.type == device
            assert torch.equal(x.cpu(), (2 * torch.arange(6).reshape(2, 3) + 1).to(dtype))
    x = torch.arange(6.0, device=DEVICE).reshape(2, 3)[:, 1] * (rank + 1)
    columns = torch.zeros(2, 3, device=DEVICE)
    columns[:, 1] = x
    view = columns[:, 1]  # with gaps
    work = dist.all_reduce(view, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    assert columns.cpu().tolist() == [[0, 2, 0], [0, 8, 0]]
    y = torch.full((2,), rank + 1.0, device=DEVICE)
    dist.reduce(y, dst=1)
    assert rank == 0 or y.cpu().tolist() == [3, 3]


def gathers(rank: int) -> None:
    x = torch.tensor([rank, 7], device=DEVICE, dtype=torch.int32)
    parts = [torch.zeros_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    assert [each.tolist() for each in parts] == [[0, 7], [1, 7]]
    whole = torch.zeros(4, device=DEVICE, dtype=torch.int32)
    dist.all_gather_single(whole, x)
    assert whole.tolist() == [0, 7, 1, 7]
    dist.gather(x, parts if rank == 1 else None, dst=1)
    objects: list[object] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]


def scattered(rank: int) -> None:
    x = torch.full((2,), float(rank), device=DEVICE)
    dist.broadcast(x, src=1)
    assert x.tolist() == [1, 1]
    given = [torch.full((2,), 5.0, device=DEVICE), torch.full((2,), 6.0, device=DEVICE)]
    dist.scatter(x, given if rank == 0 else None, src=0)
    assert x.tolist() == [5.0 + rank] * 2
    out = torch.zeros(1, device=DEVICE)
    dist.reduce_scatter_single(out, torch.tensor([1.0, 2.0], device=DEVICE))
    assert out.item() == 2.0 * (rank + 1)
    dist.all_to_all_single(x, torch.tensor([10.0 * rank, 10.0 * rank + 1], device=DEVICE))
    assert x.tolist() == [rank, 10 + rank]


def between_two(rank: int) -> None:
    x = torch.tensor([1.5, -0.0, float("inf")], device=DEVICE)
    if rank == 0:
        dist.send(x, dst=1)
    else:
        y = torch.zeros(3, device=DEVICE)
        dist.recv(y, src=0)
        assert torch.equal(y.cpu().view(torch.int32), x.cpu().view(torch.int32))
    dist.barrier()


def crossing(rank: int) -> None:
    """Both receive before they send, and one does not say from whom."""
    sent, got = torch.full((2,), rank + 1.0, device=DEVICE), torch.zeros(2, device=DEVICE)
    receives = dist.irecv(got, src=1 - rank)
    sends = dist.isend(sent, dst=1 - rank)
    assert receives is not None
    assert sends is not None
    receives.wait()
    sends.wait()
    assert got.tolist() == [2.0 - rank] * 2
    got.zero_()
    operations = [dist.P2POp(dist.irecv, got, 1 - rank), dist.P2POp(dist.isend, sent, 1 - rank)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert got.tolist() == [2.0 - rank] * 2
    if rank == 0:
        dist.send(sent, dst=1)
    else:
        assert dist.recv(got) == 0
        assert got.tolist() == [1, 1]


def in_batches(rank: int) -> None:
    """Collectives that PyTorch gathers, with and without the name of the device."""
    for options in ({}, {"device": torch.device(DEVICE, rank)}):
        with dist._coalescing_manager(**options):
            sums = [torch.full((2,), float(each + rank), device=DEVICE) for each in range(2)]
            for each in sums:
                dist.all_reduce(each)
        assert [each.tolist() for each in sums] == [[1, 1], [3, 3]]
        with dist._coalescing_manager(**options, async_ops=True) as batch:
            wholes = [torch.zeros(2, device=DEVICE) for _ in range(2)]
            for index, each in enumerate(wholes):
                dist.all_gather_single(each, torch.full((1,), index + 10.0 * rank, device=DEVICE))
        batch.wait()
        assert [each.tolist() for each in wholes] == [[0, 10], [1, 11]]
        with dist._coalescing_manager(**options):
            parts = [torch.zeros(1, device=DEVICE) for _ in range(2)]
            for index, each in enumerate(parts):
                dist.reduce_scatter_single(each, torch.tensor([1.0, 2.0 + index], device=DEVICE))
        assert [each.item() for each in parts] == ([2, 2] if rank == 0 else [4, 6])


def by_other_names(rank: int) -> None:
    """Arguments by keyword, functional collectives, and the collectives of lists."""
    group = dist.distributed_c10d._get_default_group()
    x = torch.full((2,), 1.0 + rank, device=DEVICE)
    for options in ({"tensors": [x]}, {"tensors": [x], "opts": dist.AllreduceOptions()}):
        x.fill_(1.0 + rank)
        group.allreduce(**options).wait()
        assert x.tolist() == [3, 3]
    whole, part = torch.zeros(4, device=DEVICE), torch.full((2,), float(rank), device=DEVICE)
    group._allgather_base(output=whole, input=part).wait()
    assert whole.tolist() == [0, 0, 1, 1]
    assert part.tolist() == [rank, rank]
    parts = [torch.zeros(2, device=DEVICE) for _ in range(2)]
    group.allgather(output_tensors=[parts], input_tensors=[part]).wait()
    assert [each.tolist() for each in parts] == [[0, 0], [1, 1]]
    functional = dist._functional_collectives
    assert functional.all_reduce(x, "sum", group).tolist() == [6, 6]
    assert functional.all_gather_single(part, 0, group).tolist() == [0, 0, 1, 1]
    gathered = [torch.zeros(2, device=DEVICE) for _ in range(2)] if rank == 1 else None
    dist.gather(part, gathered, dst=1)
    assert gathered is None or [each.tolist() for each in gathered] == [[0, 0], [1, 1]]
    given = [torch.full((2,), 10.0 * rank + each, device=DEVICE) for each in range(2)]
    dist.all_to_all(parts, given)
    assert [each.tolist() for each in parts] == [[rank] * 2, [10 + rank] * 2]
    dist.reduce_scatter(x, given)
    assert x.tolist() == [10 + 2 * rank] * 2
    assert [each.tolist() for each in given] == [[10 * rank] * 2, [10 * rank + 1] * 2]
    sparse = torch.eye(2).to_sparse()  # of the CPU
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [[2, 0], [0, 2]]


def waiting(rank: int) -> None:
    """A barrier holds; a received tensor is written once; a group has the time-out that it is given."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        time.sleep(0.3)
        store.set("rank 1 has come", "")
    dist.barrier()
    assert store.check(["rank 1 has come"])
    x = torch.full((2,), 5.0, device=DEVICE)
    if rank == 0:
        dist.send(x, dst=1)
    else:
        work = dist.irecv(x.zero_(), src=0)
        assert work is not None
        work.wait()
        assert x.tolist() == [5, 5]
        x.zero_()
        work.wait()
        assert x.tolist() == [0, 0]
    patient = dist.new_group([0, 1], timeout=timedelta(seconds=1234))
    assert patient._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=1234)


def main() -> None:
    torch.set_num_threads(1)
    echo_npu.torch.configure(backend="cmodel", config="small", devices=2)
    dist.init_process_group("echo_npu")
    rank = dist.get_rank()
    assert dist.get_backend() == "echo_npu"
    torch.echo_npu.set_device(rank)
    assert torch.zeros(1, device=DEVICE).device.index == rank
    for check in (reductions, gathers, scattered, between_two, crossing, in_batches, by_other_names, waiting):
        check(rank)
    part = dist.new_group([0, 1])
    x = torch.ones(1, device=DEVICE)
    dist.all_reduce(x, group=part)
    assert x.item() == 2
    if rank == 0:
        print("every collective is right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
