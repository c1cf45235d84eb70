"""Test sets of sacreBLEU, such as `sacrebleu:wmt15`."""

import socket
from pathlib import Path

from simulmt.data.pairs import FilePair
from simulmt.errors import UserError
from simulmt.system.console import console, note
from simulmt.system.ending import Ended
from simulmt.system.lock import alone

PREFIX = "sacrebleu:"
"""What is before the name of a test set."""
_PATIENCE = 20.0  # seconds for an answer of the network


def is_test_set(name: str) -> bool:
    """Return True if a name is that of a test set of sacreBLEU."""
    return name.startswith(PREFIX)


def find_set(name: str, source: str, target: str) -> FilePair:
    """Return the files of a test set, which sacreBLEU downloads if they are absent.

    If there are several references, the first one is used.

    Args:
        name: the name, such as "sacrebleu:wmt15".
        source: language code of the source.
        target: language code of the target.

    Raises:
        UserError: there is no such test set, it lacks the language pair, or it cannot be
            downloaded.
    """
    from sacrebleu import utils  # noqa: PLC0415

    own, pair, place = name.removeprefix(PREFIX), f"{source}-{target}", Path(utils.SACREBLEU_DIR)
    if pair not in (pairs := utils.get_langpairs_for_testset(own)):
        has = f"it has {', '.join(pairs)}" if pairs else "`sacrebleu --list` shows all test sets"
        files = "or give source=FILE target=FILE"  # a model may name its languages otherwise
        raise UserError(f"sacreBLEU has no {name} {pair}; {has}, {files}")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)  # sacreBLEU itself sets no limit
    try:
        place.mkdir(parents=True, exist_ok=True)
        turn = alone(place / own.replace("/", "_"))  # of the ranks of a run
        with console.status(name), turn:
            path = utils.get_source_file(own, pair)
            references = utils.get_reference_files(own, pair)
    except Ended:
        raise
    except (Exception, SystemExit) as error:  # of several libraries; sacreBLEU exits
        why = "the download is corrupt" if isinstance(error, SystemExit) else error
        raise UserError(
            f"{name} {pair}: {why}; `sacrebleu -t {own} -l {pair} --echo src` fetches it into "
            f"{place} on a machine with a network; if the copy there is corrupt, remove "
            f"{place / own} first"
        ) from None
    finally:
        socket.setdefaulttimeout(before)
    if len(references) > 1:
        note(f"{name} {pair} has {len(references)} references: the first one is used")
    return FilePair(Path(path), Path(references[0]))
