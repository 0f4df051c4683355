"""The exceptions: their attributes, and messages that contain them."""

from pathlib import Path

import pytest

from echo_npu import errors
from echo_npu.spec import contract
from echo_npu.spec.status import ErrorCode, NpuStatus, State


def test_every_error_is_an_npu_error_and_what_python_would_call_it() -> None:
    for name, builtin in {
        "NpuOutOfMemoryError": MemoryError,
        "NpuPointerError": ValueError,
        "NpuTimeoutError": TimeoutError,
        "BackendError": LookupError,
    }.items():
        assert issubclass(getattr(errors, name), builtin)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 8
    assert all(issubclass(kind, errors.NpuError) for kind in kinds)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_device_errors_have_names(code: ErrorCode) -> None:
    error = errors.NpuDeviceError(code, 7, 0x2000_0000)
    assert code.name in str(error)
    assert "packet 7" in str(error)
    assert "0x20000000" in str(error)


def test_an_unknown_code_is_still_an_error() -> None:
    assert "code 200" in str(errors.NpuDeviceError(200, 0, 0))
    assert "code 200" in str(NpuStatus(State.ERROR, 200, 5))


def test_the_codes_are_the_contracts_own() -> None:
    assert ErrorCode is contract.ErrorCode
    assert State is contract.State


def test_simulator_error_says_where_to_look() -> None:
    log = Path("a/b.log")
    error = errors.SimulatorError("it ended", exit_status=-9, log_tail="first\nlast\n", log_path=log)
    text = str(error)
    for words in ("it ended", "signal 9", "a/b.log", "last"):
        assert words in text
    assert (error.exit_status, error.log_path) == (-9, Path("a/b.log"))
    assert "exit status 3" in str(errors.SimulatorError("x", exit_status=3))
    assert str(errors.SimulatorError("x")) == "x"


def test_timeout_says_everything() -> None:
    error = errors.NpuTimeoutError(123, NpuStatus(State.BUSY, 0, 456), {"macs": 9}, "Look at waves.")
    for words in ("123 cycles", "state BUSY", "cycle 456", "macs=9", "Look at waves."):
        assert words in str(error)
