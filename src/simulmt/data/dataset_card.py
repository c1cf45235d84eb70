"""Checks the card of a Hugging Face data set: `datasets` would never finish reading some cards."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

_CARDS = ("README.md", ".huggingface.yaml")
_LARGEST, _DEEPEST, _STARS = 4 << 20, 50, 3
_HEAD = re.compile(r"\s*---(?:\r\n|\r|\n)(.*?)(?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$)", re.DOTALL)


def check_cards(path: str, revision: str | None) -> None:
    """Check the cards of a data set, in a folder or on the Hub, before `datasets` reads them.

    Raises:
        ValueError: a card is too large or too deeply nested, has YAML aliases, or a pattern of
            files with too many stars, which takes exponential time to match.
    """
    for card in _cards(path, revision):
        if card.stat().st_size > _LARGEST:
            raise ValueError(f"{card.name} has more than {_LARGEST >> 20} MiB")
        text = card.read_bytes().decode()
        if card.suffix == ".yaml":
            _check_yaml(text, card.name)
        elif head := _HEAD.match(text):
            _check_yaml(head[1], card.name)


def _cards(path: str, revision: str | None) -> Iterator[Path]:
    from huggingface_hub import hf_hub_download  # noqa: PLC0415  (optional, as `datasets` is)

    place = Path(path).expanduser()
    for name in _CARDS:
        card = place / name
        if not place.is_dir():
            with suppress(Exception):  # `datasets` needs the same file, and has the better message
                card = Path(hf_hub_download(path, name, repo_type="dataset", revision=revision))
        if card.is_file():
            yield card


def _check_yaml(text: str, name: str) -> None:
    """Check the events of YAML, of which nothing is built."""
    depth, key = 0, ""
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            raise ValueError(f"{name} has YAML aliases, or more than {_DEEPEST} levels")
        if isinstance(event, yaml.ScalarEvent):
            key = event.value if depth == 1 else key
            parts = event.value.split("/") if key in {"configs", "<<"} else []
            if parts.count("**") > 1 or any(part.count("*") > _STARS for part in parts):
                raise ValueError(
                    f"the pattern {event.value[:80]!r} in {name} has more than one `**`, or more "
                    f"than {_STARS} stars between two slashes"
                )
