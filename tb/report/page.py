"""Render the templates of this folder."""

from pathlib import Path
from typing import Any

import jinja2


def render(template: str, **values: Any) -> str:
    """Render `<template>.html.j2`. Raises jinja2.UndefinedError if a value is missing."""
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["figure"] = figure
    environment.filters["words"] = words
    return environment.get_template(f"{template}.html.j2").render(**values)


def words(name: str) -> str:
    """Replace a figure's underscores by blanks."""
    return name.replace("_", " ")


def figure(value: Any) -> str:
    """Format a table cell: a dash for None, numbers with thousands separators."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
