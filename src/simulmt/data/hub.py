"""Data sets on the Hugging Face hub: a repository's files at one commit, and their download."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from simulmt.console import busy, console, note
from simulmt.data.listing import ENDING, Listing
from simulmt.data.pairs import Block
from simulmt.data.parquet import NEEDED, Columns, ParquetShard
from simulmt.data.store import Entry, digest
from simulmt.errors import UserError

CONVERTED = "refs/convert/parquet"
"""The branch with the hub's own conversion of a data set to Parquet."""
_PATIENCE = 20.0  # seconds for an answer of the hub
_GROWTH = 3  # the usual size of text over that of its Parquet file
_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True)
class Repository:
    """The Parquet files of a data set on the hub, at one commit.

    Attributes:
        name: The data set, such as `wmt/wmt14`.
        commit: The commit in hex.
        files: The size in bytes and the digest of each file, by its path.
        configs: The entries `configs` of the card.
    """

    name: str
    commit: str
    files: Mapping[str, tuple[int, str]]
    configs: tuple[Mapping[str, Any], ...]

    @property
    def listing(self) -> Listing:
        """The files, by configuration and split."""
        where = f"{self.name} on the hub (commit {self.commit[:12]})"
        remedy = f"data.revision={CONVERTED} may have more; a pattern of files is a split, too"
        return Listing(where, sorted(self.files), self.configs, remedy)

    def shard(self, file: str, columns: Columns, chosen: Columns | None) -> "HubShard":
        """Return a file as a shard."""
        return HubShard(self.name, self.commit, file, *self.files[file], columns, chosen)


@dataclass(frozen=True)
class HubShard:
    """A Parquet file on the hub, which is fetched when its pairs are read.

    Attributes:
        repository: The data set.
        commit: The commit in hex.
        file: The path in the repository.
        bytes: The size of the file.
        digest: The SHA-256 of the file as the hub knows it, so nothing is fetched to find the text
            in the cache.
        languages: The language codes.
        columns: The columns if they have other names.
    """

    repository: str
    commit: str
    file: str
    bytes: int
    digest: str
    languages: Columns
    columns: Columns | None = None

    def __str__(self) -> str:
        return f"{self.file} of {self.repository}"

    @property
    def stamp(self) -> object:
        """The place of the file, whose content never changes."""
        return [self.repository, self.commit, self.file, *self.digests]

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of the file, and the columns."""
        return [self.digest, *(self.columns or self.languages)]

    @property
    def size(self) -> int:
        """The bytes that the text takes, more or less."""
        return _GROWTH * self.bytes

    def blocks(self) -> Iterator[Block]:
        """The texts of both columns, as of a local file.

        Raises:
            UserError: the file cannot be fetched, or as for a local file.
        """
        hub = _library()
        if not console.is_terminal:
            hub.utils.disable_progress_bars()
            note(f"fetching {self}: {self.bytes / 2**20:,.0f} MiB")
        with _one_line(self.repository, self.commit):
            path = hub.hf_hub_download(
                self.repository, self.file, repo_type="dataset", revision=self.commit
            )
        yield from ParquetShard(Path(path), self.languages, self.columns).blocks()


def is_name(path: str) -> bool:
    """Return whether a text may be the name of a data set on the hub: NAME or OWNER/NAME."""
    return _NAME.fullmatch(path) is not None


def repository(name: str, revision: str | None, cache: Path | None) -> Repository:
    """Return what a repository has; the hub's own conversion if it has no Parquet file itself.

    The hub is asked once: the cache keeps the commit, so every later start reads the same text.

    Args:
        name: the data set.
        revision: a branch, a tag or a commit; None for `main`, or the conversion.
        cache: the folder that keeps what the hub has answered; None to ask each time.

    Raises:
        UserError: the hub has no such data set, or cannot be asked.
    """
    here = _at(name, revision or "main", cache)
    if revision is None and not here.files:
        here = replace(_at(name, CONVERTED, cache), configs=())
    note(f"{name}: commit {here.commit}")
    return here


def _at(name: str, revision: str, cache: Path | None) -> Repository:
    """Return what a repository has at a revision."""
    ask = partial(_ask, name, revision)
    facts = Entry(cache / "hub" / digest([name, revision]), ask).record.facts if cache else ask()
    files = {path: (size, sha256) for path, (size, sha256) in facts["files"].items()}
    return Repository(name, facts["commit"], files, tuple(facts["configs"]))


def _ask(name: str, revision: str, _: Path | None = None) -> dict[str, Any]:
    """Return what the hub says of a data set, as plain values."""
    hub = _library()
    with busy(name), _one_line(name, revision):
        info = hub.HfApi().dataset_info(
            name, revision=revision, timeout=_PATIENCE, files_metadata=True
        )
    card = info.card_data.to_dict() if info.card_data else {}
    files = {
        file.rfilename: (file.size or 0, file.lfs.sha256 if file.lfs else f"git {file.blob_id}")
        for file in info.siblings or ()
        if file.rfilename.endswith(ENDING)
    }
    return {"commit": info.sha, "files": files, "configs": card.get("configs") or []}


def _library() -> ModuleType:
    try:
        import huggingface_hub  # noqa: PLC0415
    except ImportError:
        raise UserError(f"data sets on the hub need huggingface_hub, {NEEDED}") from None
    return huggingface_hub


@contextmanager
def _one_line(name: str, revision: str) -> Iterator[None]:
    """Turn whatever a request to the hub ends with into a UserError."""
    from huggingface_hub import errors  # noqa: PLC0415

    beforehand = f"`hf download {name} --repo-type dataset --local-dir DIR`"
    try:
        yield
    except errors.GatedRepoError:
        raise UserError(
            f"{name}: its owner wants you to accept terms; do so on its page, and type "
            "`hf auth login`"
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"data.path={name} is no folder here, and the hub has no such data set: correct it "
            "(for a private one, type `hf auth login`)"
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(
            f"{name} on the hub has no revision {revision}: give a branch, a tag or a commit"
        ) from None
    except Exception as error:  # of the operating system and of several libraries
        offline = "HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else error
        raise UserError(
            f"data.path={name} is no folder here, and the hub cannot be asked for it ({offline}): "
            f"type {beforehand} where there is a network, and give data.path=DIR"
        ) from None
