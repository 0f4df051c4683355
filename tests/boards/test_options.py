"""The options of the backend fpga."""

from typing import Any

import pytest

import echo_npu
from echo_npu import BackendError, NpuCardMissingError
from echo_npu.backends.asic import AsicOptions
from echo_npu.backends.board.transport import WINDOW_BYTES
from echo_npu.backends.fpga import FpgaOptions
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.boards.conftest import CONFIG
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"transport": "pcie"}, ValueError, "transport is 'pcie'; it is one of xdma, uio"),
        ({"transport": ["xdma", "uio"]}, TypeError, r"transport is \['xdma', 'uio'\] \(list\)"),
        ({"device": 3}, TypeError, "device is 3"),
        ({"device": ""}, ValueError, "device is ''; no file has such a name"),
        ({"device": "/dev/x\0y"}, ValueError, "device is '/dev/x.*y'; no file has such a name"),
        ({"memory_file": 5}, TypeError, "memory_file is 5"),
        (
            {"memory_file": "/dev/m", "transport": "xdma"},
            ValueError,
            "memory_file is '/dev/m'; the transport",
        ),
        ({"memory_base": 4096, "transport": "uio"}, ValueError, "memory_base is 4096; a buffer of the"),
        (
            {"memory_file": "/dev/./u", "device": "/dev/u", "transport": "uio"},
            ValueError,
            r"memory_file is '/dev/\./u', as is device",
        ),
        ({"memory_file": "\ud800"}, ValueError, "memory_file is "),
        ({"registers": 6}, ValueError, "registers is 6; it must be a multiple of 4"),
        ({"registers": -4}, ValueError, "registers is -4"),
        ({"registers": 4.0}, TypeError, "registers is 4.0"),
        ({"registers": (1 << 63) - 4}, ValueError, rf"a multiple of 4 up to 2\^63 - {WINDOW_BYTES}"),
        ({"memory_base": 64}, ValueError, "memory_base is 64; it must be a multiple of 4096"),
        ({"memory_base": (1 << 63) - 4096}, ValueError, rf"a multiple of 4096 up to 2\^63 - {MEMORY_SIZE}"),
        ({"clock_mhz": 0}, ValueError, "clock_mhz is 0"),
        ({"clock_mhz": 1e6}, ValueError, "clock_mhz is 1000000"),
        ({"clock_mhz": float("nan")}, ValueError, "clock_mhz is nan"),
        ({"clock_mhz": "fast"}, TypeError, "clock_mhz is 'fast'"),
        ({"stalls": 0.5}, TypeError, "fpga has no option 'stalls'; its options are transport, device"),
        ({"trace": "x.json"}, TypeError, "fpga has no option 'trace'"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    refuses(error, words, echo_npu.open, "fpga", CONFIG, **options)


def test_clocks_by_default() -> None:
    assert FpgaOptions().clock_mhz == 100
    assert AsicOptions().clock_mhz == 1000


def test_the_environment_names_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_NPU_DEVICE", "/dev/nothing")
    monkeypatch.delenv("ECHO_NPU_TRANSPORT", raising=False)
    refuses(NpuCardMissingError, "/dev/nothing_user", echo_npu.open, "fpga", CONFIG)
    refuses(NpuCardMissingError, "/dev/else_user", echo_npu.open, "fpga", CONFIG, device="/dev/else")
    monkeypatch.setenv("ECHO_NPU_TRANSPORT", "uio")
    refuses(NpuCardMissingError, "/dev/nothing cannot", echo_npu.open, "fpga", CONFIG)
    refuses(ValueError, "memory_base is 4096", echo_npu.open, "fpga", CONFIG, memory_base=4096)
    refuses(NpuCardMissingError, "/dev/nothing_user", echo_npu.open, "fpga", CONFIG, transport="xdma")
    monkeypatch.setenv("ECHO_NPU_TRANSPORT", "pci")
    refuses(BackendError, "no transport 'pci'; they are xdma, uio", echo_npu.open, "fpga", CONFIG)


def test_a_configuration_that_does_not_exist() -> None:
    refuses(ValueError, "'huge'", echo_npu.open, "fpga", "huge")
