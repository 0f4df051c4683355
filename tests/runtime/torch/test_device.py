"""The device itself: registration, settings, errors, randomness, memory."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

import echo_npu.torch
from echo_npu.devices import Settings, checked
from echo_npu.torch import generators
from echo_npu.torch.settings import announcement

DEVICE = "echo_npu"


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ECHO_NPU_BACKEND": "cmodel", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_torch_is_enough() -> None:
    done = run("import torch; print(torch.ones(2, device='echo_npu').sum().item())")
    assert done.stdout.strip() == "2.0", done.stderr


def test_a_wrong_environment_does_not_break_import_torch() -> None:
    done = run("import torch; print(torch.ones(2).sum().item())", ECHO_NPU_DEVICES="many")
    assert done.stdout.strip() == "2.0", done.stderr


def test_importing_the_runtime_does_not_import_torch() -> None:
    done = run("import sys, echo_npu; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_configure_comes_first() -> None:
    torch.ones(1, device=DEVICE)
    with pytest.raises(RuntimeError, match="before the first tensor"):
        echo_npu.torch.configure(backend="cmodel", config="small")
    echo_npu.torch.configure(backend="cmodel", config="default")


@pytest.mark.parametrize(("devices", "error"), [(0, ValueError), (17, ValueError), ("2", TypeError)])
def test_wrong_numbers_of_devices_are_refused(devices: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="devices"):
        checked(Settings(devices=devices))  # type: ignore[arg-type]


def test_a_simulation_that_nobody_chose_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ECHO_NPU_BACKEND", raising=False)
    said = announcement(Settings(config="small"))
    assert said is not None
    assert "rtlmodel, configuration small" in said
    assert announcement(Settings(backend="rtlmodel")) is None
    monkeypatch.setenv("ECHO_NPU_BACKEND", "cmodel")
    assert announcement(Settings()) is None


def test_the_accelerator() -> None:
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    assert accelerator.type == DEVICE
    assert torch.accelerator.device_count() == torch.echo_npu.device_count() == 1
    assert torch.accelerator.current_device_index() == torch.echo_npu.current_device() == 0
    stream, event = torch.echo_npu.Stream(), torch.echo_npu.Event()
    x = torch.ones(3, device=DEVICE) + 1
    assert not stream.query()
    stream.record_event(event)
    assert stream.query()
    assert event.query()
    torch.accelerator.synchronize()
    assert x.device == torch.device(DEVICE, 0)


def test_the_accelerator_whole() -> None:
    """Every function of torch.accelerator that this version of PyTorch has."""
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator(check_available=True) == torch.device(DEVICE)
    for device in (0, f"{DEVICE}:0", torch.device(DEVICE, 0)):
        accelerator.set_device_index(device)
        accelerator.synchronize(device)
        assert accelerator.current_stream(device).device == torch.device(DEVICE, 0)
    with accelerator.device_index(0), accelerator.device_index(None):
        assert accelerator.current_device_index() == 0
    stream = torch.Stream(DEVICE)
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream
    assert torch.float8_e5m2 in accelerator.get_device_capability(DEVICE)["supported_dtypes"]
    x = torch.ones(1000, device=DEVICE)
    free, total = accelerator.get_memory_info(DEVICE)
    assert 0 < free < total
    assert accelerator.memory_reserved(0) >= accelerator.memory_allocated(0) >= x.nbytes
    del x
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    assert accelerator.max_memory_reserved() == accelerator.memory_reserved()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocation.all.allocated"] == 0
    accelerator.empty_host_cache()
    accelerator.empty_cache()
    for function in (
        accelerator.set_device_index,
        accelerator.synchronize,
        accelerator.memory_stats,
        accelerator.get_memory_info,
        accelerator.reset_peak_memory_stats,
        accelerator.reset_accumulated_memory_stats,
        accelerator.get_device_capability,
    ):
        with pytest.raises(RuntimeError, match="no echo_npu:3"):
            function(3)
        with pytest.raises(ValueError, match="current accelerator"):
            function("cuda:0")


def test_streams_and_events_of_torch() -> None:
    """They are those of a device with one stream; times are cycles, 0 on the functional model."""
    stream, plain = torch.Stream(DEVICE), torch.Event(DEVICE)
    first, last = (torch.Event(DEVICE, enable_timing=True) for _ in range(2))
    first.record(stream)
    with stream:
        x = torch.ones(3, device=DEVICE) + 1
        x.record_stream(stream)
    assert not torch.echo_npu.current_stream().query()
    plain.record()
    plain.synchronize()
    assert torch.echo_npu.current_stream().query()
    stream.wait_event(plain)
    last.record()
    assert first.elapsed_time(last) == 0.0
    with pytest.raises(ValueError, match="enable_timing"):
        first.elapsed_time(plain)
    assert isinstance(plain, torch.Event)


def test_an_event_that_a_stream_makes_can_be_waited_for() -> None:
    for stream in (torch.Stream(DEVICE), torch.accelerator.current_stream()):
        assert isinstance(stream, torch.Stream)
        torch.ones(3, device=DEVICE).add_(1)
        event = stream.record_event()
        assert isinstance(event, torch.Event)
        assert event.device == stream.device == torch.device(DEVICE, 0)
        event.synchronize()
        assert torch.echo_npu.current_stream().query()
        stream.wait_event(event)
        given = torch.Event(DEVICE, enable_timing=True)
        assert stream.record_event(given) is given
        assert given.elapsed_time(given) == 0.0


def test_unknown_devices_and_indices() -> None:
    with pytest.raises(RuntimeError, match="no echo_npu:3"):
        torch.empty(3, device="echo_npu:3")
    table = torch.ones(4, 2, device=DEVICE)
    for wrong in (4, -1, 2**32):
        with pytest.raises(IndexError, match="out of range"):
            torch.nn.functional.embedding(torch.tensor([0, wrong], device=DEVICE), table)
    assert (table + 1).sum().item() == 16


def test_devices_of_other_types_are_refused() -> None:
    module = torch.echo_npu
    for function in (module.set_device, module.synchronize, module.memory_allocated, module.get_rng_state):
        for wrong in ("cpu", "cuda:0", torch.device("meta")):
            with pytest.raises(ValueError, match="expected a device echo_npu"):
                function(wrong)
    for make in (module.get_rng_state, module.Stream, lambda index: torch.Generator(f"{DEVICE}:{index}")):
        with pytest.raises(RuntimeError, match="no echo_npu:5"):
            make(5)
    assert module.Stream(0).device == module.Stream().device == torch.device(DEVICE, 0)


def test_wrong_sizes_are_refused_as_on_the_cpu() -> None:
    for device in ("cpu", DEVICE):
        for size in ((-1,), (-2, -3), (0, -1)):
            with pytest.raises(RuntimeError, match="negative dimension"):
                torch.empty(size, device=device)
        with pytest.raises(RuntimeError, match="dimensionality of sizes"):
            torch.empty_strided((2, 2), (1,), device=device)
        with pytest.raises(RuntimeError):
            torch.empty_strided((2, 2), (-1, 1), device=device)
        with pytest.raises(RuntimeError):
            torch.UntypedStorage(-1, device=device)


def test_a_wrong_seed_changes_nothing() -> None:
    torch.manual_seed(3)
    first = torch.rand(4, device=DEVICE).cpu()
    torch.manual_seed(3)
    for wrong, error in ((2**65, ValueError), ("three", (RuntimeError, TypeError))):
        with pytest.raises(error):
            torch.echo_npu.manual_seed(wrong)
    assert generators._seed == 3
    assert torch.equal(torch.rand(4, device=DEVICE).cpu(), first)


def test_draws_are_reproducible() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append(torch.randn(5, device=DEVICE).cpu())
    assert torch.equal(*draws)
    generator = torch.Generator(DEVICE)
    assert generator.device.type == DEVICE
    draws = [torch.rand(4, device=DEVICE, generator=generator.manual_seed(1)).cpu() for _ in range(2)]
    assert torch.equal(*draws)
    state = torch.echo_npu.get_rng_state()
    draws = []
    for _ in range(2):
        torch.echo_npu.set_rng_state(state)
        draws.append(torch.rand(4, device=DEVICE).cpu())
    assert torch.equal(*draws)


@pytest.mark.parametrize("draw", [torch.Tensor.normal_, torch.Tensor.bernoulli_, torch.Tensor.random_])
def test_a_generator_of_the_cpu_is_refused(draw: Callable[..., torch.Tensor]) -> None:
    """As on other accelerators: its draws would depend on what the CPU's tensors draw."""
    x = torch.ones(3, device=DEVICE)
    for given in (torch.Generator(), torch.default_generator):
        with pytest.raises(RuntimeError, match="generator of echo_npu:0 but found one of cpu"):
            draw(x, generator=given)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="found one of cpu"):
        torch.rand(3, device=DEVICE, generator=torch.Generator())
    own = torch.Generator(DEVICE).manual_seed(2)
    assert torch.equal(draw(x.clone(), generator=own), draw(x.clone(), generator=own.manual_seed(2)))


def test_a_cloned_generator_goes_on_alike() -> None:
    first = torch.Generator(DEVICE).manual_seed(4)
    torch.rand(3, device=DEVICE, generator=first)
    second = first.clone_state()
    assert second.device == first.device
    draws = [torch.rand(5, device=DEVICE, generator=each).cpu() for each in (first, second)]
    assert torch.equal(*draws)


def test_draws_are_the_devices_own() -> None:
    """They follow one another, and leave the numbers that the CPU draws as they are."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (torch.rand(3, device=DEVICE).cpu() for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(torch.rand(3), expected)
    x = torch.ones(100, device=DEVICE)
    assert not torch.equal(x.bernoulli(0.5).cpu(), x.bernoulli(0.5).cpu())


def test_a_large_block_is_not_spent_on_a_small_tensor() -> None:
    torch.accelerator.empty_cache()
    before = torch.accelerator.memory_allocated()
    for mebibytes in (64, 48, 33):
        torch.empty(mebibytes << 20, dtype=torch.uint8, device=DEVICE)
    x = torch.empty(2 << 20, dtype=torch.uint8, device=DEVICE)
    assert torch.accelerator.memory_allocated() - before <= (2 << 20) * 9 // 8
    del x
    torch.accelerator.empty_cache()


def test_memory_is_counted_cached_and_given_back() -> None:
    torch.accelerator.empty_cache()
    before = torch.accelerator.memory_allocated()
    x = torch.empty(1 << 20, device=DEVICE)
    assert torch.accelerator.memory_allocated() == before + (4 << 20)
    address = x.data_ptr()
    del x
    assert torch.accelerator.memory_allocated() == before
    reserved = torch.accelerator.memory_reserved()
    assert reserved >= before + (4 << 20)
    again = torch.empty(1 << 20, device=DEVICE)
    assert again.data_ptr() == address
    del again
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() <= reserved - (4 << 20)


def test_memory_spills_to_the_other_region_and_ends_with_an_error() -> None:
    torch.accelerator.empty_cache()
    held = [torch.empty(60 << 20, dtype=torch.uint8, device=DEVICE) for _ in range(8)]
    with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate 62914560 bytes; tensors hold \d+"):
        torch.empty(60 << 20, dtype=torch.uint8, device=DEVICE)
    assert len({each.data_ptr() >> 28 for each in held}) == 2
    held.clear()
    assert torch.ones(200 << 18, device=DEVICE)[-1].item() == 1.0
    torch.accelerator.empty_cache()
