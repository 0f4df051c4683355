"""Between text and tokens: the chat template of a model file, and text that grows token by token."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from echo_npu.language import template_process
from echo_npu.models.extras import require
from echo_npu.models.gguf_model import GgufModel

TEMPLATE_SECONDS = 10
"""Processor time that a chat template may take."""

Message = dict[str, str]
"""A message of a conversation: "role" (system, user or assistant) and "content"."""


def chat_prompt(model: GgufModel, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of a conversation, up to where the answer begins, as the file's template has them.

    Raises:
        MissingExtraError: jinja2 is not installed.
        ValueError: the file has no chat template, or the template refuses the conversation.
    """
    require("jinja2")
    names = {
        "messages": list(messages),
        "add_generation_prompt": True,
        "bos_token": _special(model, "bos"),
        "eos_token": _special(model, "eos"),
    }
    text = _rendered(model.text("tokenizer.chat_template"), names)
    ids: list[int] = model.tokenizer.encode(text).ids
    return ids


def _rendered(template: str, names: dict[str, Any]) -> str:
    """Return the text of a template; ValueError if it has none, or takes too long."""
    done = subprocess.run(
        [sys.executable, "-P", template_process.__file__],
        input=json.dumps({"template": template, "names": names, "seconds": TEMPLATE_SECONDS}),
        capture_output=True,
        encoding="ascii",
        check=False,
    )
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        answer = {"error": f"it takes over {TEMPLATE_SECONDS} seconds, or too much memory"}
    if "refused" in answer:
        raise ValueError(f"the chat template refuses the conversation: {answer['refused']}")
    if "error" in answer:
        raise ValueError(f"the chat template of the model file does not work: {answer['error']}")
    return answer["text"]


def stop_tokens(model: GgufModel) -> tuple[int, ...]:
    """Return the tokens that end an answer."""
    found = {model.special_token(name) for name in ("eos", "eot")}
    return tuple(sorted(token for token in found if token is not None))


def _special(model: GgufModel, name: str) -> str:
    number = model.special_token(name)
    return "" if number is None else model.texts("tokenizer.ggml.tokens")[number]


class GrowingText:
    """Turns tokens into text as they come; bytes that are no whole character wait for the next token.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.

    Attributes: text (all of it so far).
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self.text = ""

    def add(self, token: int) -> str:
        """Return what a token adds to the text; maybe nothing yet."""
        self._tokens.append(token)
        whole = self._whole()
        return "" if whole.endswith("\N{REPLACEMENT CHARACTER}") else self._grow(whole)

    def finish(self) -> str:
        """Return what still waits, with a replacement character for each broken one."""
        return self._grow(self._whole())

    def _whole(self) -> str:
        return str(self._tokenizer.decode(self._tokens, skip_special_tokens=False))

    def _grow(self, whole: str) -> str:
        added = whole[len(self.text) :]
        self.text = whole
        return added
