"""Test sets that sacreBLEU knows, such as `sacrebleu:wmt15`."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from urllib.error import URLError

from simulmt.console import busy, note
from simulmt.data.files import FilePair
from simulmt.errors import UserError
from simulmt.lock import alone

PREFIX = "sacrebleu:"
"""What is before the name of a test set."""
_PATIENCE = 20.0  # seconds for an answer of the network
_CLOSEST = 8  # names in a message


def is_test_set(name: str) -> bool:
    """Return whether a name is that of a test set of sacreBLEU."""
    return name.startswith(PREFIX)


def find_set(name: str, source: str, target: str) -> FilePair:
    """Return the files of a test set, which sacreBLEU fetches if they are not there yet.

    Of several references the first one counts.

    Args:
        name: the name, such as "sacrebleu:wmt15".
        source: language code of the source.
        target: language code of the target.

    Raises:
        UserError: sacreBLEU knows no such test set, it lacks the language pair, or it cannot be
            fetched.
    """
    from sacrebleu.utils import (  # noqa: PLC0415
        SACREBLEU_DIR,
        get_reference_files,
        get_source_file,
    )

    own, pair = name.removeprefix(PREFIX), f"{source}-{target}"
    _check(own, pair)
    place = Path(SACREBLEU_DIR)
    with busy(name), _one_line(own, pair, place), _bounded(), _alone(place / own):
        path, references = get_source_file(own, pair), get_reference_files(own, pair)
    if len(references) > 1:
        note(f"{name} {pair} has {len(references)} references: the first one counts")
    return FilePair(Path(path), Path(references[0]))


def _check(own: str, pair: str) -> None:
    """Refuse a test set that sacreBLEU does not know, or that lacks the language pair."""
    from sacrebleu.dataset import DATASETS  # noqa: PLC0415

    if own not in DATASETS:
        names = get_close_matches(own, DATASETS, _CLOSEST, 0.5) or sorted(DATASETS)
        raise UserError(
            f"{PREFIX}{own}: sacreBLEU knows no such test set; the closest names: "
            f"{', '.join(names)} (`sacrebleu --list` shows all)"
        )
    if pair not in DATASETS[own].langpairs:
        raise UserError(
            f"{PREFIX}{own} lacks {pair}; it has {', '.join(sorted(DATASETS[own].langpairs))}: "
            "choose another test set, or other languages"
        )


@contextmanager
def _one_line(own: str, pair: str, place: Path) -> Iterator[None]:
    """Turn whatever sacreBLEU's download ends with into a UserError, and keep its log quiet."""
    beforehand = f"`sacrebleu -t {own} -l {pair} --echo src`"
    log = logging.getLogger("sacrebleu")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (URLError, ConnectionError, TimeoutError) as error:
        raise UserError(
            f"{PREFIX}{own} is not in {place} yet, and cannot be fetched ({error}): type "
            f"{beforehand} where there is a network, and copy {place / own} or set SACREBLEU to "
            "a folder that has it"
        ) from None
    except (Exception, SystemExit) as error:  # sacreBLEU exits if a checksum is wrong
        why = "wrong checksum" if isinstance(error, SystemExit) else error
        raise UserError(
            f"{PREFIX}{own} in {place} is damaged or cannot be written ({why}): remove "
            f"{place / own}, and type {beforehand}"
        ) from None
    finally:
        log.setLevel(level)


@contextmanager
def _bounded() -> Iterator[None]:
    """Bound how long the network may be silent: sacreBLEU itself sets no limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for other processes of a run that fetch the same test set."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        yield
