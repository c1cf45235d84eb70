"""Spans: what a head looks back on once it stands somewhere."""

from simulmt.attention.spans.luong import PredictedWindow, Window
from simulmt.attention.spans.monotonic import Chunk, Lookback, Stopped
from simulmt.attention.spans.span import Look, Span, expectation, weights

__all__ = [
    "SPANS",
    "Chunk",
    "Look",
    "Lookback",
    "PredictedWindow",
    "Span",
    "Stopped",
    "Window",
    "expectation",
    "weights",
]

SPANS: dict[str, type[Span]] = {
    "stopped": Stopped,
    "chunk": Chunk,
    "lookback": Lookback,
    "window": Window,
    "predicted_window": PredictedWindow,
}
"""What `mechanism.span` can name."""
