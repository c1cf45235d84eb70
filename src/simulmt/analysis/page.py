"""A web page that plays sentences back, in one file: data, style and script (`page.html`)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simulmt.analysis.templates import write_html
from simulmt.analysis.trace_picture import head_names, union_name
from simulmt.decoding.trace import Trace


def write_page(traces: Sequence[Trace], path: Path, heads: str) -> None:
    """Write the page; the same sentences give the same bytes.

    Args:
        traces: The sentences, at least one.
        path: The path of the page.
        heads: `union` shows all heads together first, `each` the first head.
    """
    data = {"heads": heads, "sentences": [_sentence(trace) for trace in traces]}
    write_html("page.html", path, data=data)


def _sentence(trace: Trace) -> dict[str, object]:
    """Return the data of the script; weights are bytes (255 for 1) by head, target and source."""
    T, layers, heads, S = trace.weights.shape
    weights = trace.weights.reshape(T, layers * heads, S).swapaxes(0, 1)  # (LH, T, S)
    quantised = np.rint(255 * weights).astype(np.uint8).tobytes()
    return {
        "line": trace.line,
        "source": trace.source,
        "target": trace.target,
        "delays": trace.delays,
        "steps": [*trace.steps()],
        "union": union_name(trace),
        "names": head_names(trace),
        "stops": trace.positions,
        "weights": base64.b64encode(quantised).decode("ascii"),
    }
