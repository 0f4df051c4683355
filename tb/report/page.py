"""Fills the templates of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2


def render(template: str, **values: Any) -> str:
    """The page of `<template>.html.j2`. jinja2.UndefinedError: it needs a value that is not given."""
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
    """A figure's name as it is read: without underscores."""
    return name.replace("_", " ")


def figure(value: Any) -> str:
    """A value in a table: a dash for None, numbers with thousands apart."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
