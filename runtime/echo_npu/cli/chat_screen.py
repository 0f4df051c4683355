"""Show an answer that grows, and the figures of each step."""

import contextlib
from collections.abc import Iterator

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from echo_npu.language.generator import GenerationStep

CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
"""Control characters, which would command a terminal, and the visible signs that stand for them (Unicode's
block Control Pictures)."""


def describe(step: GenerationStep) -> str:
    """Return the figures of a step as a line."""
    read = f"{step.count} tokens from position" if step.count > 1 else "token at position"
    facts = [f"{read} {step.position}"]
    if step.cycles:
        facts += [f"{step.cycles:,} cycles", f"{step.cycles / step.device_seconds:,.0f} cycles/s"]
    facts.append(f"{step.seconds:.1f} s")
    if step.cycles:
        facts.append(f"{step.bound / step.cycles:.2f} of the bound")
    if step.checked:
        facts.append(f"{step.checked >> 20} MiB equal to the functional model")
    return " | ".join(facts)


class Screen:
    """Text on standard output, figures beside it.

    On a terminal the figures of the last step stand in a line below the text. Elsewhere each step has its
    line on standard error.

    Args:
        enabled: whether anything is shown.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._console = Console(highlight=False)
        self._errors = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._text = Text()
        self._spinner = Spinner("dots", style="dim")

    def say(self, sentence: str) -> None:
        """Print a hint."""
        if self._enabled:
            self._errors.print(Text(sentence, style="dim"))

    @contextlib.contextmanager
    def answer(self, activity: str) -> Iterator[None]:
        """Show an answer until the `with` block ends; `activity` is what happens first."""
        if not self._enabled:
            yield
        elif self._console.is_terminal:
            self._text = Text()
            self._spinner.update(text=Text(activity, style="dim"))
            self._live = Live(
                Group(self._text, self._spinner), console=self._console, vertical_overflow="visible"
            )
            try:
                with self._live:
                    yield
                    self._live.update(Group(self._text, self._spinner.text))
            finally:
                self._live = None
        else:
            try:
                yield
            finally:
                typer.echo()

    def add(self, text: str) -> None:
        """Append to the answer. A terminal shows its control characters as signs."""
        if self._live is not None:
            self._text.append(text.translate(CONTROLS))
        elif self._enabled:
            typer.echo(text, nl=False)

    def step(self, figures: str) -> None:
        """Show the figures of a step."""
        if self._live is not None:
            self._spinner.update(text=Text(figures, style="dim"))
        elif self._enabled:
            self.say(figures)
