"""Spans, and the table that `mechanism.span` is looked up in."""

from simulmt.attention.spans.luong import PredictedWindow, Window
from simulmt.attention.spans.monotonic import Chunk, Lookback, Stopped
from simulmt.attention.spans.span import Look, Span, SpanRecipe, weights

__all__ = ["SPANS", "Look", "Lookback", "Span", "SpanRecipe", "weights"]

SPANS: dict[str, type[SpanRecipe]] = {
    "stopped": Stopped,
    "chunk": Chunk,
    "lookback": Lookback,
    "window": Window,
    "predicted_window": PredictedWindow,
}
"""What `mechanism.span` can name."""
