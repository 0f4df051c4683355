"""Figures as SVG, embedded in reports."""

import base64
import io

import matplotlib as mpl
from matplotlib.figure import Figure


def svg(figure: Figure) -> str:
    """Return the picture as SVG; the text is reproducible."""
    with mpl.rc_context({"svg.hashsalt": "echo-npu", "svg.fonttype": "none"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # The viewer draws text in a font that it has.
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def address(figure: Figure) -> str:
    """Return the picture as a data URL, for <img src>."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg(figure).encode()).decode()}"
