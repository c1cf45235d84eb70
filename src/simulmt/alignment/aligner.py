"""eflomal (Östling and Tiedemann 2016), which aligns a corpus from its text alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from simulmt.alignment.links import Links, form, parse_links
from simulmt.alignment.symmetrise import SYMMETRISE
from simulmt.errors import UserError
from simulmt.options import pick

LONGEST = 1023
"""Words of a sentence: eflomal takes longer ones for empty."""


def align_text(
    sources: Sequence[str],
    targets: Sequence[str],
    symmetrise: str = "grow-diag-final-and",
) -> list[Links]:
    """Align sentence pairs; the more of them, the better each.

    eflomal samples, and takes its seed from the system: two calls differ in some links.

    Args:
        sources: Words separated by white space; may be empty.
        targets: As many.
        symmetrise: How both directions become one, a name of `SYMMETRISE`.

    Returns:
        The links of each pair; none where a side is empty.

    Raises:
        UserError: eflomal is not installed or failed, a name that is unknown, a sentence that is
            too long.
    """
    join = pick(SYMMETRISE, symmetrise, "symmetrise")
    both = [[_forms(line) for line in side] for side in (sources, targets)]
    filled = [n for n, (left, right) in enumerate(zip(*both, strict=True)) if left and right]
    for side in both:
        for n in filled:
            if (words := side[n].count(" ") + 1) > LONGEST:
                raise UserError(
                    f"sentence pair {n + 1} has a side of {words:,} words, the aligner takes "
                    f"{LONGEST:,} at the most: split it, or leave it out"
                )
    found: list[Links] = [frozenset() for _ in sources]
    forward, backward = _both_directions(*([side[n] for n in filled] for side in both))
    for n, there, back in zip(filled, forward, backward, strict=True):
        found[n] = join(there, back)
    return found


def check_installed() -> None:
    """Refuse before the work what `align_text` would refuse.

    Raises:
        UserError: eflomal is not installed.
    """
    try:
        import eflomal  # noqa: F401, PLC0415  (optional)
    except ImportError:
        raise UserError(
            'word alignment needs a package, and a C compiler to install it: pip install "simulmt'
            '[align]"'
        ) from None


def _forms(line: str) -> str:
    return " ".join(map(form, line.split()))


def _both_directions(sources: list[str], targets: list[str]) -> tuple[list[Links], list[Links]]:
    check_installed()
    from eflomal import Aligner  # noqa: PLC0415  (optional)

    if not sources:
        return [], []
    logging.getLogger("eflomal").setLevel(logging.WARNING)  # it counts sentences on our output
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("forward", "backward")]
        Aligner().align(sources, targets, *map(str, paths))
        texts = [p.read_text("ascii") if p.is_file() else "" for p in paths]
    forward, backward = ([parse_links(line).sure for line in t.splitlines()] for t in texts)
    if not len(forward) == len(backward) == len(sources):
        raise UserError(
            f"eflomal failed on {len(sources):,} sentence pairs; what it says is above. Is there "
            "enough memory, and is it built for this machine?"
        )
    return forward, backward
