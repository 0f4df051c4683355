"""`echo-npu bench gemm`, on the functional model."""

import dataclasses
import json

import pytest

from echo_npu.benchmark.gemm import Session
from echo_npu.benchmark.products import ATTENTION, Product, choose_products
from echo_npu.cli import benchmark as cli
from echo_npu.spec.data_types import DataType
from tests.runtime.test_cli import call as run_command


def call(*words: str) -> tuple[int, str, str]:
    """Run `echo-npu bench gemm`; return exit status, standard output, standard error."""
    return run_command("bench", "gemm", "--backend", "cmodel", *words)


def test_json() -> None:
    words = ("--shape", "3x4x5", "--shape", "1x2x3", "--dtype", "fp32", "--dtype", "int8", "--json")
    status, out, _ = call(*words)
    report = json.loads(out)
    assert status == 0
    assert set(report) == {"config", "products", "summary"}
    assert [(p["m"], p["k"], p["n"], p["dtype"], p["set"]) for p in report["products"]] == [
        (*shape, dtype, "-") for shape in ((3, 4, 5), (1, 2, 3)) for dtype in ("fp32", "int8")
    ]
    assert all(each["bit_exact"] is True and each["cycles"] is None for each in report["products"])
    assert report["summary"]["wrong"] == []


def test_table() -> None:
    status, out, _ = call("--shape", "33x4x5", "--trans-b", "--jobs", "2")
    assert status == 0
    for word in ("33x4x5 nt", "fp32", "bf16", "fp16", "int8", "roofline", "yes"):
        assert word in out


def test_a_set_and_a_limit() -> None:
    status, out, _ = call("--set", "square", "--dtype", "int8", "--check-limit", "300000", "--json")
    assert status == 0
    products = json.loads(out)["products"]
    assert [each["m"] for each in products] == [16, 64, 128, 256, 512]
    assert [each["bit_exact"] for each in products] == [True, True, None, None, None]
    assert {each["set"] for each in products} == {"square"}


def test_choices() -> None:
    everything = cli.chosen_work(None, None, None)
    assert set(everything) == {(each, dtype) for each in choose_products() for dtype in DataType}
    assert everything.keys() == cli.chosen_work(["all"], None, []).keys()
    attention = cli.chosen_work(None, [ATTENTION], None)
    assert cli.chosen_work(["all"], [ATTENTION], None).keys() == attention.keys()
    turned = cli.chosen_work(["bf16"], [ATTENTION], ["1x2x3"], trans_b=True)
    assert all(product.trans_b for product, _ in turned)
    assert turned[Product(1, 2, 3, trans_b=True), DataType.BF16] == "-"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shape", "1x2"], "shape '1x2': it must be MxKxN"),
        (["--shape", "0x2x3"], "shape '0x2x3'"),
        (["--dtype", "fp64"], "dtype is 'fp64'; it must be one of fp32, bf16, fp16, int8"),
        (["--set", "cubes"], "there is no set 'cubes'; the sets are "),
        (["--shape", "1x2x3", "--config", "giant"], "default, large, small"),
        (["--shape", "1x2x3", "--latency", "9"], "no option 'latency'"),
        (["--shape", "1x2x3", "--check-limit", "-1"], "--check-limit"),
        (["--foo"], "--foo"),
    ],
)
def test_wrong_arguments_are_explained(words: list[str], message: str) -> None:
    status, out, err = call(*words)
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("shape", ["9000x9000x1", "100000x100000x100000"])
def test_what_the_device_cannot_hold_is_a_failure(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """The failure comes before a device is opened, whichever product is too large."""
    monkeypatch.setattr(Session, "open", lambda self: pytest.fail("it was opened"))
    status, _, err = call("--shape", "3x4x5", "--shape", shape, "--dtype", "fp32")
    assert status == 1
    assert "out of memory in the activation region" in err


def test_a_wrong_bit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Session.run

    def wrong(self: Session, *args: object) -> object:
        first, *rest = run(self, *args)  # type: ignore[arg-type]
        return [dataclasses.replace(first, bit_exact=False), *rest]

    monkeypatch.setattr(Session, "run", wrong)
    status, out, _ = call("--shape", "3x4x5", "--dtype", "fp32")
    assert status == 1
    assert "DIFFERS FROM THE FUNCTIONAL MODEL: fp32 3x4x5" in out


def test_help_defines_the_figures() -> None:
    status, out, _ = call("--help")
    text = " ".join(out.split())
    assert status == 0
    assert "macs / (cycles * peak)" in text
    assert "bound / cycles" in text
