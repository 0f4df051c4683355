"""Model files of which one part is wrong: each is refused with a sentence, soon, whatever the part says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.language.network import Network
from echo_npu.language.text import chat_prompt, stop_tokens
from echo_npu.models.gguf_layout import MOST_ELEMENTS
from echo_npu.models.gguf_model import GgufModel
from tests.refusals import refuses
from tests.runtime.model_files import write_model
from tests.runtime.raw_gguf import RawGguf, Tensor, number, stored

NAME = "blk.0.attn_k.weight"
HUGE = (1 << 64) - 32


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RawGguf:
    path = tmp_path_factory.mktemp("whole") / "small.gguf"
    write_model(path)
    return RawGguf.read(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small.gguf"


def test_a_file_that_was_put_together_again(whole: RawGguf, path: Path) -> None:
    path.write_bytes(whole.to_bytes())
    assert GgufModel(path).layers == 3


Change = Callable[[RawGguf], RawGguf]

LAYOUTS: list[tuple[Change, str]] = [
    (lambda file: replace(file, magic=b"GGUG"), "does not begin with GGUF"),
    (lambda file: replace(file, version=1), "version is 1"),
    (lambda file: replace(file, version=3 << 24), "little-endian"),
    (lambda file: replace(file, field_count=1 << 63), "before its header does"),
    (lambda file: replace(file, field_count=0), "dimensions"),
    (lambda file: replace(file, tensor_count=HUGE), "dimensions"),
    (lambda file: replace(file, more=[("general.name", ("u32", 1))]), "two fields general.name"),
    (lambda file: replace(file, tensors=[*file.tensors, file.tensors[0]]), "two tensors token_embd.weight"),
    (lambda file: file.field(b"\xff", "u32", 1), "name of a field is no UTF-8"),
    (lambda file: file.tensor(NAME, name=b"\xff"), "name of a tensor is no UTF-8"),
    (lambda file: file.field("general.alignment", "u32", 0), "power of two"),
    (lambda file: file.field("general.alignment", "u32", 24), "power of two"),
    (lambda file: file.field("general.alignment", "u64", 32), "power of two"),
    (lambda file: file.field("general.alignment", "u32", 1 << 31), "no multiple of 2147483648"),
    (lambda file: file.tensor(NAME, offset=33), "begins at 33"),
    (lambda file: file.tensor(NAME, offset=0), "overlap"),
    (lambda file: file.tensor(NAME, offset=HUGE), f"before the tensor {NAME} does"),
    (lambda file: file.tensor(NAME, kind=99), "unknown type 99"),
    (lambda file: file.tensor(NAME, kind=0), "overlap"),
    (lambda file: file.tensor(NAME, shape=()), "0 dimensions"),
    (lambda file: file.tensor(NAME, shape=(1,) * 5), "5 dimensions"),
    (lambda file: file.tensor(NAME, shape=(63, 32)), "rows of 63 values"),
    (lambda file: file.tensor(NAME, shape=(1 << 33, 1 << 33)), f"before the tensor {NAME} does"),
]


@pytest.mark.parametrize(("change", "words"), LAYOUTS, ids=[words for _, words in LAYOUTS])
def test_a_layout_that_is_wrong(whole: RawGguf, path: Path, change: Change, words: str) -> None:
    path.write_bytes(change(whole).to_bytes())
    refuses(ValueError, ["small.gguf is no whole GGUF file", words], GgufModel, path)


@pytest.mark.parametrize("element", ["u8", "u64", "text", "list"])
def test_a_list_that_claims_to_be_huge(path: Path, element: str) -> None:
    codes = {"u8": 0, "u64": 10, "text": 8, "list": 9}
    for count in (MOST_ELEMENTS, MOST_ELEMENTS + 1, (1 << 64) - 1):
        claim = number(9, "<I") + number(codes[element], "<I") + number(count)
        path.write_bytes(b"GGUF" + number(3, "<I") + number(0) + number(1) + stored("text", "x") + claim)
        refuses(ValueError, ["small.gguf is no whole GGUF file"], GgufModel, path)


def test_a_file_that_ends_anywhere(whole: RawGguf, path: Path) -> None:
    data = whole.to_bytes()
    header = len(data) - sum(-(-len(each.data) // 32) * 32 for each in whole.tensors)
    random = np.random.default_rng()
    for length in [*range(80), *random.integers(0, header, 60), *random.integers(header, len(data) - 64, 60)]:
        path.write_bytes(data[:length])
        refuses(ValueError, ["small.gguf is no whole GGUF file"], GgufModel, path)


FIELDS: list[tuple[str, str, Any]] = [
    ("llama.block_count", "u32", 0),
    ("llama.block_count", "u32", (1 << 31) - 1),
    ("llama.block_count", "u64", 1 << 63),
    ("llama.block_count", "u32", 2),
    ("llama.block_count", "text", "3"),
    ("llama.block_count", "f32", 3.0),
    ("llama.embedding_length", "f32", float("inf")),
    ("llama.embedding_length", "u32", 63),
    ("llama.attention.head_count", "u32", 0),
    ("llama.attention.head_count", "u32", 3),
    ("llama.attention.head_count", "i32", -4),
    ("llama.attention.head_count", "list of u32", [4, 4, 4]),
    ("llama.attention.head_count_kv", "u32", 3),
    ("llama.feed_forward_length", "bool", True),
    ("llama.context_length", "u32", 1),
    ("llama.context_length", "f32", float("nan")),
    ("llama.rope.freq_base", "f32", float("nan")),
    ("llama.rope.freq_base", "f32", float("inf")),
    ("llama.rope.freq_base", "f64", 1e-300),
    ("llama.rope.scaling.factor", "f32", 4.0),
    ("llama.attention.layer_norm_rms_epsilon", "f64", 1e300),
    ("llama.attention.layer_norm_rms_epsilon", "f32", 0.0),
    ("llama.attention.causal", "bool", False),
    ("llama.attention.clamp_kqv", "f32", 1.0),
    ("llama.attention.key_length", "u32", 8),
    ("llama.attention.scale", "f32", 1.0),
    ("llama.attention.sliding_window", "u32", 8),
    ("llama.attention.sliding_window", "text", "x"),
    ("llama.expert_count", "u32", 8),
    ("llama.logit_scale", "f32", 2.0),
    ("tokenizer.ggml.tokens", "list of u32", list(range(259))),
    ("tokenizer.ggml.tokens", "list of text", [b"\xff"] * 259),
    ("tokenizer.ggml.tokens", "u32", 259),
    ("general.architecture", "text", b"\xff"),
]


@pytest.mark.parametrize(("key", "kind", "value"), FIELDS)
def test_a_field_that_is_wrong(whole: RawGguf, path: Path, key: str, kind: str, value: Any) -> None:
    path.write_bytes(whole.field(key, kind, value).to_bytes())
    refuses(ValueError, ["small.gguf"], GgufModel, path)


@pytest.mark.parametrize(
    ("key", "kind", "value", "words"),
    [
        ("merges", "list of text", ["t q"], "'t q'"),
        ("merges", "list of text", ["the"], "'the'"),
        ("merges", "list of u32", [1], "[1]"),
        ("token_type", "list of i32", [1], "259 whole numbers"),
        ("tokens", "list of text", ["th", "th", "the"] + [str(index) for index in range(256)], "twice"),
        ("add_bos_token", "bool", True, "add_bos_token"),
    ],
)
def test_a_tokenizer_that_is_wrong(
    whole: RawGguf, path: Path, key: str, kind: str, value: Any, words: str
) -> None:
    path.write_bytes(whole.field(f"tokenizer.ggml.{key}", kind, value).to_bytes())
    model = GgufModel(path)
    refuses(ValueError, ["small.gguf", words], lambda: model.tokenizer)


@pytest.mark.parametrize(("kind", "value"), [("u32", 259), ("i32", -1), ("text", "a"), ("list of u32", [0])])
def test_special_tokens_that_the_vocabulary_does_not_have(
    whole: RawGguf, path: Path, kind: str, value: Any
) -> None:
    path.write_bytes(whole.field("tokenizer.ggml.eos_token_id", kind, value).to_bytes())
    model = GgufModel(path)
    refuses(ValueError, ["tokenizer.ggml.eos_token_id"], stop_tokens, model)
    refuses(
        ValueError, ["tokenizer.ggml.eos_token_id"], chat_prompt, model, [{"role": "user", "content": "a"}]
    )


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.3.attn_norm.weight", "output.bias"])
def test_a_tensor_that_the_model_would_ignore(whole: RawGguf, path: Path, name: str) -> None:
    more = Tensor(name, (64,), 0, np.ones(64, np.float32).tobytes())
    path.write_bytes(replace(whole, tensors=[*whole.tensors, more]).to_bytes())
    refuses(ValueError, [f"small.gguf has the tensor {name}"], GgufModel, path)


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.1.ffn_up.weight", "blk.2.attn_norm.weight"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e5])
def test_values_that_the_device_cannot_hold(whole: RawGguf, path: Path, name: str, value: float) -> None:
    shape = next(each.shape for each in whole.tensors if each.name == name)
    values = np.ones(shape, np.float32)
    values.flat[-1] = value
    path.write_bytes(whole.tensor(name, kind=0, data=values.tobytes()).to_bytes())
    model = GgufModel(path)
    with echo_npu.open("cmodel") as device:
        if value == 1e5 and "norm" in name:
            assert Network(device, model, context=8).layers == 3
        else:
            refuses(ValueError, [name], Network, device, model, context=8)


@pytest.mark.parametrize("head", [0, 1])
def test_scales_that_are_no_numbers(whole: RawGguf, path: Path, head: int) -> None:
    data = bytearray(next(each.data for each in whole.tensors if each.name == NAME))
    data[-20 + 2 * head : -18 + 2 * head] = b"\x00\x7e"
    path.write_bytes(whole.tensor(NAME, data=bytes(data)).to_bytes())
    refuses(ValueError, [f"tensor {NAME} has values"], GgufModel(path).packed, NAME)
