"""Render a chat template, in a process of its own: `python template_process.py`, JSON both ways.

A template is a program out of a model file. The sandbox keeps it from everything else, but ends no endless
loop and no text of gigabytes; the limits of a process do.
"""

import json
import resource
import sys
from typing import Any, Final

MOST_BYTES: Final = 1 << 30
"""Memory that a template may take."""

MOST_CHARACTERS: Final = 1 << 24
"""Characters that it may write."""


def _render(template: str, names: dict[str, Any]) -> str:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def refuse(message: str) -> None:
        raise _RefusedError(message)

    return environment.from_string(template).render(**names, raise_exception=refuse)


class _RefusedError(Exception):
    pass


def main() -> None:
    """Read a template, its names and its seconds of processor time; write its text, or what is wrong."""
    given = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (given["seconds"],) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    try:
        text = _render(given["template"], given["names"])
        if len(text) > MOST_CHARACTERS:
            raise OverflowError(f"its text has {len(text)} characters, over {MOST_CHARACTERS}")
        answer = {"text": text}
    except _RefusedError as error:
        answer = {"refused": str(error)}
    except Exception as error:  # a template raises whatever it likes
        answer = {"error": str(error) or type(error).__name__}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
