"""Choosing a backend, a configuration and the repository, and the messages if there is none."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import echo_npu
from echo_npu import BackendError, SimulatorError
from echo_npu.backends import get_backend_class, rtlmodel
from echo_npu.backends.rtlmodel import Options
from tests.refusals import Error, Words, refuses

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ECHO_NPU_BACKEND", raising=False)
    echo_npu.set_default_backend(None)
    yield
    echo_npu.set_default_backend(None)


def test_the_backends_are_the_modules_that_exist() -> None:
    assert echo_npu.list_backends() == ["asic", "cmodel", "fpga", "rtlfarm", "rtlmodel"]
    for name in echo_npu.list_backends():
        backend = get_backend_class(name)
        assert backend.name == name
        facts = echo_npu.get_backend_info(name)
        assert facts["name"] == name
        assert facts["description"]
    assert echo_npu.get_backend_info()["name"] == echo_npu.get_backend_name()


def test_choice_goes_argument_then_default_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert echo_npu.get_backend_name() == "rtlmodel"
    monkeypatch.setenv("ECHO_NPU_BACKEND", "cmodel")
    assert echo_npu.get_backend_name() == "cmodel"
    with echo_npu.open() as npu:
        assert npu.backend.name == "cmodel"
    echo_npu.set_default_backend("rtlmodel")
    assert echo_npu.get_backend_name() == "rtlmodel"
    with echo_npu.open("cmodel") as npu:
        assert npu.backend.name == "cmodel"
    echo_npu.set_default_backend(None)
    assert echo_npu.get_backend_name() == "cmodel"


@pytest.mark.parametrize("name", ["gpu", "board", "CMODEL", "base", "", "../cmodel"])
def test_an_unknown_backend_lists_those_that_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (
        lambda: echo_npu.open(name),
        lambda: echo_npu.set_default_backend(name),
        lambda: echo_npu.get_backend_info(name),
    ):
        refuses(BackendError, "the backends are asic, cmodel, fpga, rtlfarm, rtlmodel", call)
    if name:
        monkeypatch.setenv("ECHO_NPU_BACKEND", name)
        refuses(BackendError, "the backends are asic, cmodel, fpga, rtlfarm, rtlmodel", echo_npu.open)


@pytest.mark.parametrize("backend", ["cmodel", "rtlmodel"])
def test_an_unknown_configuration_lists_those_that_exist(backend: str) -> None:
    refuses(ValueError, r"'huge'.*default, large, small", echo_npu.open, backend, config="huge")


def test_unknown_options_are_named() -> None:
    refuses(TypeError, "cmodel has no option 'latency'", echo_npu.open, "cmodel", latency=3)
    with pytest.raises(TypeError, match="rtlmodel has no option 'speed'; its options are latency, bandwidth"):
        echo_npu.open("rtlmodel", speed=3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"latency": 0}, ValueError, "latency is 0"),
        ({"latency": 1.5}, TypeError, "latency is 1.5"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"bandwidth": 0}, ValueError, "bandwidth is 0"),
        ({"bandwidth": "fast"}, TypeError, "bandwidth is 'fast'"),
        ({"stalls": 0.95}, ValueError, "stalls is 0.95"),
        ({"stalls": {"x": 0.1}}, ValueError, "channel 'x'; the channels are aw, w, b, ar, r"),
        ({"stalls": {"r": 2}}, ValueError, r"stalls\['r'\] is 2"),
        ({"access": "sidedoor"}, ValueError, "access is 'sidedoor'; it is one of backdoor, frontdoor"),
        ({"waves": "a/b"}, ValueError, "waves is 'a/b'"),
        ({"waves": ""}, ValueError, "waves is ''"),
        ({"timeout": 0}, ValueError, "timeout is 0"),
    ],
)
def test_wrong_options_of_rtlmodel_are_refused_before_anything_is_built(
    options: dict, error: Error, words: Words
) -> None:
    refuses(error, words, echo_npu.open, "rtlmodel", **options)


def open_files() -> set[str]:
    """Return the descriptors of this process, with what each is open on."""
    folder = Path("/proc/self/fd")
    return {f"{each.name} {each.readlink()}" for each in folder.iterdir() if each.is_symlink()}


def test_a_device_whose_simulator_does_not_start_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SimulatorError("the simulator could not be built")

    monkeypatch.setattr(rtlmodel, "Simulator", fail)
    before = open_files()
    with pytest.raises(SimulatorError) as caught:  # whose traceback holds the device
        echo_npu.open("rtlmodel", config="small", trace=tmp_path / "timeline.json")
    assert open_files() == before
    del caught


def test_stalls_become_knobs_of_each_channel() -> None:
    assert Options(stalls=0.25).knobs()["stall_ar"] == 0.25
    knobs = Options(stalls={"r": 0.5}, bandwidth=8).knobs()
    assert knobs["stall_r"] == 0.5
    assert "stall_w" not in knobs
    assert knobs["read_bandwidth"] == knobs["write_bandwidth"] == 8


def run_elsewhere(tmp_path: Path, code: str) -> str:
    """Run Python with a copy of the package alone, far from the repository."""
    shutil.copytree(ROOT / "runtime", tmp_path / "lib")
    shutil.copytree(ROOT / "rtl", tmp_path / "lib" / "echo_sim" / "rtl")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "lib"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_package_imports_without_the_simulator_packages(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['cocotb'] = sys.modules['pytest'] = None\n"
        "import echo_npu, echo_npu.cli, echo_npu.backends.rtlmodel, echo_npu.backends.cmodel\n"
        "print('fine', any(m.startswith('cocotb') and sys.modules[m] for m in sys.modules))"
    )
    assert "fine False" in run_elsewhere(tmp_path, code)
