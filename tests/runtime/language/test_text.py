"""Chat templates, stops, and text that grows token by token."""

from pathlib import Path

import pytest

from echo_npu.language import text
from echo_npu.language.text import GrowingText, chat_prompt, stop_tokens
from echo_npu.models.gguf_model import GgufModel
from tests.refusals import refuses
from tests.runtime.model_files import write_model
from tests.runtime.raw_gguf import RawGguf

TALK = [{"role": "system", "content": "be the"}, {"role": "user", "content": "hi"}]


def test_the_template_of_the_file(model: GgufModel) -> None:
    ids = chat_prompt(model, TALK)
    assert model.tokenizer.decode(ids) == "system: be the\nuser: hi\nassistant: "


def templated(tmp_path: Path, template: str | None) -> GgufModel:
    path = tmp_path / "templated.gguf"
    write_model(path, template=template)
    return GgufModel(path)


def test_special_tokens_of_a_template(tmp_path: Path) -> None:
    source = templated(tmp_path, "{{ eos_token }}{{ bos_token }}{{ messages[1]['content'] }}")
    assert chat_prompt(source, TALK)[0] == 0
    assert source.tokenizer.decode(chat_prompt(source, TALK), skip_special_tokens=True) == "hi"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (None, "no metadata field tokenizer.chat_template"),
        ("{% for %}", "does not work"),
        ("{{ messages[9].content.upper() }}", "does not work"),
        ("{{ raise_exception('no system message') }}", "refuses the conversation: no system message"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "does not work"),
        ("{% include '/etc/passwd' %}", "does not work"),
        ("{{ 1 / 0 }}", "does not work: division by zero"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "does not work"),
        ("{{ 'a' * 10 ** 10 }}", "does not work"),
        ("{{ 'a' * (2 * 10 ** 7) }}", "does not work: its text has 20000000 characters"),
    ],
)
def test_templates_that_do_not_work(tmp_path: Path, template: str | None, words: str) -> None:
    refuses(ValueError, words, chat_prompt, templated(tmp_path, template), TALK)


def test_a_template_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops = "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3
    source = templated(tmp_path, loops)
    monkeypatch.setattr(text, "TEMPLATE_SECONDS", 1)
    refuses(ValueError, ["does not work", "over 1 seconds"], chat_prompt, source, TALK)


def test_stops(model: GgufModel, model_path: Path, tmp_path: Path) -> None:
    assert stop_tokens(model) == (0,)
    path = tmp_path / "stops.gguf"
    path.write_bytes(RawGguf.read(model_path).field("tokenizer.ggml.eot_token_id", "u32", 7).to_bytes())
    assert stop_tokens(GgufModel(path)) == (0, 7)


@pytest.mark.parametrize("whole", ["plain", "é the ü", "日本 the 🦆!", "a\n\n b"])
def test_text_grows_by_whole_characters(model: GgufModel, whole: str) -> None:
    grown = GrowingText(model.tokenizer)
    parts = [grown.add(token) for token in model.tokenizer.encode(whole).ids]
    assert "".join(parts) == grown.text == whole
    assert all("\N{REPLACEMENT CHARACTER}" not in part for part in parts)


def test_special_tokens_are_shown(model: GgufModel) -> None:
    assert GrowingText(model.tokenizer).add(0) == "<|end|>"


def test_broken_characters_come_at_the_end(model: GgufModel) -> None:
    first, second = model.tokenizer.encode("é").ids
    grown = GrowingText(model.tokenizer)
    assert [grown.add(first), grown.finish()] == ["", "\N{REPLACEMENT CHARACTER}"]
    whole = GrowingText(model.tokenizer)
    assert [whole.add(first), whole.add(second), whole.finish()] == ["", "é", ""]
