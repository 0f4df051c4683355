"""The operations as methods: signatures, documentation, the lock."""

import inspect
import pydoc
import threading

import numpy as np
import pytest

import echo_npu
from echo_npu.device import Device
from echo_npu.errors import DeviceClosedError
from echo_npu.ops.methods import OpMethods

METHODS = sorted(name for name in vars(OpMethods) if not name.startswith("_"))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_documented(name: str, npu: Device) -> None:
    method = getattr(npu, name)
    assert inspect.getdoc(method)
    assert next(iter(inspect.signature(method).parameters)) != "device"


def test_signature_and_help_are_the_functions(npu: Device) -> None:
    words = ["x", "axis", "scale", "causal", "mask", "last", "out"]
    assert list(inspect.signature(npu.softmax).parameters) == words
    assert "causal: row t sees" in pydoc.plain(pydoc.render_doc(npu.softmax))


def test_a_familys_operation_has_its_own_name(npu: Device) -> None:
    assert list(inspect.signature(npu.sub).parameters) == ["a", "b", "out"]
    text = pydoc.plain(pydoc.render_doc(npu.sub))
    assert "sub(a" in text
    assert "`a - b`." in text
    assert "`echo_npu.ops.elementwise.binary`" in text


def test_axis_and_keepdims_may_be_positional(npu: Device) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert npu.sum(x, 0, True).tolist() == [[3.0, 5.0, 7.0]]
    assert npu.argmax(x, 1, True).tolist() == [[2], [2]]


@pytest.mark.parametrize("name", ["softmax", "exp"])
def test_a_closed_device_refuses(name: str) -> None:
    with echo_npu.open("cmodel") as npu:
        method = getattr(npu, name)
    with pytest.raises(DeviceClosedError):
        method(np.ones(3, np.float32))


@pytest.mark.parametrize("name", ["softmax", "exp"])
def test_one_thread_at_a_time(name: str, npu: Device) -> None:
    finished = threading.Event()

    def call() -> None:
        getattr(npu, name)(np.ones(3, np.float32))
        finished.set()

    with npu._lock:
        thread = threading.Thread(target=call)
        thread.start()
        assert not finished.wait(0.05)
    thread.join()
    assert finished.is_set()
