"""Attention to a source that may still be growing.

Three questions make a mechanism: when to read (`clocks` decide before the decoder, `schedules`
inside its attention), where to look (`spans`), and how to weigh what is seen (`scores`).
`mechanism` holds the answers; `attention` puts them together in each layer.
"""

from simulmt.attention.attention import Attended, Attention, Stepped
from simulmt.attention.clocks import FullSentence, WaitK
from simulmt.attention.mechanism import Mechanism
from simulmt.attention.memory import Memory
from simulmt.attention.moment import TRAINED, Moment
from simulmt.attention.plan import Losses, Plan, Stand
from simulmt.attention.schedules import Monotonic
from simulmt.attention.source import Past, Source
from simulmt.attention.spans import Lookback
from simulmt.attention.usual import RECURRENT

__all__ = [
    "RECURRENT",
    "TRAINED",
    "Attended",
    "Attention",
    "FullSentence",
    "Lookback",
    "Losses",
    "Mechanism",
    "Memory",
    "Moment",
    "Monotonic",
    "Past",
    "Plan",
    "Source",
    "Stand",
    "Stepped",
    "WaitK",
]
