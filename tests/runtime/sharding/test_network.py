"""A language model on several devices: the tokens, logits and cache of one device."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import echo_npu
from echo_npu.cli import app
from echo_npu.cli.chat import network
from echo_npu.language.check import MemoryDiffersError
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import Network
from echo_npu.language.sampling import Sampling
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import LayerConfig
from echo_npu.models.report import ProgressBar
from echo_npu.sharding import ShardedNetwork, Spent
from tests.refusals import refuses
from tests.runtime.model_files import write_model
from tests.runtime.sharding.conftest import MakeGroup

CONFIG = LayerConfig(hidden=96, heads=6, kv_heads=3, head_dim=16, ffn=192, rope_base=1e4, eps=1e-6)
TEXT = [int(token) for token in np.random.default_rng(4).integers(1, 250, 40)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model") / "divisible.gguf"
    write_model(made, config=CONFIG, own_head=True)
    return made


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_tokens_of_one_device(make_group: MakeGroup, path: Path, count: int) -> None:
    """A prompt of 40 tokens is two groups of tokens on one device, and one on several."""
    source = GgufModel(path)
    group = make_group(count)
    sharded = ShardedNetwork(group, source, context=64, layers=2, candidates=5)
    with echo_npu.open("cmodel") as device:
        single = Network(device, source, context=64, layers=2)
        for sampling in (None, Sampling(1.0, top_k=5)):
            texts = [
                list(TextGenerator(each, sampling=sampling, seed=3).generate(TEXT, 4))
                for each in (single, sharded)
            ]
            assert texts[0] == texts[1]
        assert np.array_equal(
            sharded.logits.to_numpy().view(np.uint32), single.logits.to_numpy().view(np.uint32)
        )
        for name in ("keys", "values"):
            parts = [sharded.tensors[f"device {index}: {name}"].to_numpy() for index in range(count)]
            assert np.array_equal(np.concatenate(parts, axis=2), single.tensors[name].to_numpy())
        assert sharded.bound(7, 1) <= single.bound(7, 1)
        assert (sharded.bound(7, 1) < single.bound(7, 1)) == (count > 1)
    assert sharded.vocabulary == single.vocabulary


def test_each_device_is_compared_with_its_twin(make_group: MakeGroup, path: Path) -> None:
    source = GgufModel(path)
    ours, theirs = (ShardedNetwork(make_group(2), source, context=16, layers=1) for _ in range(2))
    tokens = list(TextGenerator(ours, twin=theirs).generate([5, 6], 2))
    assert len(tokens) == 2
    damaged = theirs.tensors["device 1: keys"]
    damaged.device.memcpy(damaged.ptr + damaged.nbytes - 1, b"\x55", 1)  # of a position that nothing reads
    generator = TextGenerator(ours, twin=theirs)
    refuses(MemoryDiffersError, ["device 1: keys", "is 0x00", "0x55"], list, generator.generate([5, 6], 1))


def test_wrong_steps_are_refused(make_group: MakeGroup, path: Path) -> None:
    sharded = ShardedNetwork(make_group(2), GgufModel(path), context=16, layers=1)
    refuses(ValueError, ["17 tokens", "16 positions"], sharded.record_prompt, 0, 17)
    refuses(ValueError, ["position 16"], sharded.record_next, 16)
    with sharded.record_next(0) as step:
        refuses(TypeError, ["no input"], step.run, ids=np.zeros(1, np.int32))
    with sharded.record_prompt(0, 2) as step:
        refuses(TypeError, ["ids"], step.run)
        refuses(ValueError, ["(3,)"], step.run, ids=np.zeros(3, np.int32))


def test_the_cycles_of_a_step_are_the_critical_ones(make_group: MakeGroup, path: Path) -> None:
    group = make_group(2)
    sharded = ShardedNetwork(group, GgufModel(path), context=16, layers=1)
    group._spent = Spent([70, 90], 110, 4, 0)
    assert sharded.counters_later().wait() == {"busy_cycles": 110}
    assert sharded.spent == Spent([70, 90], 110, 4, 0)


def chat(path: Path, *words: str) -> str:
    command = ["chat", "--model", str(path), "--backend", "cmodel", "--context", "64", "--layers", "1"]
    result = CliRunner().invoke(app, [*command, "--prompt", "hi", "--tokens", "3", *words])
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_a_conversation_on_several_devices(path: Path) -> None:
    expected = chat(path)
    assert chat(path, "--devices", "2", "--check") == chat(path, "--devices", "3") == expected
    wrong = CliRunner().invoke(app, ["chat", "--model", str(path), "--prompt", "a", "--devices", "4"])
    assert wrong.exit_code == 2
    assert "kv_heads is 3" in wrong.stderr
    wrong = CliRunner().invoke(
        app, ["chat", "--model", str(path), "--prompt", "a", "--devices", "2", "--trace", "t.json"]
    )
    assert wrong.exit_code == 2
    assert "--trace writes the timeline of one device" in wrong.stderr


def test_rounded_weights_are_asked_for(path: Path) -> None:
    source = GgufModel(path)
    with (
        ProgressBar("", 1, enabled=False) as bar,
        network(source, "cmodel", "default", 16, 1, bar, half=True) as made,
    ):
        assert made.tensors["layer 0: down"].dtype == np.float16
