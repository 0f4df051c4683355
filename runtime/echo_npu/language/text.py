"""Between text and tokens: the chat template of a model file, and text that grows token by token."""

from collections.abc import Sequence
from typing import Any

from echo_npu.models.extras import require
from echo_npu.models.gguf_model import GgufModel

Message = dict[str, str]
"""A message of a conversation: "role" (system, user or assistant) and "content"."""


def chat_prompt(model: GgufModel, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of a conversation, up to where the answer begins, as the file's template has them.

    Raises:
        MissingExtraError: jinja2 is not installed.
        ValueError: the file has no chat template, or the template refuses the conversation.
    """
    jinja2 = require("jinja2")
    sandbox = require("jinja2.sandbox")
    template = model.metadata("tokenizer.chat_template")
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def refuse(message: str) -> None:
        raise ValueError(f"the chat template refuses the conversation: {message}")

    try:
        text = environment.from_string(template).render(
            messages=list(messages),
            add_generation_prompt=True,
            bos_token=_special(model, "bos"),
            eos_token=_special(model, "eos"),
            raise_exception=refuse,
        )
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template of the model file does not work: {error}") from None
    ids: list[int] = model.tokenizer.encode(text).ids
    return ids


def stop_tokens(model: GgufModel) -> tuple[int, ...]:
    """Return the tokens that end an answer."""
    found = {model.optional(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")}
    return tuple(sorted(int(token) for token in found if token is not None))


def _special(model: GgufModel, name: str) -> str:
    number = model.optional(f"tokenizer.ggml.{name}_token_id")
    return "" if number is None else str(model.metadata("tokenizer.ggml.tokens")[number])


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
