"""The papers' analyses of finished runs, under the papers' own names for them.

A study is a function of a `RunSet` and of the options that its signature names. It returns a figure
and the rows of a CSV.
"""

from collections.abc import Callable

from simulmt.analysis.studies.absent_present import absent_present
from simulmt.analysis.studies.aer import aer
from simulmt.analysis.studies.attention_span import attention_span
from simulmt.analysis.studies.bins import by_length, by_reordering
from simulmt.analysis.studies.faithfulness import faithfulness
from simulmt.analysis.studies.head_positions import head_positions
from simulmt.analysis.studies.initial_delay import initial_delay
from simulmt.analysis.studies.layers_heads import layers_heads
from simulmt.analysis.studies.run_set import Result

_DECODED = (head_positions, by_length, by_reordering, absent_present, faithfulness, aer)
STUDIES: dict[str, Callable[..., Result]] = {
    study.__name__: study for study in (initial_delay, attention_span, layers_heads, *_DECODED)
}
"""The studies, by name."""
