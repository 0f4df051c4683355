"""Figures as SVG, for reports that are one file."""

from __future__ import annotations

import base64
import io

import matplotlib as mpl
from matplotlib.figure import Figure


def svg(figure: Figure) -> str:
    """The picture as SVG; the same picture is the same text, wherever and whenever it is drawn."""
    with mpl.rc_context({"svg.hashsalt": "echo-npu", "svg.fonttype": "none"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # Text is drawn by whoever shows it, in a font that is there.
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def address(figure: Figure) -> str:
    """The picture as an address that contains it, for <img src>."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg(figure).encode()).decode()}"
