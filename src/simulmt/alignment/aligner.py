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
    wanted: int | None = None,
) -> list[Links]:
    """Align sentence pairs; the more of them, the better each.

    eflomal samples, and takes its seed from the system: two calls differ in some links.

    Args:
        sources: Words separated by white space; may be empty.
        targets: As many.
        symmetrise: How both directions become one, a name of `SYMMETRISE`.
        wanted: How many pairs to return, the first; the others are aligned for their sake. None:
            all.

    Returns:
        The links of each pair that is wanted; none where a side is empty.

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
                    f"the sentence that begins {side[n][:60]!r} has {words:,} words, the aligner "
                    f"takes {LONGEST:,} at the most: split it, or leave it out"
                )
    found: list[Links] = [frozenset()] * (len(sources) if wanted is None else wanted)
    asked = [n for n in filled if n < len(found)]  # the first of those that are aligned
    left, right = ([side[n] for n in filled] for side in both)
    directions = _both_directions(left, right, len(asked))
    for n, there, back in zip(asked, *directions, strict=True):
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


def _both_directions(
    sources: list[str], targets: list[str], asked: int
) -> tuple[list[Links], list[Links]]:
    check_installed()
    from eflomal import Aligner  # noqa: PLC0415  (optional)

    if not sources:
        return [], []
    logging.getLogger("eflomal").setLevel(logging.WARNING)  # it counts sentences on our output
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("forward", "backward")]
        Aligner().align(sources, targets, *map(str, paths))
        (forward, ahead), (backward, back) = (_first(path, asked) for path in paths)
    if not ahead == back == len(sources):
        raise UserError(
            f"eflomal failed on {len(sources):,} sentence pairs; what it says is above. Is there "
            "enough memory, and is it built for this machine?"
        )
    return forward, backward


def _first(path: Path, asked: int) -> tuple[list[Links], int]:
    """The links of a file's first lines, and how many lines it has."""
    if not path.is_file():
        return [], 0
    links, lines = list[Links](), 0
    with path.open(encoding="ascii") as file:
        for lines, line in enumerate(file, 1):
            if lines <= asked:
                links.append(parse_links(line).sure)
    return links, lines
