"""The word aligner eflomal (Östling and Tiedemann 2016), which needs only the text of a corpus.

No other file imports eflomal, an optional package.
"""

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from simulmt.alignment.links import Links, bare_word, parse_links
from simulmt.alignment.symmetrise import SYMMETRISE
from simulmt.data.text import word_count
from simulmt.errors import UserError
from simulmt.options import pick

LONGEST = 1023
"""The most words of a sentence: eflomal treats longer sentences as empty."""


def align_text(
    sources: Sequence[str],
    targets: Sequence[str],
    symmetrise: str = "grow-diag-final-and",
    wanted: int | None = None,
) -> list[Links]:
    """The links of each sentence pair; an empty set where a side is empty.

    More pairs give better links. eflomal samples with a seed from the system, so two calls differ
    in some links.

    Args:
        sources: words separated by white space; may be empty.
        targets: the same number of sentences.
        symmetrise: how to combine both directions, a name of `SYMMETRISE`.
        wanted: the number of pairs to return, from the first; the other pairs only improve the
            links of these. None returns all.

    Raises:
        UserError: eflomal is not installed or failed, `symmetrise` is unknown, or a sentence is
            too long.
    """
    combine = pick(SYMMETRISE, symmetrise, "symmetrise")
    pairs = [(_forms(left), _forms(right)) for left, right in zip(sources, targets, strict=True)]
    filled = [number for number, pair in enumerate(pairs) if all(pair)]
    for line in chain.from_iterable(pairs[number] for number in filled):
        if (words := word_count(line)) > LONGEST:
            raise UserError(
                f"the sentence that begins {line[:60]!r} has {words:,} words, but the aligner "
                f"takes at most {LONGEST:,}: split it, or leave it out"
            )
    links: list[Links] = [frozenset()] * (len(pairs) if wanted is None else wanted)
    returned = [number for number in filled if number < len(links)]
    left, right = ([pairs[number][side] for number in filled] for side in (0, 1))
    forward, backward = _both_directions(left, right, len(returned))
    for number, there, back in zip(returned, forward, backward, strict=True):
        links[number] = combine(there, back)
    return links


def check_installed() -> None:
    """Check that `align_text` can run, before any work.

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
    return " ".join(map(bare_word, line.split()))


def _both_directions(
    sources: list[str], targets: list[str], wanted: int
) -> tuple[list[Links], list[Links]]:
    """The links of the first `wanted` pairs: forward, then backward."""
    check_installed()
    from eflomal import Aligner  # noqa: PLC0415  (optional)

    if not sources:
        return [], []
    logging.getLogger("eflomal").setLevel(logging.WARNING)  # else it prints sentence counts
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("forward", "backward")]
        Aligner().align(sources, targets, *map(str, paths))
        sides = [p.read_text("ascii").splitlines() if p.is_file() else [] for p in paths]
    if any(len(lines) != len(sources) for lines in sides):
        raise UserError(
            f"eflomal failed on {len(sources):,} sentence pairs; its message is above. Check that "
            "there is enough memory and that eflomal was built for this machine"
        )
    forward, backward = ([parse_links(line).sure for line in lines[:wanted]] for lines in sides)
    return forward, backward
